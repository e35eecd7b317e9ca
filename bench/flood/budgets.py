"""Token budgets with 40 parallel clients, honest and greedy, in each way to charge."""
import time

import figures
import stands
from clients import Load

CLIENTS = 40
PER_MINUTE = 6000
BUCKET = PER_MINUTE // 4  # bucket_fraction 0.25
RATE = PER_MINUTE / 60
MAX_TOKENS = 128
NEW_KEY_ESTIMATE = 64  # what "live" reserves for a key it does not know
KINDS = {
    # Most answers end long before max_tokens; the client stops reading nothing.
    "honest": ("--api", "chat", "--prompt-text", "Answer with one word. What colour is snow?"),
    # Every answer runs to max_tokens.
    "greedy": ("--api", "completions", "--prompt-tokens", 40, "--ignore-eos"),
}


def charges_of(ended):
    """What a finished or cut request used, at the server's own times (seconds)."""
    end = ended["mono_us"] / 1e6
    arrival = end - ended["e2e_ms"] / 1e3
    started = arrival + ended["queue_ms"] / 1e3
    first = arrival + ended["ttft_ms"] / 1e3
    tokens = ended["tokens"]
    return figures.token_charges(tokens["prompt"], tokens["output"], started, first, end)


def one_run(arguments, charge, kind, seconds):
    policy = stands.plain_policy(["team"]) + \
        f'tokens_per_minute = {PER_MINUTE}\ncharge = "{charge}"\n'
    with stands.Gateway(arguments, {"team": "interactive"}, policy) as server:
        load = Load(arguments.load, server, *server.client_flags("team"), *KINDS[kind],
                    "--max-tokens", MAX_TOKENS, "--streams", CLIENTS, "--requests", 1_000_000,
                    "--pause-after-refusal-ms", 200)
        time.sleep(seconds)
        seen = load.stop()
        time.sleep(1)
        audit, settings = server.audit(), server.settings()
    return seen, audit, settings


def judge(seen, audit):
    """-> the figures of one run."""
    ended = [record for record in audit if record["kind"] == "ended" and "ttft_ms" in record]
    charges = [charge for record in ended for charge in charges_of(record)]
    whole = [record for record in seen.records if record["outcome"] == "completed"]
    cut = sum(1 for record in whole if record.get("end_code"))
    short = sum(1 for record in whole if record.get("finish") == "length"
                and record.get("completion_tokens") != MAX_TOKENS and not record.get("end_code"))
    unequal = sum(1 for record in ended for line in record.get("ledger", [])
                  if line["used"] != record["tokens"]["prompt"] + record["tokens"]["output"])
    start = min(at for at, _ in charges)
    return {"answers": len(whole), "cut": cut + short,
            "tokens": sum(amount for _, amount in charges),
            "seconds": max(at for at, _ in charges) - start,
            "overshoot": figures.overshoot_from_start(charges, RATE, BUCKET, start),
            "worst_interval": figures.worst_interval(charges, RATE, BUCKET),
            "unequal_ledgers": unequal, "codes": seen.report["codes"]}


def budgets(sheet, arguments):
    for charge in ("max", "hard", "live"):
        for kind in KINDS:
            seen, audit, settings = one_run(arguments, charge, kind, arguments.seconds)
            found = judge(seen, audit)
            sheet.raw({"charge": charge, "kind": kind, "settings": settings, **found,
                       "load": seen.summary()})
            report(sheet, charge, kind, found, seen.limits)


def report(sheet, charge, kind, found, limits):
    """`max` and `hard` pay before they use: from a full bucket on nothing may pass its capacity
    and rate. `live` may, by the tokens beyond the estimate of every request that runs."""
    note = (f"{found['tokens']:.0f} tokens in {found['seconds']:.1f} s, bucket {BUCKET} + "
            f"{RATE:.0f}/s; {found['answers']} answers; worst interval of any start: "
            f"{found['worst_interval']:.0f}; ledgers that differ from use: "
            f"{found['unequal_ledgers']}; refusals {found['codes']}")
    bound = CLIENTS * (MAX_TOKENS - NEW_KEY_ESTIMATE) if charge == "live" else 0
    sheet.line(f'overshoot of "{charge}", {kind} clients, tokens', found["overshoot"],
               f"<= {bound}", note, limits)
    if charge == "live":
        sheet.line(f'answers cut in "live", {kind} clients', found["cut"], "== 0",
                   f"of {found['answers']}", limits)
