"""The two kinds of clients: many streams (turnstile-load) and one that reads every header."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import time

import figures
import servers


class Load:
    """A running turnstile-load. `stop` ends it early; `result` waits for its end.

    Times of the records are seconds on this machine's monotonic clock, `time.monotonic()` too."""

    def __init__(self, binary, server, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="flood-")
        folder = pathlib.Path(self.folder.name)
        self.report, self.records = folder / "report.json", folder / "records.jsonl"
        self.log = open(folder / "log", "wb")
        command = [str(binary), "--url", server.url, *map(str, server.load_flags),
                   *map(str, flags), "--report", str(self.report), "--records", str(self.records)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log,
                                        preexec_fn=servers.tied)
        # Server and clients share the processors, and a client that waits for one measures itself.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, self.process.pid, -15)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.result()

    def result(self):
        code = self.process.wait()
        self.log.close()
        if code not in (0, 1):
            text = pathlib.Path(self.log.name).read_text(errors="replace")
            raise SystemExit(f"flood.py: turnstile-load failed: {text[-2000:]}")
        report = json.loads(self.report.read_text())
        base = report["load"]["started_monotonic_ns"]
        records = []
        for line in self.records.read_text().splitlines():
            record = json.loads(line)
            for name in ("sched", "sent", "headers", "first_token", "last_token", "end"):
                ns = record.pop(f"{name}_ns", None)
                record[name] = None if ns is None else (base + ns) / 1e9
            records.append(record)
        self.folder.cleanup()
        return Seen(report, records)


class Seen:
    """What one load client saw."""

    def __init__(self, report, records):
        self.report, self.records = report, records
        # How late it was at most; times count from the schedule, so this is inside them.
        self.late_ms = report["load"]["lag_ms"]["max"]
        # Why else the client itself was the limit: busy, or away from its sockets.
        self.limits = [reason for reason in report["verdict"]["reasons"]
                       if not reason.startswith("requests were sent")]

    def first_token_ms(self):
        """From the intended send; a request that got none counts as long as it waited."""
        return [1e3 * ((record["first_token"] or record["end"]) - record["sched"])
                for record in self.records if record["outcome"] not in ("unsent", "rejected")]

    def unanswered(self):
        return sum(record["first_token"] is None for record in self.records)

    def gaps_ms(self):
        return [gap for record in self.records for gap in record["gaps_ms"]]

    def rate(self, begin, end):
        """Tokens a second that arrived between two times."""
        return sum(figures.tokens_in_window(record, begin, end)
                   for record in self.records) / (end - begin)

    def summary(self):
        """What is kept of a run: its report, without one line a request."""
        return {key: self.report[key] for key in ("load", "verdict", "outcomes", "codes",
                                                  "latency", "throughput")}


def ask(server, key, fields, headers=()):
    """One request that is not streamed -> (status, headers, body, seconds)."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request("POST", "/v1/completions", json.dumps(fields),
                           {"Content-Type": "application/json", "Authorization": f"Bearer {key}",
                            **dict(headers)})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        return answer.status, answer.headers, body, time.monotonic() - began
    finally:
        connection.close()


class ObedientClients:
    """Threads that send request after request with pauses between; one that is refused waits
    exactly as told and then tries once more, with its ticket when it got one."""

    def __init__(self, server, key, fields, clients, think_s, headers=(), seed=1):
        self.server, self.key, self.fields = server, key, fields
        self.think_s, self.headers, self.seed = think_s, headers, seed
        self.tries = []  # (code of the refusal, was admitted at the retry, ms told, code then)
        self.hopeless = []  # codes of refusals that said not to retry
        self.answered = 0
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(number,))
                        for number in range(clients)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        return self

    def run(self, number):
        chance = random.Random(self.seed * 1000 + number)
        self.over.wait(chance.random() * self.think_s)
        while not self.over.is_set():
            self.one_request(chance)
            self.over.wait(chance.expovariate(1 / self.think_s))

    def one_request(self, chance):
        fields = {**self.fields, "seed": chance.randrange(1 << 30),
                  "prompt": [chance.randrange(1000, 40000) for _ in range(self.fields["prompt"])]}
        status, answer, body, _ = ask(self.server, self.key, fields, self.headers)
        if status == 200:
            with self.lock:
                self.answered += 1
            return
        code = body["error"]["code"]
        told = answer.get("retry-after-ms")
        if told is None or answer.get("x-should-retry") == "false":
            with self.lock:
                self.hopeless.append(code)
            return
        if self.over.wait(float(told) / 1e3):
            return
        ticket = answer.get("x-admission-ticket")
        more = [("x-admission-ticket", ticket)] if ticket else []
        status, _, body, _ = ask(self.server, self.key, fields, [*self.headers, *more])
        with self.lock:
            self.tries.append((code, status == 200, float(told),
                               None if status == 200 else body["error"]["code"]))
            self.answered += status == 200
