"""Clients that leave: a crowd at once, and ten thousand at random times."""
import os
import pathlib
import time

import figures
import process_figures
import stands
from clients import Load

CROWD = 200
TURNS = {True: 9, False: 3}  # ours, a peer's, which needs seconds to come to rest
KV_POOL_BYTES = 256 << 20  # no other mapping is as large; its pages come as blocks are first used
LEAVE_S = 0.5


def one(arguments, server, who, seed, requests=1):
    """Requests one after the other on a server that does nothing else -> first tokens in ms."""
    seen = Load(arguments.load, server, *server.client_flags(who), "--api", server.api, "--words",
                "--prompt-tokens", 60, "--max-tokens", 8, "--ignore-eos", "--streams", 1,
                "--requests", requests, "--seed", seed).result()
    return seen.first_token_ms()


def crowd(sheet, arguments):
    """The crowd is of the same class as the request that follows it, and may all queue."""
    room = "queue_requests = 256\n[defaults]\nqueue_requests_total = 512\n"
    makers = [lambda: stands.Gateway(arguments, {stands.PEOPLE: "interactive"},
                                     stands.plain_policy([stands.PEOPLE], room))]
    makers += [lambda binary=binary: stands.LlamaServer(arguments, binary)
               for binary in arguments.peer]
    for make in makers:
        with make() as server:
            sheet.settings(server)
            one(arguments, server, stands.PEOPLE, 1, 3)
            idle = one(arguments, server, stands.PEOPLE, 2, 20)
            after, limits, codes = [], [], {}
            for turn in range(TURNS[ours(server)]):
                seen = leave_together(arguments, server, 10 + turn)
                limits += seen.limits
                for code, times in seen.report["codes"].items():
                    codes[code] = codes.get(code, 0) + times
                after += one(arguments, server, stands.PEOPLE, 50 + turn)
                time.sleep(1 if ours(server) else 12)
            settled = one(arguments, server, stands.PEOPLE, 90, 10)
        sheet.raw({"server": server.name, "idle_ms": idle, "after_ms": after,
                   "settled_ms": settled, "codes": codes})
        normal = figures.quantile(idle, 0.5)
        note = (f"after the crowd {', '.join(f'{ms:.0f}' for ms in after)} ms; idle p50 "
                f"{normal:.0f}, max {max(idle):.0f} ms; refused of the crowd: {codes or 'none'}")
        bar = "<= 2" if ours(server) else None
        sheet.line(f"first token after {CROWD} clients left, p50 / idle p50, {server.name}",
                   figures.quantile(after, 0.5) / normal, bar, note, limits)
        sheet.line(f"the same, worst of {len(after)} / worst of {len(idle)}, {server.name}",
                   max(after) / max(idle), bar, "", limits)


def ours(server):
    return server.name == "turnstile"


def leave_together(arguments, server, seed):
    ms = int(1e3 * LEAVE_S)
    return Load(arguments.load, server, *server.client_flags(stands.PEOPLE), "--api", server.api,
                "--words", "--prompt-tokens", 60, "--max-tokens", 128, "--ignore-eos", "--streams",
                CROWD, "--requests", CROWD, "--leave-after-ms", ms, ms, "--seed", seed).result()


KINDS = {  # prompt tokens, most milliseconds until it leaves, further flags
    "stream": (40, 800, ()), "stream n=4": (40, 800, ("--choices", 4)),
    "plain": (40, 800, ("--no-stream",)), "plain n=4": (40, 800, ("--no-stream", "--choices", 4)),
    "long prompt": (900, 400, ()), "long prompt, plain": (900, 400, ("--no-stream",)),
}
STREAMS = 6  # of each kind


