#!/usr/bin/env python3
"""What the gateway itself costs.

  first token   instant_server.cpp: the product over a model that answers at once. Open loop, 200
                requests a second, at most 32 open; time from the intended send, so that everything
                between the client's clock and back is in it: sockets, HTTP, JSON, admission, the
                way to the engine thread and back, the scheduler, two wake-ups of threads.
  refusals      the shipped binary. Closed loop, 32 connections, a team whose request rate is 0;
                every answer is a 429. Processor time is split into the program's own and the
                kernel's, which moves the bytes.

Writes OUT/DATE-CPU/gateway.json and gateway.md. Exit codes: 0 done, 1 a run was invalid.
"""
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import process_figures  # noqa: E402
from options import Options  # noqa: E402
from servers import Turnstile  # noqa: E402

MODEL = ROOT / "tests/golden/tiny/llama/model.gguf"
POLICY = '[teams.closed]\ndept = "main"\nrequests_per_minute = 0\n'
COMMON = ("--streams", "32", "--prompt-tokens", "24", "--token-low", "10", "--token-high", "200",
          "--max-tokens", "8", "--temperature", "0", "--ignore-eos")
RUNS = {
    "first token": (None, ("--rate", "200", "--requests", "3000", "--warmup-requests", "64")),
    "refusals": ("closed", ("--requests", "200000", "--warmup-requests", "2000")),
}


def run_once(arguments, kind, seed):
    team, load_flags = RUNS[kind]
    with Turnstile(arguments.turnstile, MODEL, threads=1, max_model_len=128, policy=POLICY,
                   team=team, server=None if team else arguments.instant) as server:
        report_file = pathlib.Path(server.scratch.name) / "report.json"
        before = process_figures.cpu_times(server.pid)
        done = subprocess.run([str(arguments.load), "--url", server.url, *server.load_flags,
                               *COMMON, *load_flags, "--seed", str(seed), "--report",
                               str(report_file)], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"overhead.py: {done.stderr}")
        after = process_figures.cpu_times(server.pid)
        report = json.loads(report_file.read_text())
        offered = report["outcomes"]["offered"]
        wanted = "completed" if team is None else "rejected"
        if report["outcomes"][wanted] != offered:
            raise SystemExit(f"overhead.py: not every request was {wanted}:\n{done.stdout}")
        warm = int(load_flags[load_flags.index("--warmup-requests") + 1])
        return {"kind": kind, "is_valid": done.returncode == 0, "load": report,
                **{f"{name}_us_per_request": 1e6 * (end - start) / (offered + warm)
                   for name, start, end in zip(("user", "system"), before, after)}}


def table(runs, machine):
    def median(kind, value):
        return statistics.median(value(run) for run in runs if run["kind"] == kind)

    first = [median("first token", lambda r, q=q: r["load"]["latency"]["ttft_sched_ms"][q])
             for q in ("p50", "p99")]
    lines = [f"{machine['cpu']}, {machine['processors']} processors, medians of "
             f"{len(runs) // len(RUNS)} runs.", "", "| figure | value |", "|---|---|",
             f"| first token at 200 requests/s, 32 open: p50 | {first[0]:.3f} ms |",
             f"| first token at 200 requests/s, 32 open: p99 | {first[1]:.3f} ms |"]
    refusals = (("refusals a second", lambda r: r["load"]["throughput"]["req_per_s"], "{:.0f}"),
                ("time to refuse, p99", lambda r: r["load"]["latency"]["time_to_reject_ms"]["p99"],
                 "{:.3f} ms"),
                ("processor time a refusal", lambda r: r["user_us_per_request"]
                 + r["system_us_per_request"], "{:.1f} us"),
                ("of it in the program", lambda r: r["user_us_per_request"], "{:.1f} us"),
                ("of it in the kernel", lambda r: r["system_us_per_request"], "{:.1f} us"),
                ("processor share of the client", lambda r: r["load"]["load"]["cpu_share"],
                 "{:.2f}"))
    lines += [f"| {title} | {form.format(median('refusals', value))} |"
              for title, value, form in refusals]
    invalid = [run for run in runs if not run["is_valid"]]
    for run in invalid:
        lines += ["", f"Invalid ({run['kind']}): {'; '.join(run['load']['verdict']['reasons'])}."]
    return "\n".join(lines) + "\n"


def main():
    options = Options(__doc__, "turnstile", "instant", "load", rounds=5)
    options.add_results()
    arguments = options.parse_args()
    options.need((arguments.turnstile, arguments.instant, arguments.load),
                 "run './run.sh --build' and 'ninja -C build bench/load/turnstile-load "
                 "bench/gateway/instant_server' first.")
    machine = process_figures.machine()
    process_figures.warn_when_busy(machine)
    runs = []
    for number in range(arguments.rounds):
        for kind in RUNS:
            runs.append(run_once(arguments, kind, seed=1 + number))
            print(f"round {number + 1}, {kind}: "
                  f"{'valid' if runs[-1]['is_valid'] else 'INVALID'}", flush=True)
    folder = process_figures.results_folder(arguments.out, machine)
    text = table(runs, machine)
    (folder / "gateway.json").write_text(json.dumps({"machine": machine, "runs": runs}, indent=1)
                                         + "\n")
    (folder / "gateway.md").write_text(text)
    print(text)
    return 0 if all(run["is_valid"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
