#!/usr/bin/env python3
"""Planted faults: each must be killed by a named test.

    mutants.py --root ROOT --build BUILD MANIFEST.json... [--only NAME]

A manifest lists the sources of one layer, small test programs, and faults. A fault is a textual
replacement in one file of a copy; the product's own files are never touched and know nothing of it.

    {
      "libs":     ["kernels/libkernels.a", "-lgtest"],
      "optimize": "1",                          of what is compiled again; "1" if absent
      "sources":  ["policy/*.cpp"],             what every test program links
      "tests":    {"core": {"sources": ["tests/policy/x_test.cpp"], "args": [], "main": true}},
      "mutants":  [{"name": "no lift", "file": "policy/share_tree.cpp",
                    "find": "...", "replace": "...", "test": "core", "filter": "ShareTree.*",
                    "compile": ["policy/share_tree.cpp"]}]
    }

BUILD is a finished Meson folder. Its objects are linked as they are; only what includes the changed
file is compiled again, with the folder's own command for that source, at the manifest's level and
over one precompiled header of the standard library. Of a header that many sources include,
"compile" may name those in which the test meets the fault. "main": true links GoogleTest's main.
`find` must occur exactly once. Every filter that a mutant names must select tests and pass on the
unchanged sources; with the mutant the same filter must fail, and its run ends at the first failure.
All manifests share one pool of as many workers as there are processors.

Exit: 0 all killed; 1 a mutant survived, does not apply, or does not compile.
"""
import argparse
import concurrent.futures
import dataclasses
import glob
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

# The reports of planted programs, which fail on purpose, would be counted as results.
os.environ.pop("GTEST_OUTPUT", None)
# A copy is compiled once and never again.
os.environ["CCACHE_DISABLE"] = "1"

TEST_LIMIT_S = 120


def fail(message):
    print(f"mutants: {message}")
    sys.exit(1)


class Refused(Exception):
    """Why a mutant proves nothing, or why its test does not stand without it."""


