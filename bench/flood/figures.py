"""The arithmetic of the bars: quantiles, fairness, budgets. Knows no server and no clock."""
import math


def quantile(values, q):
    """The ceil(q n)-th smallest: a value that was measured. None when there is none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(1, math.ceil(q * len(ordered) - 1e-9)) - 1]


def without_lateness(ms, late_ms):
    """A time that a client saw, as short as it can have been when the client was late by up to
    `late_ms`, once with sending and once with looking."""
    return max(0.001, ms - 2 * late_ms)


def jain(values):
    """Jain's index: 1 when all values are equal, 1/n when one has everything."""
    values = list(values)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def weight_error(served, weights):
    """-> the largest relative distance of a share of `served` from its share of `weights`."""
    total, whole = sum(served.values()), sum(weights.values())
    return max(abs(served[name] / total / (weights[name] / whole) - 1) for name in weights)


def worst_interval(charges, rate_per_s, capacity):
    """-> by how much the charges of any interval exceed capacity + rate x its length, at least 0.

    `charges`: pairs (seconds, amount). The deepest level of a bucket that leaks at `rate_per_s`
    and starts empty is the maximum over all intervals.
    """
    level = deepest = 0.0
    before = None
    for at, amount in sorted(charges):
        if before is not None:
            level = max(0.0, level - rate_per_s * (at - before))
        before = at
        level += amount
        deepest = max(deepest, level)
    return max(0.0, deepest - capacity)


def overshoot_from_start(charges, rate_per_s, capacity, start):
    """-> the same for the intervals that begin at `start`, when the bucket was full."""
    total = worst = 0.0
    for at, amount in sorted(charges):
        total += amount
        worst = max(worst, total - capacity - rate_per_s * max(0.0, at - start))
    return worst


def token_charges(prompt, output, started, first_token, last_token):
    """One request as charges: the prompt when it was started, each token when it was generated.
    The tokens between the first and the last are taken as evenly spaced."""
    charges = [(started, prompt)]
    step = (last_token - first_token) / (output - 1) if output > 1 else 0.0
    return charges + [(first_token + i * step, 1) for i in range(output)]


def tokens_in_window(record, begin, end):
    """Tokens of a client's record (clients.py) that fell in [begin, end], evenly spaced."""
    if record.get("first_token") is None:
        return 0.0
    first, last = record["first_token"], record["last_token"]
    tokens = record.get("completion_tokens") or record["text_events"]
    if last <= first:
        return tokens if begin <= first <= end else 0.0
    inside = min(last, end) - max(first, begin)
    return tokens * max(0.0, inside) / (last - first)
