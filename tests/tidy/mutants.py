#!/usr/bin/env python3
"""Planted faults: each must be killed by a named test.

    mutants.py --root ROOT --build BUILD MANIFEST.json... [--only NAME]

A manifest names the test programs of one layer, and faults. A fault is a textual replacement in one
file of a copy; the product's own files are never touched and know nothing of it.

    {
      "libs":     ["policy/libturnstile_policy.a", "-lgtest"],
      "optimize": "1",                          of what is compiled again; "1" if absent
      "tests":    {"core": {"program": "tests/policy/policy_test", "args": []}},
      "mutants":  [{"name": "no lift", "file": "policy/share_tree.cpp",
                    "find": "...", "replace": "...", "test": "core", "filter": "ShareTree.*"}]
    }

BUILD is a finished Meson folder. Its objects are linked as they are; only the changed source is
compiled again, with the folder's own command for it, at the manifest's level and over one
precompiled header of what its layer's faulty sources include. A fault in a file that others include
names in "compile" the sources in which the test meets it. A source of a test that a unity build
keeps in one object with others takes that object's place, so the filter selects nothing of the
others. `find` must occur exactly once. Every filter that a mutant names must select tests and pass
in the program as it was built; with the mutant the same filter must fail, and its run ends at the
first failure. All manifests share one pool of as many workers as there are processors.

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
import time

# The reports of planted programs, which fail on purpose, would be counted as results.
os.environ.pop("GTEST_OUTPUT", None)
# A copy is compiled once and never again.
os.environ["CCACHE_DISABLE"] = "1"

TEST_LIMIT_S = 120
PRECOMPILED_LAYERS = ("engine", "gateway", "policy")


def fail(message):
    print(f"mutants: {message}")
    sys.exit(1)


class Refused(Exception):
    """Why a mutant proves nothing, or why its test does not stand without it."""


class Builder:
    """Knows the build folder's objects and compiles a source again over a mutant's copy."""

    def __init__(self, root, build, folder):
        self.root, self.build, self.folder = root, build, folder
        self.entries = {}  # source, relative to the root -> the commands that compile it
        self.objects = {}  # folder of objects, relative to the build -> its objects
        with open(os.path.join(build, "compile_commands.json")) as file:
            for entry in json.load(file):
                for source in self.sources_of(entry):
                    self.entries.setdefault(source, []).append(entry)
                self.objects.setdefault(os.path.dirname(entry["output"]), []).append(entry["output"])
        self.includes = self.read_includes()
        linker = next((name for name in ("lld", "gold") if shutil.which("ld." + name)), None)
        self.link_flags = ["-s", *([f"-fuse-ld={linker}"] if linker else [])]

    def sources_of(self, entry):
        """The entry's source, or those that a source of a unity build includes."""
        path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        paths = [path]
        if re.search(r"-unity\d+\.cpp$", path):
            with open(path) as file:
                paths = re.findall(r"^#include ?<(.*)>$", file.read(), re.M)
        return [os.path.relpath(os.path.normpath(path), self.root) for path in paths]

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

    def entry_of(self, source, program):
        """How `source` is compiled: for the test program, or for the library that it links."""
        found = self.entries.get(source)
        if not found:
            fail(f"{source} belongs to no target of {self.build}")
        own = [entry for entry in found if entry["output"].startswith(program + ".p/")]
        entry = (own or found)[0]
        if not own and len(self.sources_of(entry)) > 1:
            fail(f"{source} has no object of its own in {self.build}: its meson.build must keep what "
                 "planted faults change out of unity builds")
        return entry

    def objects_of(self, program):
        objects = self.objects.get(program + ".p", [])
        for path in objects or [program]:
            if not os.path.exists(os.path.join(self.build, path)):
                fail(f"{path} is not built; run ninja -C {self.build}")
        return objects

    def command_of(self, entry, level):
        """The compiler and the flags that change what a source means, warnings left out."""
        words = shlex.split(entry["command"])
        first = next(at for at, word in enumerate(words) if word.startswith("-"))
        flags = [word for word in words[first:] if re.match(r"-[DIfm]|-std=", word)
                 and not word.startswith("-fdiagnostics")]
        return words[:first], [*flags, "-w", "-O" + level]

    def precompile(self, layer, sources):
        """Makes the header that sources of a layer are compiled over: the includes of `sources`.

        It is read in a fraction of the time of those files. Kernels include few, and each
        instruction set would need its own.
        """
        lines = set()
        for source in sources:
            with open(os.path.join(self.root, source)) as file:
                lines |= set(re.findall(r"^#include [<\"].*[>\"]$", file.read(), re.M))
        path = os.path.join(self.folder, layer + ".h")
        with open(path, "w") as file:
            file.writelines(f"{line}\n" for line in sorted(lines))
        compiler, flags = self.command_of(self.entry_of(sources[0], ""), "1")
        subprocess.run([*compiler, *flags, "-x", "c++-header", path, "-o", path + ".gch"],
                       cwd=self.build, capture_output=True, check=False)  # else it is left out

    def prefix_of(self, source):
        path = os.path.join(self.folder, source.split("/")[0] + ".h")
        return ["-include", path] if os.path.exists(path + ".gch") else []

    def compile_mutant(self, source, entry, overlay, level):
        """The object of `source`, which finds the overlay's copy of a file before the root's."""
        compiler, flags = self.command_of(entry, level)
        changed = os.path.join(overlay, source)
        is_changed = os.path.exists(changed)
        path = changed if is_changed else os.path.join(self.root, source)
        target = os.path.join(overlay, source.replace("/", "_") + ".o")
        # A changed header would come too late after one that holds the old text.
        command = [*compiler, *(self.prefix_of(source) if is_changed else []), "-I", overlay, *flags,
                   "-c", path, "-o", target]
        done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(f"does not compile, so it proves nothing:\n{done.stderr}")
        return target

    def link(self, objects, program, libs):
        compiler, _ = self.command_of(next(iter(self.entries.values()))[0], "1")
        done = subprocess.run([*compiler, *objects, "-o", program, *self.link_flags, *libs,
                               "-lpthread"], cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(f"does not link:\n{done.stderr}")


class TestProgram:
    """A test program of a manifest: what it links, and how it is run."""

    def __init__(self, builder, manifest, name):
        test = manifest["tests"][name]
        self.builder, self.args = builder, test.get("args", [])
        self.program = test["program"]
        self.level = manifest.get("optimize", "1")
        self.objects = builder.objects_of(self.program)
        self.libs = ["-Wl,--start-group", "-lgtest_main"]
        for lib in manifest.get("libs", ["-lgtest"]):
            self.libs += self.archives(lib) if lib.endswith(".a") else [lib]
        self.libs.append("-Wl,--end-group")
        self.filters = sorted({m["filter"] for m in manifest["mutants"] if m["test"] == name})

    def archives(self, pattern):
        found = sorted(glob.glob(os.path.join(self.builder.build, pattern)))
        return found or fail(f"no file matches {pattern} in {self.builder.build}")

    def made_again(self, mutant):
        """Source -> its compile command, of what the mutant changes."""
        sources = mutant.get("compile")
        if not sources and mutant["file"].endswith(".cpp"):
            sources = [mutant["file"]]
        if not sources:
            raise Refused(f"names in 'compile' no source that includes {mutant['file']}")
        entries = {source: self.builder.entry_of(source, self.program) for source in sources}
        for source, entry in entries.items():
            if mutant["file"] not in self.builder.includes.get(entry["output"], {mutant["file"]}):
                raise Refused(f"{mutant['file']} is no part of {source}")
        return entries

    def link(self, program, made):
        """Links `made`, source -> (its compile command, the new object), before everything else.

        The linker takes an inline function where it meets it first, and of a library no member
        whose names it has.
        """
        old = {entry["output"] for entry, _ in made.values()}
        kept = [path for path in self.objects if path not in old]
        self.builder.link([*(path for _, path in made.values()), *kept], program, self.libs)

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


def check_base(test):
    """Every filter selects something and passes on the unchanged sources."""
    program = os.path.join(test.builder.build, test.program)
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
        made = {source: (entry, test.builder.compile_mutant(source, entry, overlay, test.level))
                for source, entry in test.made_again(mutant).items()}
        marks.append(time.monotonic())
        test.link(program, made)
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

        faulty = sorted({mutant["file"] for _, mutant in tries if mutant["file"].endswith(".cpp")})
        prefixes = [
            pool.submit(builder.precompile, layer, sources) for layer in PRECOMPILED_LAYERS
            if len(sources := [f for f in faulty if f.startswith(layer + "/")]) > 1]
        concurrent.futures.wait(prefixes)
        checks = {name: pool.submit(check_base, test) for name, test in bases}
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
