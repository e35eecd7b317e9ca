"""Shares on the running server: weights, the floor of batch, and demo arrivals."""
import time

import figures
import stands
from clients import Load
from people import crew

TURNED_OVER = 64  # answers after which every slot has been given anew at least once
MOST_RAMP_S = 40


def ramp(server):
    """Waits until the first requests, which took all slots in one moment, no longer count."""
    until = time.monotonic() + MOST_RAMP_S
    while server.finished() < TURNED_OVER and time.monotonic() < until:
        time.sleep(0.2)


def served(seen_by_team, begin, end):
    """Tokens that each team's clients received between two times."""
    return {team: sum(figures.tokens_in_window(record, begin, end) for record in seen.records)
            for team, seen in seen_by_team.items()}


def backlogged(arguments, server, clients, seconds):
    """Every team in a closed loop -> ({team: what it saw}, begin, end)."""
    loads = {team: crew(arguments, server, team, clients[team], 30 + number)
             for number, team in enumerate(clients)}
    ramp(server)
    begin = time.monotonic()
    time.sleep(seconds)
    end = time.monotonic()
    return {team: load.stop() for team, load in loads.items()}, begin, end


def weights(sheet, arguments):
    share = {"one": 1, "two": 1, "three": 3}
    policy = stands.plain_policy(share)
    for team, weight in share.items():
        policy = policy.replace(f"[teams.{team}]\n", f"[teams.{team}]\nweight = {weight}\n")
    with stands.Gateway(arguments, {team: "batch" for team in share}, policy) as server:
        sheet.settings(server)
        seen, begin, end = backlogged(arguments, server, {team: 40 for team in share},
                                      arguments.seconds)
        tokens = served(seen, begin, end)
    limits = [reason for one in seen.values() for reason in one.limits]
    sheet.raw({"tokens": tokens, "seconds": end - begin,
               "loads": {team: one.summary() for team, one in seen.items()}})
    note = ", ".join(f"{team} ({share[team]}): {tokens[team]:.0f}" for team in share) + " tokens"
    sheet.line("served tokens against weights 1:1:3, largest relative distance",
               figures.weight_error(tokens, share), "<= 0.05", note, limits)
    sheet.line("Jain's index of tokens by weight",
               figures.jain(tokens[team] / share[team] for team in share), ">= 0.98", note, limits)


def floor(sheet, arguments):
    """Batch is owed its floor of all service while demo floods; both in service units
    (prompt + 2 x generated tokens), as the policy counts."""
    teams = {"stage": "demo", "crew": "batch"}
    owed = 0.10
    with stands.Gateway(arguments, teams) as server:
        sheet.settings(server)
        seen, begin, end = backlogged(arguments, server, {"stage": 48, "crew": 16},
                                      arguments.seconds)
        units = {team: sum(units_in_window(record, begin, end) for record in one.records)
                 for team, one in seen.items()}
    limits = [reason for one in seen.values() for reason in one.limits]
    pauses = sum(record.get("pauses", 0) for record in seen["crew"].records)
    share = units["crew"] / sum(units.values())
    sheet.raw({"units": units, "seconds": end - begin,
               "loads": {team: one.summary() for team, one in seen.items()}})
    sheet.line("share of batch under a flood of demo / its floor", share / owed, None,
               f"{share:.3f} of the service units; floor {owed}; batch paused {pauses} times",
               limits)
    sheet.line("the same, distance from 1", abs(share / owed - 1), "<= 0.2", "", limits)


def units_in_window(record, begin, end):
    tokens = figures.tokens_in_window(record, begin, end)
    first = record.get("first_token")
    prompt = record.get("prompt_tokens") or 60
    return 2 * tokens + (prompt if first and begin <= first <= end else 0)


def demo(sheet, arguments):
    """48 batch clients; demo requests alone and in bursts of 12, more than the slots that the
    watermark of batch leaves free. The wait for dispatch is the server's own figure."""
    teams = {"stage": "demo", "crew-a": "batch", "crew-b": "batch", "crew-c": "batch"}
    with stands.Gateway(arguments, teams) as server:
        sheet.settings(server)
        loads = [crew(arguments, server, team, 16, 60 + number)
                 for number, team in enumerate(teams) if team != "stage"]
        ramp(server)
        before = step_buckets(server.metrics())
        seen, until = [], time.monotonic() + arguments.seconds
        turn = 0
        while time.monotonic() < until:
            size = 12 if turn % 4 == 3 else 1
            seen.append((size, stage(arguments, server, size, 70 + turn).result()))
            time.sleep(0.35)
            turn += 1
        after = step_buckets(server.metrics())
        flood = [load.stop() for load in loads]
    longest = longest_step_ms(before, after)
    limits = [reason for one in [*flood, *(s for _, s in seen)] for reason in one.limits]
    waits = {kind: [record["queue_ms"] for size, one in seen if (size > 1) == (kind == "burst")
                    for record in one.records if "queue_ms" in record]
             for kind in ("alone", "burst")}
    refused = sum(record["outcome"] == "rejected" for _, one in seen for record in one.records)
    pauses = sum(record.get("pauses", 0) for one in flood for record in one.records)
    sheet.raw({"queue_ms": waits, "longest_step_ms_at_most": longest, "batch_pauses": pauses,
               "refused": refused})
    for kind, values in waits.items():
        note = (f"p50 {figures.quantile(values, 0.5):.3f}, max {max(values):.2f} ms of "
                f"{len(values)}; engine steps of at most {longest:g} "
                f"ms; batch paused {pauses} times; refused {refused}")
        sheet.line(f"demo into the flood, {kind}: longest wait for dispatch / longest step",
                   max(values) / longest, "<= 1", note, limits)


def stage(arguments, server, size, seed):
    return Load(arguments.load, server, *server.client_flags("stage"), "--api", server.api,
                "--words", "--prompt-tokens", 60, "--max-tokens", 24, "--ignore-eos",
                "--streams", size, "--requests", size, "--seed", seed)


def step_buckets(metrics):
    """-> {upper bound in seconds: cumulative count} of the engine's steps."""
    start = 'turnstile_engine_step_seconds_bucket{le="'
    return {float(name[len(start):].split('"')[0]): count for name, count in metrics.items()
            if name.startswith(start)}


def longest_step_ms(before, after):
    """The bound of the highest bucket that gained a step: no step was longer."""
    bounds = sorted(after)
    gained = [bound for previous, bound in zip([None, *bounds], bounds)
              if (after[bound] - before.get(bound, 0))
              > (after[previous] - before.get(previous, 0) if previous is not None else 0)]
    return 1e3 * gained[-1]
