#!/usr/bin/env python3
"""N-gram speculation over HTTP, one stream, against the same server without it.

    speculation.py --turnstile build/gateway/turnstile --model FILE.gguf [--rounds 10] [--beside N]
                   --out FILE

Two servers of one file run beside each other; one is asked at a time. Each round asks both for every
text, with the same seed, in alternating order, and compares what a pair took: the text is the same on
both sides, which is checked. The prompt is in the prefix cache by then, so what is timed is decoding.

  repetitive   lists, code and a copied paragraph, greedy
  free         stories and explanations, temperature 0.8
  loops        the free prompts, greedy: a small model repeats itself sooner or later

With --beside N another client meanwhile has fresh prompts of N words read, one after the other.

Exit codes: 0 done, 1 a text differed, 3 something is missing.
"""
import contextlib
import itertools
import json
import pathlib
import random
import re
import statistics
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import process_figures  # noqa: E402
from options import Options  # noqa: E402
from servers import Turnstile  # noqa: E402

CONFIG = {"method": "ngram", "num_speculative_tokens": 8, "prompt_lookup_min": 2,
          "prompt_lookup_max": 5}
COPIED = ("The harbour master wrote down the name of every ship, the hour of its arrival, the number "
          "of its crew and the kind of its cargo.\n")
REPETITIVE = (
    "red, green, blue, black, white, " * 6 + "red,",
    "".join(f"    if name == \"key_{i}\":\n        return self.values[\"key_{i}\"]\n"
            for i in range(6)),
    COPIED * 3,
)
FREE = (
    "The fisherman went out to sea early in the morning, and",
    "Photosynthesis is the process by which",
    "My grandmother used to tell a story about a wolf who",
    "In the year 1848, the city of Vienna",
    "A good way to learn a new language is",
)
WORDS = " ".join(FREE).replace(",", "").split()
TEXTS = {"repetitive": (REPETITIVE, 0.0), "free": (FREE, 0.8), "loops": (FREE[:2], 0.0)}


class Guessing(Turnstile):
    def __init__(self, *arguments, config):
        super().__init__(*arguments)
        self.config = config

    def command(self, folder):
        flags = super().command(folder)
        if self.config:
            flags += ["--speculative-config", json.dumps(self.config)]
        return flags

    def ask(self, prompt, temperature, seed, max_tokens):
        """-> (text, seconds)"""
        body = {"model": pathlib.Path(self.model).stem, "prompt": prompt, "seed": seed,
                "max_tokens": max_tokens, "temperature": temperature, "ignore_eos": True}
        request = urllib.request.Request(
            self.url + "/v1/completions", json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.load_flags[1]}", "Content-Type": "application/json"})
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
        seconds = time.perf_counter() - began
        return json.loads(text)["choices"][0]["text"], seconds

    def guesses(self):
        """-> (guesses verified, guesses that came true), since the start."""
        admin = re.search(r"admin (http://\S+)", pathlib.Path(self.log.name).read_text())[1]
        with urllib.request.urlopen(admin + "/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return tuple(
            sum(float(value) for value in
                re.findall(rf"(?m)^vllm:spec_decode_num_{name}_tokens_total\{{.*\}} (\S+)", text))
            for name in ("draft", "accepted"))


@contextlib.contextmanager
def prompts_beside(server, words, seed):
    """Yields the list of how long each took, which grows; nothing is sent when `words` is 0."""
    seconds = []
    done = threading.Event()

    def send():
        for number in itertools.count():
            if done.is_set():
                return
            chosen = random.Random(f"{seed} {number}").choices(WORDS, k=words)
            seconds.append(server.ask(" ".join(chosen), 0.0, 1, 1)[1])

    sender = threading.Thread(target=send)
    if words:
        sender.start()
    try:
        yield seconds
    finally:
        done.set()
        if words:
            sender.join()


