#!/usr/bin/env python3
"""Planted faults: each must be killed by a named test.

    mutants.py --root ROOT --cxx "ccache g++" MANIFEST.json [--only NAME] [--build-dir DIR]

A manifest lists the sources of one layer, small test programs, and faults. A fault is a textual
replacement in one file of a copy; the product's own files are never touched and know nothing of it.

    {
      "flags":   ["-O1"],                       compiler flags besides -std=c++20 and -I ROOT
      "flags_of": {"kernels/cpu/avx2_*.cpp": ["-mavx2"]},      more of them for some sources
      "libs":    ["-lgtest"],
      "sources": ["policy/*.cpp"],              what every test program links
      "tests":   {"core": {"sources": ["tests/policy/x_test.cpp"], "args": [], "main": true}},
      "mutants": [{"name": "no lift", "file": "policy/share_tree.cpp",
                   "find": "...", "replace": "...", "test": "core", "filter": "ShareTree.*"}]
    }

"main": true links GoogleTest's own main. `find` must occur exactly once. First every filter that a
mutant names must select tests and pass on the unchanged sources; then, mutant by mutant, the same
filter must fail. What includes the changed file is compiled again, nothing else.

Exit: 0 all killed; 1 a mutant survived, does not apply, or does not compile.
"""
import argparse
import fnmatch
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
    """Compiles sources of the root once, and again in an overlay for one mutant."""

    def __init__(self, root, cxx, flags, flags_of, libs, folder):
        self.root, self.cxx, self.libs, self.folder = root, cxx, libs, folder
        self.flags = ["-std=c++20", *flags]
        self.flags_of = flags_of
        self.includes = {}  # source -> files it includes, relative to the root

    def object_of(self, source, folder):
        return os.path.join(folder, source.replace("/", "_") + ".o")

    def compile(self, source, folder, overlay=None):
        """One object; the overlay's copy of a file is found before the root's."""
        target = self.object_of(source, folder)
        path = os.path.join(self.root, source)
        search = ["-I", self.root]
        if overlay:
            search = ["-I", overlay, *search]
            changed = os.path.join(overlay, source)
            path = changed if os.path.exists(changed) else path
        more = [flag for pattern, flags in self.flags_of.items()
                if fnmatch.fnmatch(source, pattern) for flag in flags]
        command = [*self.cxx, *self.flags, *more, *search, "-MMD", "-MF", target + ".d",
                   "-c", path, "-o", target]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr
        return target, ""

    def compile_base(self, source):
        target, error = self.compile(source, self.folder)
        if not target:
            fail(f"{source} does not compile:\n{error}")
        with open(target + ".d") as file:
            names = file.read().replace("\\\n", " ").split()[1:]
        self.includes[source] = {os.path.relpath(n, self.root) for n in names}
        return target

    def link(self, objects, program, with_main):
        libs = ["-lgtest_main", *self.libs] if with_main else self.libs
        command = [*self.cxx, *objects, "-o", program, *libs, "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True)
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
        if mutant["file"] not in builder.includes[source]:
            objects.append(builder.object_of(source, builder.folder))
            continue
        target, error = builder.compile(source, overlay, overlay)
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
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--build-dir")
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
    with tempfile.TemporaryDirectory(dir=arguments.build_dir) as folder:
        builder = Builder(root, shlex.split(arguments.cxx), manifest.get("flags", ["-O1"]),
                          manifest.get("flags_of", {}), manifest.get("libs", ["-lgtest"]), folder)
        products = expand(root, manifest["sources"])
        product_objects = [builder.compile_base(source) for source in products]
        objects = {}
        for name, test in manifest["tests"].items():
            sources = expand(root, test["sources"])
            own = [builder.object_of(s, folder) if s in builder.includes else
                   builder.compile_base(s) for s in sources]
            objects[name] = [*product_objects, *own]
        check_base(builder, manifest, objects, folder)
        print(f"mutants: ready after {time.monotonic() - start:.0f} s")
        survivors = 0
        for mutant in manifest["mutants"]:
            began = time.monotonic()
            why = try_mutant(builder, manifest, mutant, products, folder)
            took = time.monotonic() - began
            if why:
                survivors += 1
                print(f"  {mutant['name']}: {why}")
            else:
                print(f"  {mutant['name']}: killed by {mutant['filter']} ({took:.1f} s)")
            sys.stdout.flush()
    total = len(manifest["mutants"])
    print(f"mutants: {total - survivors} of {total} killed in {time.monotonic() - start:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
