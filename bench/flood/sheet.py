"""What a run found: lines with bars, and the raw runs beside them."""
import operator
import os
import resource

COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


def meets(value, bar):
    """`bar`: "<= 3", ">= 0.85", "== 0"; None when there is no bar."""
    if bar is None or value is None:
        return None
    sign, limit = bar.split()
    return COMPARE[sign](value, float(limit))


def processor_seconds():
    """-> (what the whole machine used, what this script and its ended children used)"""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, soft, *_ = map(int, stat.readline().split()[1:])
    own = sum(sum(resource.getrusage(who)[:2])
              for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK"), own


class Sheet:
    def __init__(self):
        self.part = ""
        self.lines, self.runs, self.servers, self.others = [], [], {}, {}

    def measure(self, part, function, arguments):
        """Runs one part; says how much of the machine others took meanwhile."""
        self.part = part
        clock, (machine, own) = os.times().elapsed, processor_seconds()
        function(self, arguments)
        used, ours = processor_seconds()
        whole = (os.times().elapsed - clock) * os.cpu_count()
        self.others[part] = max(0.0, used - machine - (ours - own)) / whole
        print(f"  others used {100 * self.others[part]:.0f} % of the machine meanwhile",
              flush=True)

    def line(self, title, value, bar, note="", limits=(), at_worst=None):
        """`limits`: why the client itself was the limit; empty when it was not. `at_worst`: the
        value with all lateness of the client against us; where it would decide otherwise, the
        client was the limit too."""
        limits = set(limits)
        if at_worst is not None and meets(at_worst, bar) != meets(value, bar):
            limits.add(f"its lateness could make it {number(at_worst)}")
        self.lines.append({"part": self.part, "title": title, "value": value, "bar": bar,
                           "met": meets(value, bar), "note": note, "at_worst": at_worst,
                           "client_limits": sorted(limits)})
        print("  " + text_of(self.lines[-1]), flush=True)

    def missing(self, title, why):
        self.lines.append({"part": self.part, "title": title, "value": None, "bar": None,
                           "met": None, "note": f"not measured: {why}", "client_limits": []})
        print("  " + text_of(self.lines[-1]), flush=True)

    def raw(self, run):
        self.runs.append({"part": self.part, **run})

    def settings(self, server):
        self.servers.setdefault(f"{self.part}: {server.name}", server.settings())

    def table(self):
        rows = ["| part | measure | value | bar | | note |", "|---|---|---|---|---|---|"]
        for line in self.lines:
            note = line["note"]
            if line["client_limits"]:
                note += "; the client was the limit: " + "; ".join(line["client_limits"])
            rows.append(f"| {line['part']} | {line['title']} | {number(line['value'])} | "
                        f"{line['bar'] or ''} | {verdict(line)} | {note} |")
        rows += ["", "Share of the machine that others used meanwhile: " + ", ".join(
            f"{part} {100 * share:.0f} %" for part, share in self.others.items()) + "."]
        return "\n".join(rows) + "\n"


def number(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def verdict(line):
    return {True: "met", False: "**missed**", None: ""}[line["met"]]


def text_of(line):
    bar = f" (bar {line['bar']}: {verdict(line).strip('*')})" if line["bar"] else ""
    client = f" [the client was the limit: {'; '.join(line['client_limits'])}]" \
        if line["client_limits"] else ""
    return f"{line['title']}: {number(line['value'])}{bar}. {line['note']}{client}"
