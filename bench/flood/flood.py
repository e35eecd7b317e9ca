#!/usr/bin/env python3
"""Every promise of admission control, measured on the running server.

    flood.py [--only PART ...] [--rounds N] [--seconds S] [--peer PATH/llama-server ...]
             [--litellm VENV] [--smg VENV]

  people     interactive requests among 48 batch clients: first token, gaps, batch throughput
  peers      the same with llama-server, LiteLLM and SMG in front of it, Turnstile in the same run
  crowd      200 clients that leave after 0.5 s, and the request after them
  demo       demo requests into the flood: the wait for dispatch
  weights    three backlogged teams, weights 1:1:3
  floor      batch under a flood of demo
  budgets    40 clients on a token budget, three ways to charge
  retries    clients that obey Retry-After, by code
  overload   prediction at 1.75 times the capacity
  aborts     10,000 clients that leave at random times: what is left behind

Writes OUT/DATE-CPU/flood-NAME.json and .md. Exit codes: 0 every bar was met, 1 one was missed or
the client was the limit, 3 something is missing.
"""
import json
import pathlib
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import process_figures  # noqa: E402
from budgets import budgets  # noqa: E402
from people import people_at_peers, people_in_a_flood  # noqa: E402
from leaving import aborts, crowd  # noqa: E402
from options import Options  # noqa: E402
from overload import overload  # noqa: E402
from retries import obedience  # noqa: E402
from shares import demo, floor, weights  # noqa: E402
from sheet import Sheet  # noqa: E402

PARTS = {"people": people_in_a_flood, "peers": people_at_peers, "crowd": crowd, "demo": demo,
         "weights": weights, "floor": floor, "budgets": budgets, "retries": obedience,
         "overload": overload, "aborts": aborts}


def ask():
    """The arguments, when all that they name is there."""
    parser = Options(__doc__, "turnstile", "load", rounds=3)
    parser.add_model()
    parser.add_threads()
    parser.add_argument("--only", action="append", choices=PARTS, help="all when none is named")
    parser.add_argument("--seconds", type=int, default=60, help="of each measured window")
    parser.add_argument("--people-tpot", default="40ms",
                        help="tpot of interactive in people and peers; 150ms is built in")
    parser.add_argument("--peer-seconds", type=int, default=60, help="the same for peers")
    parser.add_argument("--aborts", type=int, default=10_000)
    parser.add_peers("a llama-server to measure", default=[])
    parser.add_argument("--behind", type=pathlib.Path,
                        help="the llama-server behind LiteLLM and SMG, otherwise the first --peer")
    parser.add_argument("--litellm", type=pathlib.Path, help="a virtual environment")
    parser.add_argument("--litellm-batch-slots", type=int, action="append",
                        help="requests of batch that it lets run; several are tried in turn")
    parser.add_argument("--smg", type=pathlib.Path, help="a virtual environment")
    parser.add_argument("--smg-batch-slots", type=int, action="append", help="the same for SMG")
    parser.add_argument("--name", default="run", help="part of the names of the result files")
    parser.add_results()
    arguments = parser.parse_args()
    arguments.litellm_batch_slots = arguments.litellm_batch_slots or [12]
    arguments.smg_batch_slots = arguments.smg_batch_slots or [12]
    arguments.behind = arguments.behind or (arguments.peer[0] if arguments.peer else None)
    parser.need([arguments.turnstile, arguments.load, arguments.model, *arguments.peer,
                 *(folder / f"bin/{program}" for folder, program in
                   ((arguments.litellm, "litellm"), (arguments.smg, "smg")) if folder)],
                "bench/flood/README.md says how to get it.")
    arguments.peer = [path.resolve() for path in arguments.peer]
    arguments.behind = arguments.behind and arguments.behind.resolve()
    return arguments


def main():
    arguments = ask()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers are stopped, parts kept
    machine = process_figures.machine()
    process_figures.warn_when_busy(machine)
    sheet = Sheet()
    for part in arguments.only or PARTS:
        print(part, flush=True)
        try:
            sheet.measure(part, PARTS[part], arguments)
        finally:
            write(sheet, arguments, machine)  # a run that is stopped keeps what was done
    print("\n" + sheet.table())
    return 1 if any(line["met"] is False or line["client_limits"] for line in sheet.lines) else 0


def write(sheet, arguments, machine):
    folder = process_figures.results_folder(arguments.out, machine)
    keep = {"machine": machine, "rounds": arguments.rounds, "seconds": arguments.seconds,
            "peer_seconds": arguments.peer_seconds, "servers": sheet.servers,
            "others": sheet.others, "lines": sheet.lines, "runs": sheet.runs}
    (folder / f"flood-{arguments.name}.json").write_text(json.dumps(keep, indent=1) + "\n")
    (folder / f"flood-{arguments.name}.md").write_text(sheet.table())


if __name__ == "__main__":
    sys.exit(main())
