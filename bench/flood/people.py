"""People among a flood of batch work, and the peers in the same run."""
import time

import figures
import stands
from clients import Load
from stands import PEOPLE

TEAMS = {PEOPLE: "interactive", "crew-a": "batch", "crew-b": "batch", "crew-c": "batch"}
CREWS = [team for team in TEAMS if team != PEOPLE]
CLIENTS_A_CREW = 16
RAMP_S = 3  # until the flood is there
PATIENCE_S = 40  # a first token that has not come by then counts as having taken so long


def our_server(arguments):
    """Our server. The target between two tokens of people is what an administrator sets who wants
    smooth texts from a model as small as this; the built-in one, 150 ms, fits larger ones too."""
    target = f'[classes.interactive]\ntpot = "{arguments.people_tpot}"\n'
    return stands.Gateway(arguments, TEAMS, stands.plain_policy(TEAMS, target))


def people(arguments, server, seconds, seed, rate=1.0):
    """Open loop: Poisson, 60 tokens in, 24 out. Nobody waits longer than PATIENCE_S."""
    return Load(arguments.load, server, *server.client_flags(PEOPLE), "--api", server.api,
                "--words", "--prompt-tokens", 60, "--max-tokens", 24, "--ignore-eos",
                "--streams", 64, "--rate", rate, "--requests", max(1, round(seconds * rate)),
                "--seed", seed, "--timeout-s", PATIENCE_S)


def crew(arguments, server, team, clients, seed, *more, who=None):
    """Closed loop: 60 tokens in, 128 out, until it is stopped."""
    return Load(arguments.load, server, *server.client_flags(who or team), "--api", server.api,
                "--words", "--prompt-tokens", 60, "--max-tokens", 128, "--ignore-eos",
                "--streams", clients, "--requests", 1_000_000, "--seed", seed,
                "--pause-after-refusal-ms", server.pause_ms, "--timeout-s", 600, *more)


def crews(arguments, server, seed):
    return [crew(arguments, server, team, CLIENTS_A_CREW, 1000 * seed + number)
            for number, team in enumerate(CREWS)]


def one_round(arguments, server, seconds, seed, alone=True):
    """-> what people saw on the idle server, batch alone, and both together; without `alone` the
    last only."""
    people(arguments, server, 4, 900 + seed, rate=2).result()  # warm
    run = {}
    if alone:
        run["idle"] = people(arguments, server, seconds, seed).result()
        flood = crews(arguments, server, 10 + seed)
        begin = time.monotonic() + RAMP_S
        time.sleep(RAMP_S + seconds)
        end = time.monotonic()
        seen = [load.stop() for load in flood]
        run["batch_alone"] = sum(one.rate(begin, end) for one in seen)
        run["limits_alone"] = [reason for one in seen for reason in one.limits]
        time.sleep(0.5)
    flood = crews(arguments, server, 20 + seed)
    begin = time.monotonic() + RAMP_S
    time.sleep(RAMP_S)
    run["mixed"] = people(arguments, server, seconds, seed + 500).result()
    end = time.monotonic()
    run["batch"] = [load.stop() for load in flood]
    run["batch_mixed"] = sum(one.rate(begin, end) for one in run["batch"])
    return run


def kept(run):
    """What the file of results keeps of a round."""
    loads = {name: run[name] for name in ("idle", "mixed") if name in run}
    loads |= {f"batch_{number}": one for number, one in enumerate(run["batch"])}
    return {"batch_tokens_per_s": run["batch_mixed"], "batch_alone": run.get("batch_alone"),
            "idle_first_token_ms": run["idle"].first_token_ms() if "idle" in run else None,
            "mixed_first_token_ms": run["mixed"].first_token_ms(),
            "mixed_gap_p99_ms": figures.quantile(run["mixed"].gaps_ms(), 0.99),
            "loads": {name: seen.summary() for name, seen in loads.items()}}


class Pool:
    """Rounds of one server together."""

    def __init__(self):
        self.idle, self.mixed, self.gaps = [], [], []
        self.idle_late_ms = self.late_ms = 0.0
        self.alone, self.batch, self.limits, self.unanswered = [], [], [], 0

    def add(self, run):
        self.mixed += run["mixed"].first_token_ms()
        self.gaps += run["mixed"].gaps_ms()
        self.batch.append(run["batch_mixed"])
        if "batch_alone" in run:
            self.idle += run["idle"].first_token_ms()
            self.alone.append(run["batch_alone"])
            self.limits += run["idle"].limits + run["limits_alone"]
            self.idle_late_ms = max(self.idle_late_ms, run["idle"].late_ms)
        self.unanswered += run["mixed"].unanswered()
        self.limits += run["mixed"].limits
        self.late_ms = max(self.late_ms, run["mixed"].late_ms)
        self.limits += [reason for one in run["batch"] for reason in one.limits]


def people_in_a_flood(sheet, arguments):
    pool = Pool()
    with our_server(arguments) as server:
        sheet.settings(server)
        for turn in range(arguments.rounds):
            run = one_round(arguments, server, arguments.seconds, 1 + turn)
            sheet.raw({"server": server.name, "round": turn, **kept(run)})
            pool.add(run)
    report_ours(sheet, pool)


