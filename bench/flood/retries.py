"""Clients that obey Retry-After, one situation a code: how many are admitted at the first retry."""
import time
from dataclasses import dataclass, field

import stands
from clients import ObedientClients

BATCH = ("x-turnstile-class", "batch")


@dataclass
class Situation:
    """What fills the meter that refuses. `think_s`: mean pause between a client's requests."""

    code: str
    rules: str                 # of the team, and classes after it
    clients: int
    think_s: float
    prompt: int = 40
    max_tokens: int = 32
    headers: list = field(default_factory=list)
    flood: dict = None         # further clients: the arguments that differ


SITUATIONS = [
    Situation("rate_requests", "requests_per_minute = 120\nbucket_fraction = 0.05\n", 24, 8.0),
    Situation("budget_tokens", "tokens_per_minute = 12000\nbucket_fraction = 0.05\n", 24, 6.0),
    Situation("queue_full", "inflight = 4\nqueue_requests = 4\n", 16, 1.0, max_tokens=48),
    Situation("would_miss_deadline", '[classes.interactive]\nttft = "1500ms"\n', 40, 2.0,
              prompt=160, max_tokens=48),
    Situation("queue_deadline", "inflight = 4\n[classes.interactive]\nttft = \"900ms\"\n"
              "allow_late = true\n", 16, 1.0, max_tokens=48),
    Situation("displaced", "inflight = 4\nqueue_requests = 6\n", 14, 0.8, max_tokens=48,
              headers=[BATCH], flood={"clients": 4, "headers": [], "think_s": 1.5}),
]


def start(server, situation, seed, **changes):
    values = {"clients": situation.clients, "think_s": situation.think_s,
              "headers": situation.headers, **changes}
    return ObedientClients(server, server.keys["team"],
                           {"prompt": situation.prompt, "max_tokens": situation.max_tokens,
                            "ignore_eos": True, "temperature": 0.8},
                           values["clients"], values["think_s"], values["headers"], seed).start()


def obedience(sheet, arguments):
    for number, situation in enumerate(SITUATIONS):
        policy = stands.plain_policy(["team"], situation.rules)
        with stands.Gateway(arguments, {"team": "interactive"}, policy) as server:
            people = [start(server, situation, 10 + number)]
            if situation.flood:
                people.append(start(server, situation, 50 + number, **situation.flood))
            time.sleep(arguments.seconds)
            for group in people:
                group.stop()
            settings = server.settings()
        report(sheet, situation, people, settings)


def report(sheet, situation, people, settings):
    tries = [one for group in people for one in group.tries]
    hopeless = [code for group in people for code in group.hopeless]
    answered = sum(group.answered for group in people)
    sheet.raw({"situation": situation.code, "settings": settings, "answered": answered,
               "tries": tries, "told_not_to_retry": hopeless})
    ours = [one for one in tries if one[0] == situation.code]
    if not ours:
        sheet.missing(f"admitted at the first retry after {situation.code}",
                      f"nobody was refused with it; answered {answered}, "
                      f"others: {sorted({one[0] for one in tries})}")
        return
    good = sum(one[1] for one in ours)
    again = {code: sum(one[3] == code for one in ours)
             for code in {one[3] for one in ours} - {None}}
    told = sorted(one[2] for one in ours)
    sheet.line(f"admitted at the first retry after {situation.code}", good / len(ours), ">= 0.95",
               f"{good} of {len(ours)}; told {told[0]:.0f} to {told[-1]:.0f} ms, median "
               f"{told[len(told) // 2]:.0f}; refused again: {again or 'none'}; answered "
               f"{answered}; told not to retry: {len(hopeless)}")
