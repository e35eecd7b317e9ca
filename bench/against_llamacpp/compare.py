#!/usr/bin/env python3
"""Turnstile against llama-server: the same model file, prompts, sampling and threads.

Runs alternate (A B, B A, A B, ...), each on a freshly started server, and medians are compared, so
that a machine that slows down in the middle hurts both alike. The peer is first tried in each of
its variants (both builds, split and unified KV) and each case is then measured against the variant
that was best at it.

    compare.py --peer .cache/peer/openmp/bin/llama-server \\
               --peer .cache/peer/own-pool/bin/llama-server

Writes every run to OUT/DATE-CPU/*.json with the machine and all flags, and table.md beside them.
Exit codes: 0 done, 1 a run was invalid (the client was the limit), 3 something is missing.
"""
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import process_figures  # noqa: E402
from options import Options  # noqa: E402
from servers import Peer, Turnstile  # noqa: E402

# name: (streams, requests, prompt tokens, new tokens). Each stream has several requests, so that
# the ragged end of a run weighs little.
CASES = {
    "1 stream": (1, 4, 64, 96),
    "8 streams": (8, 32, 64, 96),
    "32 streams": (32, 96, 64, 96),
    "1,024-token prompt": (1, 6, 1024, 1),
}
PROMPT_CASE = "1,024-token prompt"


def run_once(make_server, case, load, seed):
    """One run on a server of its own -> the figures of the run."""
    streams, requests, prompt_tokens, max_tokens = CASES[case]
    with make_server() as server:
        started_bytes = process_figures.resident_bytes(server.pid)
        report_file = pathlib.Path(server.scratch.name) / "report.json"
        command = [str(load), "--url", server.url, "--api", server.api, *server.load_flags,
                   "--streams", str(streams), "--prompt-tokens", str(prompt_tokens),
                   "--max-tokens", str(max_tokens), "--ignore-eos", "--seed", str(seed),
                   "--report", str(report_file)]
        # Warm-up in a process of its own, so that its switches and time are not counted.
        warm = subprocess.run([*command, "--requests", str(min(streams, 8)), "--seed", "999983"],
                              capture_output=True, text=True)
        if warm.returncode == 3:
            raise SystemExit(f"compare.py: {warm.stderr}")
        switches = process_figures.voluntary_switches(server.pid)
        cpu_s = process_figures.cpu_seconds(server.pid)
        done = subprocess.run([*command, "--requests", str(requests)], capture_output=True,
                              text=True)
        switches = process_figures.voluntary_switches(server.pid) - switches
        cpu_s = process_figures.cpu_seconds(server.pid) - cpu_s
        report = json.loads(report_file.read_text())
        if report["outcomes"]["completed"] != requests:
            raise SystemExit(f"compare.py: {server.name} did not complete every request of "
                             f"'{case}':\n{done.stdout}")
        tokens = report["throughput"]["completion_tokens"]
        resident_bytes = process_figures.resident_bytes(server.pid)
        figures = {"server": server.name, "case": case, "load": report,
                   # Folders are this machine's business and would only differ between runs.
                   "flags": [re.sub(r"^/.*/", "", word) for word in server.flags],
                   "is_valid": done.returncode == 0,
                   "tokens_per_s": report["throughput"]["out_tok_per_s"],
                   "ttft_ms": report["latency"]["ttft_sent_ms"]["p50"],
                   "switches_per_token": switches / tokens,
                   "cpu_ms_per_token": 1e3 * cpu_s / tokens,
                   "resident_at_start_bytes": started_bytes, "resident_bytes": resident_bytes}
        if isinstance(server, Turnstile):
            pool = process_figures.mapping_resident_bytes(server.pid, server.kv_cache_bytes)
            if pool is not None:
                figures["resident_without_kv_bytes"] = resident_bytes - pool
        return figures


def speed(figures):
    """Larger is better: tokens a second, or prompts a second where the prompt is the case."""
    return 1e3 / figures["ttft_ms"] if figures["case"] == PROMPT_CASE else figures["tokens_per_s"]


def peer_makers(arguments):
    """(name, case) -> a function that makes the peer's server in that variant."""
    makers = {}
    for binary, unified in itertools.product(arguments.peer, (False, True)):
        def make(case, binary=binary, unified=unified):
            context = 2048 if case == PROMPT_CASE else 1024
            return Peer(binary, arguments.model, arguments.threads, unified, context)
        makers[make("").name] = make
    return makers


