#!/usr/bin/env python3
"""Checks that clang reads every source of kernels/, engine/ and policy/.

Usage: clang_core.py BUILD_FOLDER

BUILD_FOLDER was set up with clang as the compiler, so its compile_commands.json has the right
flags for each file; only the parse is run (-fsyntax-only), on all processors. Prints what clang
says and ends with "clang_core PASSED FAILED", one count a file, or a group of files in a unity
build.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

CORE = ("kernels", "engine", "policy")


def parse_only(entry):
    words = shlex.split(entry["command"])
    for flag in ("-o", "-MF", "-MQ"):
        while flag in words:
            at = words.index(flag)
            del words[at:at + 2]
    words = [word for word in words if word not in ("-MD", "-c")] + ["-fsyntax-only"]
    run = subprocess.run(words, cwd=entry["directory"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    return run.returncode, run.stdout


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    root = pathlib.Path(__file__).resolve().parents[1]
    entries = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        # A unity build's sources, each of which includes several, lie in the build folder.
        above = build if source.is_relative_to(build) else root
        if source.is_relative_to(above) and source.relative_to(above).parts[0] in CORE:
            entries.append(entry)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, output in pool.map(parse_only, entries):
            failed += code != 0
            if code != 0:
                print(output, file=sys.stderr, end="")
    print(f"clang_core {len(entries) - failed} {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
