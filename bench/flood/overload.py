"""Prediction at 1.75 times what the machine can do."""
import time

import stands
from clients import Load
from shares import ramp

FACTOR = 1.75
TARGET_MS = 2000
OUTPUT = 48
REQUEST = ("--prompt-tokens", 120, "--max-tokens", OUTPUT, "--ignore-eos")


def overload(sheet, arguments):
    policy = stands.plain_policy(["team"], f"queue_requests = 256\n[classes.interactive]\n"
                                           f'ttft = "{TARGET_MS}ms"\nqueue_ttl = "{TARGET_MS}ms"\n')
    teams = {"team": "interactive"}
    with stands.Gateway(arguments, teams, policy) as server:
        sheet.settings(server)
        capacity = requests_per_s(arguments, server)
        rate = FACTOR * capacity
        seen = Load(arguments.load, server, *server.client_flags("team"), *REQUEST, "--streams",
                    400, "--rate", f"{rate:.2f}", "--requests", round(rate * arguments.seconds),
                    "--seed", 5).result()
    codes = seen.report["codes"]
    early, late = codes.get("would_miss_deadline", 0), codes.get("queue_deadline", 0)
    other = sum(codes.values()) - early - late
    served = [1e3 * (record["first_token"] - record["sent"]) for record in seen.records
              if record["first_token"]]
    good = sum(ms <= TARGET_MS for ms in served)
    sheet.raw({"capacity_per_s": capacity, "rate_per_s": rate, "load": seen.summary(),
               "good": good, "served": len(served)})
    refusals = early + late + other
    note = (f"{capacity:.1f} requests/s can be served, {rate:.1f} were offered for "
            f"{arguments.seconds} s; refused {refusals}: {codes}; admitted {len(served)}, "
            f"{good} of them within {TARGET_MS} ms")
    if not refusals:
        sheet.missing("refusals that came late / all refusals", "nobody was refused; " + note)
    else:
        sheet.line("refusals that came late (queue_deadline) / all refusals",
                   (late + other) / refusals, "<= 0.1", note, seen.limits)
    if served:
        sheet.line("admitted requests whose first token met the target", good / len(served), None,
                   f"good answers/s {good / arguments.seconds:.1f}: "
                   f"{good / arguments.seconds / capacity:.2f} of what can be served", seen.limits)
    sheet.missing("false refusals", "a running server has no oracle; the simulator has one")


def requests_per_s(arguments, server):
    """In a closed loop with every slot busy, by its tokens: the requests of a closed loop end in
    waves, and a window sees one more or less. Who is refused pauses, or a storm of refusals would
    take the processors."""
    load = Load(arguments.load, server, *server.client_flags("team"), *REQUEST, "--streams", 32,
                "--requests", 100_000, "--seed", 3, "--pause-after-refusal-ms", 500)
    ramp(server)
    begin = time.monotonic()
    time.sleep(10)
    end = time.monotonic()
    seen = load.stop()
    time.sleep(1)
    return seen.rate(begin, end) / OUTPUT
