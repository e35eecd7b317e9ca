#!/usr/bin/env python3
"""Random templates that are no golden ones, rendered by Jinja2 and by the engine.

usage: templates_against_jinja2.py MAKE_TEMPLATES TEXT_TEST [FIRST_SEED]

MAKE_TEMPLATES (tests/golden/make_templates.py) writes its hand-written templates and as many random
ones as are golden, from other seeds; TEXT_TEST compares the engine with Jinja2 on them.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import jinja2  # noqa: F401
except ImportError:
    print("skipped: there is no python3-jinja2; install it with 'apt-get install python3-jinja2'")
    sys.exit(77)

RANDOM_COUNT = 260
FIRST_SEED = 5_000


def main():
    maker, text_test = sys.argv[1:3]
    first_seed = sys.argv[3] if len(sys.argv) > 3 else str(FIRST_SEED)
    os.environ.pop("GTEST_OUTPUT", None)  # the program's own run is counted elsewhere
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "templates.jsonl")
        subprocess.run([sys.executable, maker, made, str(RANDOM_COUNT), first_seed], check=True)
        print(f"random templates from seed {first_seed}", flush=True)
        return subprocess.run([text_test, "--gtest_filter=TemplateGolden.*"],
                              env={**os.environ, "TURNSTILE_TEMPLATES": str(made)}).returncode


if __name__ == "__main__":
    sys.exit(main())