def report_ours(sheet, pool):
    def ms(values, q):
        return figures.quantile(values, q)

    share = sum(pool.batch) / sum(pool.alone)
    sheet.line("first token of people in the flood, p99 / its p99 on the idle server",
               ms(pool.mixed, 0.99) / ms(pool.idle, 0.99), "<= 3",
               f"{ms(pool.mixed, 0.99):.0f} ms / {ms(pool.idle, 0.99):.0f} ms of "
               f"{len(pool.mixed)} and {len(pool.idle)} requests; p50 {ms(pool.mixed, 0.5):.0f} / "
               f"{ms(pool.idle, 0.5):.0f}, p95 {ms(pool.mixed, 0.95):.0f} / "
               f"{ms(pool.idle, 0.95):.0f} ms; without an answer: {pool.unanswered}; the client "
               f"was at most {pool.late_ms:.1f} / {pool.idle_late_ms:.1f} ms late", pool.limits,
               ms(pool.mixed, 0.99)
               / figures.without_lateness(ms(pool.idle, 0.99), pool.idle_late_ms))
    sheet.line("batch throughput in that run / batch alone", share, ">= 0.85",
               f"{sum(pool.batch) / len(pool.batch):.0f} / "
               f"{sum(pool.alone) / len(pool.alone):.0f} tok/s", pool.limits)
    sheet.line("gap between tokens of people in the flood, p99, ms", ms(pool.gaps, 0.99), None,
               f"p50 {ms(pool.gaps, 0.5):.0f}, max {max(pool.gaps):.0f} ms", pool.limits)


def peers(arguments):
    """-> makers of the peers that are there."""
    makers = [lambda binary=binary: stands.LlamaServer(arguments, binary)
              for binary in arguments.peer]
    if arguments.litellm:
        makers += [lambda slots=slots: stands.LiteLlm(arguments, arguments.litellm,
                                                      arguments.behind, slots)
                   for slots in arguments.litellm_batch_slots]
    if arguments.smg:
        makers += [lambda slots=slots: stands.Smg(arguments, arguments.smg, arguments.behind,
                                                  slots) for slots in arguments.smg_batch_slots]
    return makers


def people_at_peers(sheet, arguments):
    """Each peer in turn, and Turnstile in the same run."""
    if not arguments.behind:
        sheet.missing("peers", "no --peer and no --behind was named")
        return
    makers = [lambda: our_server(arguments), *peers(arguments)]
    pools = {}
    for turn in range(arguments.rounds):
        for make in makers if turn % 2 == 0 else makers[::-1]:
            try:
                round_at_peer(sheet, arguments, make, turn, pools)
            except SystemExit as why:  # one that does not start, or answers with something else
                sheet.missing("a round at a peer", str(why)[-300:].replace("\n", " "))
            except KeyboardInterrupt:
                report_peers(sheet, pools)
                raise
    report_peers(sheet, pools)


def round_at_peer(sheet, arguments, make, turn, pools):
    with make() as server:
        sheet.settings(server)
        run = one_round(arguments, server, arguments.peer_seconds, 1 + turn, alone=False)
        sheet.raw({"server": server.name, "round": turn, **kept(run)})
        pools.setdefault(server.name, Pool()).add(run)
        print(f"  {server.name}: first token p95 "
              f"{figures.quantile(run['mixed'].first_token_ms(), 0.95):.0f} ms, batch "
              f"{run['batch_mixed']:.0f} tok/s", flush=True)


def gap_text(pool):
    p99 = figures.quantile(pool.gaps, 0.99)
    return "unknown" if p99 is None else f"{p99:.0f} ms"


def report_peers(sheet, pools):
    ours = pools.pop("turnstile", None)
    if not pools or ours is None:
        sheet.missing("peers", "no figure of a peer and of ours")
        return
    best_gap = min((figures.quantile(pool.gaps, 0.99) for pool in pools.values() if pool.gaps),
                   default=None)
    for name, pool in pools.items():
        bar = 100 if name.startswith("llama") else 10 if name.startswith("LiteLLM") else 6
        theirs, own = (figures.quantile(one.mixed, 0.95) for one in (pool, ours))
        sheet.line(f"first token of people, p95: {name} / ours", theirs / own, f">= {bar}",
                   f"{theirs:.0f} ms / {own:.0f} ms; p50 {figures.quantile(pool.mixed, 0.5):.0f} / "
                   f"{figures.quantile(ours.mixed, 0.5):.0f} ms; without an answer: "
                   f"{pool.unanswered}; gap p99 {gap_text(pool)}; the client was at most "
                   f"{pool.late_ms:.1f} / {ours.late_ms:.1f} ms late", pool.limits,
                   figures.without_lateness(theirs, pool.late_ms) / own)
        sheet.line(f"batch throughput in that run: ours / {name}",
                   sum(ours.batch) / max(0.001, sum(pool.batch)), ">= 2",
                   f"{sum(ours.batch) / len(ours.batch):.0f} / "
                   f"{sum(pool.batch) / len(pool.batch):.0f} tok/s", pool.limits)
    if best_gap:
        own = figures.quantile(ours.gaps, 0.99)
        sheet.line("gap between tokens of people, p99: ours / the best peer's", own / best_gap,
                   "<= 0.3", f"{own:.0f} ms / {best_gap:.0f} ms", ours.limits)