def abort_some(arguments, server, count, seed):
    """`count` requests in all, of every kind, that leave at random times."""
    loads = [Load(arguments.load, server, *server.client_flags("team"), "--prompt-tokens", prompt,
                  "--max-tokens", 200, "--ignore-eos", "--streams", STREAMS, "--requests",
                  -(-count // len(KINDS)), "--leave-after-ms", 0, most, "--seed", seed + number,
                  *flags) for number, (prompt, most, flags) in enumerate(KINDS.values())]
    return [load.result() for load in loads]


def aborts(sheet, arguments):
    policy = stands.plain_policy(["team"], "queue_requests = 256\n[classes.interactive]\n"
                                           'queue_ttl = "1m"\nallow_late = true\n')
    with stands.Gateway(arguments, {"team": "interactive"}, policy) as server:
        sheet.settings(server)
        abort_some(arguments, server, arguments.aborts // 10, 1)  # pools and caches fill
        before = at_rest(server)
        seen, memory = [], [before["resident_bytes"]]
        for turn in range(5):
            seen += abort_some(arguments, server, arguments.aborts // 5, 100 * (1 + turn))
            memory.append(at_rest(server)["resident_bytes"])
        after = at_rest(server)
        audit = phases(server.audit())
        answer = one_flagged(arguments, server)
    left = sum(record["outcome"] == "left" for one in seen for record in one.records)
    limits = [reason for one in seen for reason in one.limits]
    others = {}
    for one_seen in seen:
        for outcome, times in one_seen.report["outcomes"].items():
            if outcome != "offered" and times:
                others[outcome] = others.get(outcome, 0) + times
    sheet.raw({"before": before, "after": after, "memory": memory, "outcomes": others,
               "left_in_phase": audit})
    note = f"{left} left; outcomes {others}; left in phase {audit}"
    for name in ("permits", "kv_blocks", "queue_places", "descriptors"):
        sheet.line(f"leaked after aborts: {name}", after[name] - before[name], "== 0", note, limits)
        note = ""
    sheet.line("requests that arrived and never ended", after["unended"], "== 0")
    sheet.line("resident memory beside the KV pool, after / before", memory[-1] / memory[0],
               "<= 1.02", ", ".join(f"{size / 2**20:.0f}" for size in memory) + " MiB")
    sheet.line("an ordinary request afterwards is answered", answer, "== 1")


def one_flagged(arguments, server):
    seen = Load(arguments.load, server, *server.client_flags("team"), "--prompt-tokens", 40,
                "--max-tokens", 8, "--ignore-eos").result()
    return seen.report["outcomes"]["completed"]


def at_rest(server):
    """What the server holds once nobody asks it for anything."""
    deadline = time.monotonic() + 15
    while True:
        metrics = server.metrics()
        committed = {name: value for name, value in metrics.items()
                     if name.startswith("turnstile_meter_committed")}
        if not any(committed.values()) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    time.sleep(0.5)  # connections that were just closed

    def total(prefix, *but):
        return sum(value for name, value in metrics.items() if name.startswith(prefix)
                   and not any(word in name for word in but))

    return {"permits": total('turnstile_meter_committed{meter="sequence_slots'),
            "kv_blocks": total('turnstile_meter_committed{meter="kv_blocks'),
            "queue_places": total('turnstile_meter_committed{meter="queue'),
            "descriptors": len(os.listdir(f"/proc/{server.pid}/fd")),
            "threads": len(list(pathlib.Path(f"/proc/{server.pid}/task").iterdir())),
            "resident_bytes": process_figures.resident_bytes(server.pid)
            - process_figures.mapping_resident_bytes(server.pid, KV_POOL_BYTES),
            "unended": total("turnstile_requests_arrived_total")
            - total("turnstile_requests_finished_total")}


def phases(audit):
    """How many clients left in which phase, as the server saw it."""
    found = {}
    for record in audit:
        if record["kind"] != "ended" or record.get("outcome") != "client_gone":
            continue
        phase = "decode" if "ttft_ms" in record else \
            "prefill" if "service_units" in record else "queue"
        found[phase] = found.get(phase, 0) + 1
    return found
