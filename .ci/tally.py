#!/usr/bin/env python3
"""Adds up test results and prints 'N passed, N failed'; exit code 1 if any failed.

Usage: tally.py RESULTS_FOLDER

Reads, below RESULTS_FOLDER, what test.sh leaves there:
  */testlog.json    Meson's log, one JSON object a line, one line a test executable
  */gtest/*.json    GoogleTest's own reports (GTEST_OUTPUT), which count the cases inside them
  *.outcome         "name passed failed" a line, from steps that are not Meson tests

An executable that failed but reports no failed case (a crash, a time limit, a sanitizer's finding
at exit) counts as one failure, so that nothing can fail unseen.
"""
import json
import pathlib
import re
import sys


def skip_reasons(log):
    """Case -> why it was skipped, as the program printed it: GoogleTest's report has no reason."""
    reasons = {}
    for line in log.read_text().splitlines():
        text = json.loads(line).get("stdout", "")
        for message, case in re.findall(
                r": Skipped\n((?:(?!: Skipped\n).)*?)\n*\[  SKIPPED \] (\S+)", text, re.DOTALL):
            reasons[case.rstrip(",")] = message.strip().splitlines()[-1:]
    return reasons


def gtest_reports(folder, reasons):
    """Executable name -> (passed, failed, skipped cases with reasons), summed over its runs."""
    reports = {}
    for path in sorted(folder.glob("gtest/*.json")):
        # GoogleTest appends _1, _2, ... when an executable runs more than once.
        name = path.stem
        if name.rpartition("_")[2].isdigit():
            name = name.rpartition("_")[0]
        try:
            report = json.loads(path.read_text())
        except json.JSONDecodeError:
            continue  # The run died while it wrote; Meson's log has the failure.
        passed, failed, skipped = reports.get(name, (0, 0, []))
        for suite in report["testsuites"]:
            for case in suite["testsuite"]:
                # A case that a filter left out has no result.
                if case.get("result") == "SKIPPED":
                    full_name = f"{suite['name']}.{case['name']}"
                    reason = reasons.get(full_name) or ["no reason given"]
                    skipped.append(f"{full_name}: {reason[0]}")
                elif case.get("failures"):
                    failed += 1
                elif case.get("result") == "COMPLETED":
                    passed += 1
        reports[name] = (passed, failed, skipped)
    return reports


def count_meson(log, skipped_lines):
    programs = {pathlib.PurePath(json.loads(line)["command"][0]).name
                for line in log.read_text().splitlines()}
    # Planted faults run programs of their own, which fail on purpose.
    reports = {name: report for name, report in gtest_reports(log.parent, skip_reasons(log)).items()
               if name in programs}
    passed = sum(report[0] for report in reports.values())
    failed = sum(report[1] for report in reports.values())
    for reasons in (report[2] for report in reports.values()):
        skipped_lines.extend(f"{log.parent.name}: {reason}" for reason in reasons)
    for line in log.read_text().splitlines():
        test = json.loads(line)
        program = pathlib.PurePath(test["command"][0]).name
        report = reports.get(program)
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            passed += 0 if report else 1
        elif test["result"] == "SKIP":
            skipped_lines.append(f"{log.parent.name}: {test['name']}")
        elif not report or report[1] == 0:
            failed += 1
            print(f"failed: {log.parent.name}: {test['name']} ({test['result']})")
    return passed, failed


def main():
    root = pathlib.Path(sys.argv[1])
    skipped_lines = []
    passed = failed = 0
    for log in sorted(root.glob("*/testlog.json")):
        more_passed, more_failed = count_meson(log, skipped_lines)
        passed += more_passed
        failed += more_failed
    for path in sorted(root.glob("*.outcome")):
        for line in path.read_text().splitlines():
            name, more_passed, more_failed = line.rsplit(maxsplit=2)
            passed += int(more_passed)
            failed += int(more_failed)
            if int(more_failed):
                print(f"failed: {name} ({more_failed})")
    for line in skipped_lines:
        print(f"skipped: {line}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
