#!/usr/bin/env python3
"""Runs the end-to-end tests: the real binary, real sockets, the real model.

    run.py --binary build/gateway/turnstile --model FILE.gguf [-k PATTERN] [--outcome FILE]

Needs the official `openai` package (test.sh makes a virtual environment with the pinned version).
--outcome writes "e2e PASSED FAILED" for the count of test.sh.
"""
import argparse
import os
import pathlib
import sys
import time
import unittest


class TimedResult(unittest.TextTestResult):
    """Prints the time each test took."""

    def startTest(self, test):
        self._started = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        if self.showAll:
            self.stream.writeln(f"      {time.monotonic() - self._started:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--outcome")
    parser.add_argument("-k", action="append", dest="patterns", help="only tests that match")
    arguments = parser.parse_args()
    for path in (arguments.binary, arguments.model):
        if not pathlib.Path(path).is_file():
            print(f"run.py: there is no {path}; build and fetch it first with './run.sh --build' "
                  "and subprojects/default-model/fetch.py.", file=sys.stderr)
            return 3
    os.environ["TURNSTILE_BINARY"] = arguments.binary
    os.environ["TURNSTILE_TEST_MODEL"] = arguments.model

    folder = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(folder))
    loader = unittest.TestLoader()
    if arguments.patterns:
        loader.testNamePatterns = [p if "*" in p else f"*{p}*" for p in arguments.patterns]
    suite = loader.discover(str(folder), pattern="test_*.py")
    result = unittest.TextTestRunner(verbosity=2, resultclass=TimedResult).run(suite)
    failed = len(result.failures) + len(result.errors)
    # A failed subtest counts once; a failure outside any test (start or end of a class) too.
    passed = max(0, result.testsRun - failed - len(result.skipped))
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}")
    if arguments.outcome:
        pathlib.Path(arguments.outcome).write_text(f"e2e {passed} {failed}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
