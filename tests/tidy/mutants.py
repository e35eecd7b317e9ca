#!/usr/bin/env python3
"""Planted faults: each must be killed by a named test.

    mutants.py --root ROOT --build BUILD MANIFEST.json [--only NAME]

A manifest lists the sources of one layer, small test programs, and faults. A fault is a textual
replacement in one file of a copy; the product's own files are never touched and know nothing of it.

    {
      "libs":    ["-lgtest"],
      "sources": ["policy/*.cpp"],              what every test program links
      "tests":   {"core": {"sources": ["tests/policy/x_test.cpp"], "args": [], "main": true}},
      "mutants": [{"name": "no lift", "file": "policy/share_tree.cpp",
                   "find": "...", "replace": "...", "test": "core", "filter": "ShareTree.*"}]
    }

BUILD is a finished Meson folder. Its objects are linked as they are; only what includes the changed
file is compiled again, with the folder's own command for that source at -O1. "main": true links
GoogleTest's own main. `find` must occur exactly once. First every filter that a mutant names must
select tests and pass on the unchanged sources; then, mutant by mutant, the same filter must fail.
As many mutants as there are processors are tried at a time.

Exit: 0 all killed; 1 a mutant survived, does not apply, or does not compile.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

# The reports of planted programs, which fail on purpose, would be counted as results.
os.environ.pop("GTEST_OUTPUT", None)

TEST_LIMIT_S = 120


def fail(message):
    print(f"mutants: {message}")
    sys.exit(1)


class Builder:
    """Knows the build folder's objects and compiles a source again over a mutant's copy."""

    def __init__(self, root, build, libs):
        self.root, self.build, self.libs = root, build, libs
        self.entries = {}  # source, relative to the root -> its compile command
        with open(os.path.join(build, "compile_commands.json")) as file:
            for entry in json.load(file):
                path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
                self.entries.setdefault(os.path.relpath(path, root), entry)
        self.includes = self.read_includes()

    def read_includes(self):
        """object -> the files it was made from, relative to the root, as ninja recorded them."""
        listed = subprocess.run(["ninja", "-C", self.build, "-t", "deps"], capture_output=True,
                                text=True, check=True).stdout
        includes, current = {}, None
        for line in listed.splitlines():
            if line.startswith("    "):
                path = os.path.normpath(os.path.join(self.build, line.strip()))
                current.add(os.path.relpath(path, self.root))
            elif ": #deps" in line:
                current = includes.setdefault(line.split(": #deps")[0], set())
        return includes

    def entry_of(self, source):
        if source not in self.entries:
            fail(f"{source} belongs to no target of {self.build}")
        return self.entries[source]

    def object_of(self, source):
        path = os.path.join(self.build, self.entry_of(source)["output"])
        if not os.path.exists(path):
            fail(f"{path} is not built; run ninja -C {self.build}")
        return path

    def depends_on(self, source, file):
        return file in self.includes.get(self.entry_of(source)["output"], {source})

    def compile_mutant(self, source, overlay):
        """The object of `source`, which finds the overlay's copy of a file before the root's."""
        entry = self.entry_of(source)
        words = shlex.split(entry["command"])
        for flag in ("-o", "-MF", "-MQ"):
            while flag in words:
                at = words.index(flag)
                del words[at:at + 2]
        words = [word for word in words if word not in ("-MD", "-c", entry["file"])]
        changed = os.path.join(overlay, source)
        path = changed if os.path.exists(changed) else os.path.join(self.root, source)
        target = os.path.join(overlay, source.replace("/", "_") + ".o")
        first = next(at for at, word in enumerate(words) if word.startswith("-"))
        command = [*words[:first], "-I", overlay, *words[first:], "-w", "-O1", "-c", path,
                   "-o", target]
        done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
        return (target, "") if done.returncode == 0 else (None, done.stderr)

    def link(self, objects, program, with_main):
        libs = ["-lgtest_main", *self.libs] if with_main else self.libs
        compiler = [word for word in shlex.split(next(iter(self.entries.values()))["command"])
                    if not word.startswith("-")]
        compiler = compiler[:2] if compiler[0].endswith("ccache") else compiler[:1]
        done = subprocess.run([*compiler, *objects, "-o", program, *libs, "-lpthread"],
                              cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            fail(f"{program} does not link:\n{done.stderr}")


def run(program, test, filter_text, list_only=False):
    flag = ["--gtest_list_tests"] if list_only else []
    command = [program, *test.get("args", []), f"--gtest_filter={filter_text}", *flag]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TEST_LIMIT_S)
    except subprocess.TimeoutExpired:
        return None  # a mutant that hangs the test is noticed by it


def expand(root, patterns):
    names = []
    for pattern in patterns:
        found = sorted(glob.glob(os.path.join(root, pattern)))
        if not found:
            fail(f"no file matches {pattern}")
        names += [os.path.relpath(name, root) for name in found]
    return names


def check_base(builder, manifest, objects, folder):
    """Every filter selects something and passes on the unchanged sources."""
    programs = {}
    for name, test in manifest["tests"].items():
        programs[name] = os.path.join(folder, "base_" + name)
        builder.link(objects[name], programs[name], test.get("main", True))
        filters = sorted({m["filter"] for m in manifest["mutants"] if m["test"] == name})
        for text in filters:
            listed = run(programs[name], test, text, list_only=True)
            if listed is None or "  " not in listed.stdout:
                fail(f"{name}: the filter {text} selects no test")
        if filters:
            done = run(programs[name], test, ":".join(filters))
            if done is None or done.returncode != 0:
                output = done.stdout[-2000:] if done else "out of time"
                fail(f"{name} fails without any mutant:\n{output}")


def try_mutant(builder, manifest, mutant, products, folder):
    """None when the mutant is killed, else why not."""
    path = os.path.join(builder.root, mutant["file"])
    with open(path) as file:
        text = file.read()
    count = text.count(mutant["find"])
    if count != 1:
        return f"'find' occurs {count} times in {mutant['file']}; it must occur once"
    overlay = tempfile.mkdtemp(dir=folder)
    os.makedirs(os.path.join(overlay, os.path.dirname(mutant["file"])), exist_ok=True)
    with open(os.path.join(overlay, mutant["file"]), "w") as file:
        file.write(text.replace(mutant["find"], mutant["replace"]))
    test = manifest["tests"][mutant["test"]]
    objects = []
    for source in [*products, *expand(builder.root, test["sources"])]:
        if not builder.depends_on(source, mutant["file"]):
            objects.append(builder.object_of(source))
            continue
        target, error = builder.compile_mutant(source, overlay)
        if not target:
            return f"does not compile, so it proves nothing:\n{error}"
        objects.append(target)
    program = os.path.join(overlay, "mutant")
    builder.link(objects, program, test.get("main", True))
    done = run(program, test, mutant["filter"])
    if done is not None and done.returncode == 0:
        return "SURVIVED: no test noticed it"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("manifest")
    parser.add_argument("--root", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", help="the name of one mutant")
    arguments = parser.parse_args()

    with open(arguments.manifest) as file:
        manifest = json.load(file)
    if arguments.only:
        manifest["mutants"] = [m for m in manifest["mutants"] if m["name"] == arguments.only]
        if not manifest["mutants"]:
            fail(f"no mutant is named {arguments.only}")
    used = {m["test"] for m in manifest["mutants"]}
    manifest["tests"] = {n: t for n, t in manifest["tests"].items() if n in used}

    start = time.monotonic()
    root = os.path.abspath(arguments.root)
    builder = Builder(root, os.path.abspath(arguments.build), manifest.get("libs", ["-lgtest"]))
    products = expand(root, manifest["sources"])
    objects = {name: [builder.object_of(source)
                      for source in [*products, *expand(root, test["sources"])]]
               for name, test in manifest["tests"].items()}
    survivors = 0
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        check_base(builder, manifest, objects, folder)

        def timed(mutant):
            began = time.monotonic()
            why = try_mutant(builder, manifest, mutant, products, folder)
            return mutant, why, time.monotonic() - began

        for mutant, why, took in pool.map(timed, manifest["mutants"]):
            survivors += why is not None
            print(f"  {mutant['name']}: {why or 'killed by ' + mutant['filter']} ({took:.1f} s)",
                  flush=True)
    total = len(manifest["mutants"])
    print(f"mutants: {total - survivors} of {total} killed in {time.monotonic() - start:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
