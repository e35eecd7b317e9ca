#!/usr/bin/env python3
"""Plants one breach for each rule of tidy.py and expects exactly that rule to report it."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy

CLEAN = {
    "kernels/meson.build": "files('sum.cpp')\n",
    "kernels/sum.h": "// sum.h: adds.\n#pragma once\nint sum(int a, int b);\n",
    "kernels/sum.cpp": '#include "kernels/sum.h"\nint sum(int a, int b) { return a + b; }\n',
    "tests/meson.build": "files('sum_test.cpp')\n",
    "tests/sum_test.cpp": '#include "kernels/sum.h"\nstatic_assert(true);\n',
    "README.md": "See `kernels/sum.h`.\n",
    "ARCHITECTURE.md": "See `kernels/sum`.\n",
    "CONTRIBUTING.md": "\n",
    **{f"{folder}/README.md": "\n"
       for folder in ("kernels", "engine", "policy", "gateway", "bench", "tests")},
}

PLANTED = {
    "include_directions": {"kernels/sum.h": CLEAN["kernels/sum.h"] +
                           '#include "engine/README.md"\n'},
    "includes_from_the_root": {"kernels/sum.cpp": '#include "sum.h"\n'},
    "banned_calls": {"kernels/sum.cpp": "auto t = std::chrono::steady_clock::now();\n"},
    "file_names": {"kernels/string_utils.h": "// string_utils.h: x\n#pragma once\n"},
    "file_size": {"kernels/sum.h": CLEAN["kernels/sum.h"] + "\n" * 501},
    "columns": {"kernels/sum.inc": '// "a' + "b" * 100 + '"\n'},
    "headers": {"kernels/sum.h": "int sum(int a, int b);\n"},
    "commented_out_code": {"kernels/sum.cpp": "// int x = 5;\n"},
    "co_await_stands_alone": {"kernels/sum.cpp": "if (co_await f()) g();\n"},
    "marker_words": {"kernels/sum.cpp": "// TO" + "DO finish\n"},
    "documents_have_no_open_places": {"README.md": "@" + "FIGURES\n"},
    "every_source_is_built": {"kernels/meson.build": "\n"},
    # A mirrored name counts as a test too, so the planted test has another one.
    "every_source_has_a_test": {"tests/other_test.cpp": "static_assert(true);\n",
                                "tests/sum_test.cpp": None,
                                "tests/meson.build": "files('other_test.cpp')\n"},
    "architecture_names_real_files": {"ARCHITECTURE.md": "See `kernels/product.h`.\n"},
    "folders_have_a_readme": {"engine/README.md": None},
    "tests_check_something": {"tests/sum_test.cpp": '#include "kernels/sum.h"\n'},
    "paths_of_machines": {"README.md": "cd /home/" + "someone/turnstile\n"},
}


def plant(folder, files):
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class EveryRuleCanFail(unittest.TestCase):
    def breaches(self, files):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "init", "-q", folder], check=True)
            plant(folder, CLEAN)
            plant(folder, files)
            tidy.EXEMPTIONS = pathlib.Path(folder, "tests/tidy/untested_sources.txt")
            return tidy.check(folder)

    def test_a_clean_tree_has_no_breach(self):
        self.assertEqual([b for found in self.breaches({}).values() for b in found], [])

    def test_every_rule_has_a_planted_breach(self):
        self.assertEqual(set(PLANTED), set(tidy.RULES))

    def test_each_planted_breach_is_reported(self):
        for rule, files in PLANTED.items():
            with self.subTest(rule):
                self.assertTrue(self.breaches(files)[rule])

    def test_each_banned_call_is_seen(self):
        for call in ("std::chrono::system_clock::now()", "clock_gettime(CLOCK_REALTIME, &t)",
                     "time(nullptr)", "__rdtsc()", "getenv(name)", "secure_getenv(name)",
                     "std::jthread t", "std::async(f)", "pthread_create(&t, 0, f, 0)",
                     "std::random_device r", "getrandom(p, 1, 0)", "rand()", "std::cout << 1",
                     "std::regex r", "std::this_thread::sleep_for(t)"):
            with self.subTest(call):
                self.assertTrue(self.breaches({"kernels/sum.cpp": call + ";\n"})["banned_calls"])

    def test_an_exemption_needs_a_reason_and_a_file(self):
        files = {"tests/tidy/untested_sources.txt": "kernels/sum.cpp\nkernels/gone.cpp x\n"}
        self.assertEqual(len(self.breaches(files)["every_source_has_a_test"]), 2)

    def test_strings_and_comments_are_not_code(self):
        files = {"kernels/sum.cpp": CLEAN["kernels/sum.cpp"] +
                 '// never calls ::now(\nconst char* a = "::now(";\n'}
        self.assertEqual(self.breaches(files)["banned_calls"], [])


if __name__ == "__main__":
    unittest.main()