def measure_pair(plain, guessing, turn, prompt, temperature, arguments):
    seed = 1000 + turn
    before = guessing.guesses()
    sides = {"off": plain, "on": guessing}
    order = list(sides) if turn % 2 == 0 else list(sides)[::-1]
    answers = {}
    beside = {}
    for side in order:
        with prompts_beside(sides[side], arguments.beside, f"{seed} {prompt}") as beside[side]:
            answers[side] = sides[side].ask(prompt, temperature, seed, arguments.max_tokens)
    drafted, accepted = (after - first for after, first in zip(guessing.guesses(), before))
    return {"first": order[0], "off_s": answers["off"][1], "on_s": answers["on"][1],
            "drafted": drafted, "accepted": accepted,
            "prompts_off_s": beside["off"], "prompts_on_s": beside["on"],
            "same_text": answers["off"][0] == answers["on"][0]}


def table(runs, max_tokens):
    lines = ["| text | tok/s without | with | median of pairs | least, most | accepted / guessed |",
             "|---|---|---|---|---|---|"]
    for kind in TEXTS:
        here = [run for run in runs if run["text"] == kind]
        if not here:
            continue
        ratios = [run["off_s"] / run["on_s"] for run in here]
        off, on = (statistics.median(max_tokens / run[key] for run in here)
                   for key in ("off_s", "on_s"))
        whole = sum(run["off_s"] for run in here) / sum(run["on_s"] for run in here)
        lines.append(f"| {kind}, {len(here)} pairs | {off:.0f} | {on:.0f} | "
                     f"{statistics.median(ratios):.3f} (of sums {whole:.3f}) | "
                     f"{min(ratios):.2f}, {max(ratios):.2f} | "
                     f"{sum(run['accepted'] for run in here):.0f} / "
                     f"{sum(run['drafted'] for run in here):.0f} |")
    for side in ("off", "on"):
        seconds = [second for run in runs for second in run[f"prompts_{side}_s"]]
        if seconds:
            lines.append(f"\nprompts beside, guesses {side}: {len(seconds)}, median "
                         f"{1000 * statistics.median(seconds):.0f} ms")
    return "\n".join(lines) + "\n"


def main():
    options = Options(__doc__, "turnstile", rounds=10)
    options.add_argument("--model", type=pathlib.Path, required=True)
    options.add_argument("--text", action="append", choices=list(TEXTS),
                         help="all when none is named")
    options.add_threads()
    options.add_argument("--seconds", type=float, default=200,
                         help="no round begins after so many")
    options.add_argument("--max-tokens", type=int, default=256)
    options.add_argument("--beside", type=int, default=0, help="words of prompts read meanwhile")
    options.add_argument("--out", type=pathlib.Path, required=True, help="the file that is written")
    arguments = options.parse_args()
    options.need((arguments.turnstile, arguments.model), "see bench/README.md.")
    machine = process_figures.machine()
    process_figures.warn_when_busy(machine)
    kinds = arguments.text or list(TEXTS)
    runs = []
    began = time.monotonic()
    sides = [Guessing(arguments.turnstile, arguments.model, arguments.threads, config=config)
             for config in (None, CONFIG)]
    with sides[0] as plain, sides[1] as guessing:
        for kind in kinds:
            for prompt in TEXTS[kind][0]:  # into both prefix caches
                for server in (plain, guessing):
                    server.ask(prompt, 0.0, 1, 1)
        for turn in range(arguments.rounds):
            if time.monotonic() - began > arguments.seconds:
                break
            for kind in kinds:
                prompts, temperature = TEXTS[kind]
                for prompt in prompts:
                    runs.append({"text": kind, "prompt": prompt[:40], "round": turn,
                                 **measure_pair(plain, guessing, turn, prompt, temperature,
                                                arguments)})
    facts = {"machine": machine, "model": arguments.model.name, "threads": arguments.threads,
             "max_tokens": arguments.max_tokens, "speculative_config": CONFIG,
             "words_beside": arguments.beside, "runs": runs}
    arguments.out.write_text(json.dumps(facts, indent=1) + "\n")
    print(table(runs, arguments.max_tokens))
    return 0 if all(run["same_text"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