def choose_variants(makers, load, runs):
    chosen = {}
    for case in CASES:
        tried = [run_once(lambda m=make: m(case), case, load, seed=1) for make in makers.values()]
        runs.extend({**figures, "phase": "choice"} for figures in tried)
        best = max(tried, key=speed)["server"]
        chosen[case] = best
        print(f"{case}: the peer is {best}; tried: "
              + ", ".join(f"{figures['server']} {speed(figures):.1f}" for figures in tried),
              flush=True)
    return chosen


def table(runs, chosen, machine, arguments):
    def median(case, name, key):
        return statistics.median(key(run) for run in runs if run["phase"] == "measured"
                                 and run["case"] == case and run["server"] == name)

    lines = [f"{machine['cpu']} ({', '.join(machine['instructions'])}), {machine['processors']} "
             f"processors, {arguments.threads} threads; {arguments.rounds} rounds, medians.", "",
             "| case | Turnstile | llama-server | ratio | peer variant |", "|---|---|---|---|---|"]
    for case, peer in chosen.items():
        ours, theirs = median(case, "turnstile", speed), median(case, peer, speed)
        if case == PROMPT_CASE:
            shown = [f"{median(case, name, lambda r: r['ttft_ms']):.0f} ms to the first token"
                     for name in ("turnstile", peer)]
        else:
            shown = [f"{value:.0f} tok/s" for value in (ours, theirs)]
        lines.append(f"| {case} | {shown[0]} | {shown[1]} | {ours / theirs:.2f} | {peer} |")
    many = "32 streams"
    for title, key, form in (
            ("voluntary context switches a token, 32 streams",
             lambda r: r["switches_per_token"], "{:.2f}"),
            ("processor time a token, 32 streams", lambda r: r["cpu_ms_per_token"], "{:.3f} ms"),
            ("first token at 32 streams, median", lambda r: r["ttft_ms"], "{:.0f} ms"),
            ("resident memory after 32 streams", lambda r: r["resident_bytes"] / 2**20,
             "{:.0f} MiB")):
        ours, theirs = median(many, "turnstile", key), median(many, chosen[many], key)
        lines.append(f"| {title} | {form.format(ours)} | {form.format(theirs)} | "
                     f"{ours / theirs:.2f} | {chosen[many]} |")
    bare = [run["resident_without_kv_bytes"] for run in runs if "resident_without_kv_bytes" in run]
    if bare:
        size = arguments.model.stat().st_size
        lines += ["", f"Turnstile's resident memory without the KV pool: at most "
                      f"{max(bare) / 2**20:.0f} MiB, {max(bare) / size:.2f} x the model file."]
    invalid = sum(not run["is_valid"] for run in runs)
    if invalid:
        lines += ["", f"{invalid} of {len(runs)} runs are invalid: the client was the limit."]
    return "\n".join(lines) + "\n"


def main():
    options = Options(__doc__, "turnstile", "load", rounds=5)
    options.add_peers("a llama-server", required=True)
    options.add_model()
    options.add_threads()
    options.add_results()
    arguments = options.parse_args()
    options.need((arguments.turnstile, arguments.load, arguments.model, *arguments.peer),
                 "build with ./run.sh --build and build_peer.sh first.")

    machine = process_figures.machine()
    process_figures.warn_when_busy(machine)
    runs = []
    makers = peer_makers(arguments)
    chosen = choose_variants(makers, arguments.load, runs)
    for number, case in itertools.product(range(arguments.rounds), CASES):
        sides = [lambda: Turnstile(arguments.turnstile, arguments.model, arguments.threads),
                 lambda: makers[chosen[case]](case)]
        for make in sides if number % 2 == 0 else reversed(sides):
            figures = run_once(make, case, arguments.load, seed=100 + number)
            runs.append({**figures, "phase": "measured", "round": number})
            print(f"round {number + 1}, {case}: {figures['server']}: {speed(figures):.1f} a second"
                  + ("" if figures["is_valid"] else " (INVALID)"), flush=True)

    folder = process_figures.results_folder(arguments.out, machine)
    text = table(runs, chosen, machine, arguments)
    (folder / "against_llamacpp.json").write_text(
        json.dumps({"machine": machine, "chosen": chosen, "runs": runs}, indent=1) + "\n")
    (folder / "against_llamacpp.md").write_text(text)
    print(text)
    return 0 if all(run["is_valid"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