class Builder:
    """Knows the build folder's objects and compiles a source again over a mutant's copy."""

    def __init__(self, root, build, folder):
        self.root, self.build, self.folder = root, build, folder
        self.entries = {}  # source, relative to the root -> its compile command
        with open(os.path.join(build, "compile_commands.json")) as file:
            for entry in json.load(file):
                path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
                source = os.path.relpath(path, root)
                # Of several targets that compile a source, one that was built.
                if source not in self.entries or not self.is_built(self.entries[source]):
                    self.entries[source] = entry
        self.includes = self.read_includes()
        self.headers, self.headers_lock = {}, threading.Lock()
        linker = next((name for name in ("lld", "gold") if shutil.which("ld." + name)), None)
        self.link_flags = ["-s", *([f"-fuse-ld={linker}"] if linker else [])]

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

    def is_built(self, entry):
        return os.path.exists(os.path.join(self.build, entry["output"]))

    def object_of(self, source):
        entry = self.entry_of(source)
        if not self.is_built(entry):
            fail(f"{entry['output']} is not built; run ninja -C {self.build}")
        return os.path.join(self.build, entry["output"])

    def depends_on(self, source, file):
        return file in self.includes.get(self.entry_of(source)["output"], {source})

    def command_of(self, source, level):
        """The compiler and the flags that change what `source` means, warnings left out."""
        words = shlex.split(self.entry_of(source)["command"])
        first = next(at for at, word in enumerate(words) if word.startswith("-"))
        flags = [word for word in words[first:] if re.match(r"-[DIfm]|-std=", word)
                 and not word.startswith("-fdiagnostics")]
        return words[:first], [*flags, "-w", "-O" + level]

    def precompiled(self, compiler, flags):
        """The -include of the standard library's headers, made at the first use of such flags.

        It holds what the layers include of it, and is read in a third of the time of the headers.
        Kernels include few of them, and each instruction set would need its own.
        """
        if any(word.startswith("-m") for word in flags):
            return []
        key = tuple(word for word in flags if not word.startswith("-I"))
        with self.headers_lock:
            if key not in self.headers:
                self.headers[key] = (threading.Lock(), f"std_{len(self.headers)}.h")
            lock, name = self.headers[key]
        path = os.path.join(self.folder, name)
        with lock:
            if not os.path.exists(path):
                names = sorted(self.standard_headers())
                with open(path, "w") as file:
                    file.writelines(f"#include <{header}>\n" for header in names)
                subprocess.run([*compiler, *key, "-x", "c++-header", path, "-o", path + ".gch"],
                               capture_output=True, check=False)  # else it is read as text
        return ["-include", path]

    def standard_headers(self):
        found = set()
        for file in {file for files in self.includes.values() for file in files}:
            if re.match("(kernels|engine|policy)/", file):
                with open(os.path.join(self.root, file)) as text:
                    found |= set(re.findall(r"^#include <([a-z_]+)>$", text.read(), re.M))
        return found

    def compile_mutant(self, source, overlay, level):
        """The object of `source`, which finds the overlay's copy of a file before the root's."""
        compiler, flags = self.command_of(source, level)
        changed = os.path.join(overlay, source)
        path = changed if os.path.exists(changed) else os.path.join(self.root, source)
        target = os.path.join(overlay, source.replace("/", "_") + ".o")
        command = [*compiler, *self.precompiled(compiler, flags), "-I", overlay, *flags,
                   "-c", path, "-o", target]
        done = subprocess.run(command, cwd=self.entry_of(source)["directory"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(f"does not compile, so it proves nothing:\n{done.stderr}")
        return target

    def link(self, objects, program, libs):
        compiler, _ = self.command_of(next(iter(self.entries)), "1")
        done = subprocess.run([*compiler, *objects, "-o", program, *self.link_flags, *libs,
                               "-lpthread"], cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(f"does not link:\n{done.stderr}")


def expand(root, patterns):
    names = []
    for pattern in patterns:
        found = sorted(glob.glob(os.path.join(root, pattern)))
        if not found:
            fail(f"no file matches {pattern}")
        names += [os.path.relpath(name, root) for name in found]
    return names


class TestProgram:
    """A test program of a manifest: what it links, and how it is run."""

    def __init__(self, builder, manifest, name):
        test = manifest["tests"][name]
        self.name, self.builder, self.args = name, builder, test.get("args", [])
        self.level = manifest.get("optimize", "1")
        self.sources = expand(builder.root, [*manifest["sources"], *test["sources"]])
        self.objects = {source: builder.object_of(source) for source in self.sources}
        own_main = ["-lgtest_main"] if test.get("main", True) else []
        self.libs = [*own_main, "-Wl,--start-group"]
        for lib in manifest.get("libs", ["-lgtest"]):
            self.libs += expand(builder.build, [lib]) if lib.endswith(".a") else [lib]
        self.libs.append("-Wl,--end-group")
        self.filters = sorted({m["filter"] for m in manifest["mutants"] if m["test"] == name})

    def made_again(self, mutant):
        all_of_it = [s for s in self.sources if self.builder.depends_on(s, mutant["file"])]
        some = mutant.get("compile", all_of_it)
        if not some or not set(some) <= set(all_of_it):
            raise Refused(f"{mutant['file']} is no part of {some or self.name}")
        return some

    def link(self, program, replaced):
        # What was made again comes first: the linker takes an inline function where it meets it.
        kept = [path for source, path in self.objects.items() if source not in replaced]
        self.builder.link([*replaced.values(), *kept], program, self.libs)

    def run(self, program, filter_text, *flags):
        """None when it took longer than any test may: a mutant that hangs the test is noticed."""
        try:
            return subprocess.run([program, *self.args, f"--gtest_filter={filter_text}", *flags],
                                  capture_output=True, text=True, timeout=TEST_LIMIT_S)
        except subprocess.TimeoutExpired:
            return None


@dataclasses.dataclass
class Result:
    mutant: dict
    why: str  # empty when the mutant is killed
    compile_s: float = 0
    link_s: float = 0
    run_s: float = 0


def check_base(test, folder):
    """Every filter selects something and passes on the unchanged sources."""
    program = os.path.join(tempfile.mkdtemp(dir=folder), "base")
    test.link(program, {})
    for text in test.filters:
        listed = test.run(program, text, "--gtest_list_tests")
        if listed is None or "  " not in listed.stdout:
            raise Refused(f"the filter {text} selects no test")
    done = test.run(program, ":".join(test.filters))
    if done is None or done.returncode != 0:
        raise Refused("fails without any mutant:\n" +
                      (done.stdout[-2000:] if done else "out of time"))


def try_mutant(test, mutant, folder):
    root = test.builder.root
    with open(os.path.join(root, mutant["file"])) as file:
        text = file.read()
    count = text.count(mutant["find"])
    if count != 1:
        return Result(mutant, f"'find' occurs {count} times in {mutant['file']}")
    overlay = tempfile.mkdtemp(dir=folder)
    os.makedirs(os.path.join(overlay, os.path.dirname(mutant["file"])), exist_ok=True)
    with open(os.path.join(overlay, mutant["file"]), "w") as file:
        file.write(text.replace(mutant["find"], mutant["replace"]))
    program = os.path.join(overlay, "mutant")
    marks = [time.monotonic()]
    try:
        replaced = {source: test.builder.compile_mutant(source, overlay, test.level)
                    for source in test.made_again(mutant)}
        marks.append(time.monotonic())
        test.link(program, replaced)
    except Refused as refused:
        return Result(mutant, str(refused))
    marks.append(time.monotonic())
    done = test.run(program, mutant["filter"], "--gtest_break_on_failure")
    marks.append(time.monotonic())
    shutil.rmtree(overlay)
    survived = done is not None and done.returncode == 0
    return Result(mutant, "SURVIVED: no test noticed it" if survived else "",
                  *(after - before for before, after in zip(marks, marks[1:])))


def read_manifest(path, only):
    with open(path) as file:
        manifest = json.load(file)
    if only:
        manifest["mutants"] = [m for m in manifest["mutants"] if m["name"] == only]
    used = {m["test"] for m in manifest["mutants"]}
    manifest["tests"] = {n: t for n, t in manifest["tests"].items() if n in used}
    return manifest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("manifests", nargs="+", metavar="MANIFEST")
    parser.add_argument("--root", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", help="the name of one mutant")
    arguments = parser.parse_args()

    start = time.monotonic()
    # A run that is ended at its first failure dies of a signal and would leave its memory behind.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    manifests = {path: read_manifest(path, arguments.only) for path in arguments.manifests}
    if not any(manifest["mutants"] for manifest in manifests.values()):
        fail(f"no mutant is named {arguments.only}")

    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        builder = Builder(os.path.abspath(arguments.root), os.path.abspath(arguments.build), folder)
        bases, tries = [], []
        for path, manifest in manifests.items():
            tests = {name: TestProgram(builder, manifest, name) for name in manifest["tests"]}
            bases += [(f"{path}: {name}", test) for name, test in tests.items()]
            tries += [(tests[m["test"]], m) for m in manifest["mutants"]]
        # The seconds of a compilation are not known before; headers make more objects than one.
        tries.sort(key=lambda pair: pair[1]["file"].endswith(".cpp"))

        checks = {name: pool.submit(check_base, test, folder) for name, test in bases}
        runs = [pool.submit(try_mutant, test, mutant, folder) for test, mutant in tries]
        results = []
        for run in concurrent.futures.as_completed(runs):
            result = run.result()
            results.append(result)
            fate = result.why or "killed by " + result.mutant["filter"]
            print(f"  {result.mutant['name']}: {fate} (compiled {result.compile_s:.1f} s,"
                  f" linked {result.link_s:.1f} s, ran {result.run_s:.1f} s)", flush=True)
        broken = 0
        for name, check in checks.items():
            try:
                check.result()
            except Refused as refused:
                broken += 1
                print(f"mutants: {name} {refused}")
    alive = sum(bool(result.why) for result in results)
    print(f"mutants: {len(results) - alive} of {len(results)} killed in"
          f" {time.monotonic() - start:.0f} s")
    return 1 if alive or broken else 0


if __name__ == "__main__":
    sys.exit(main())
