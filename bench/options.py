"""The flags that measuring scripts have alike, and whether what they name is there."""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEFAULT_MODEL = ROOT / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"
PROGRAMS = {"turnstile": ROOT / "build/gateway/turnstile",
            "load": ROOT / "build/bench/load/turnstile-load",
            "instant": ROOT / "build/bench/gateway/instant_server",
            "model-bench": ROOT / "build/bench/model_bench"}


class Options(argparse.ArgumentParser):
    """Begins with a flag for each of `programs` and --rounds; `text` is the script's own."""

    def __init__(self, text, *programs, rounds):
        super().__init__(description=text.splitlines()[0])
        for name in programs:
            self.add_argument(f"--{name}", type=pathlib.Path, default=PROGRAMS[name])
        self.add_argument("--rounds", type=int, default=rounds)

    def add_threads(self):
        self.add_argument("--threads", type=int, default=2, help="that compute")

    def add_model(self):
        self.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL)

    def add_peers(self, what, **more):
        self.add_argument("--peer", type=pathlib.Path, action="append", help=what, **more)

    def add_results(self):
        self.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results",
                          help="folder of DATE-CPU/")

    def need(self, files, remedy):
        """Exits with 3 when one of the files is not there."""
        for path in files:
            if not path.is_file():
                print(f"{self.prog}: there is no {path}; {remedy}", file=sys.stderr)
                raise SystemExit(3)
