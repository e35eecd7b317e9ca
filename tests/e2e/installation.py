"""A folder made by `turnstile init`, and the binary that serves it.

Everything a test needs of the outside world is here: files, processes, ports, and reading what the
server wrote. Times are bounded: whatever does not happen within kPatienceSeconds fails the test.
"""
import http.client
import json
import os
import pathlib
import queue
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

BINARY = pathlib.Path(os.environ["TURNSTILE_BINARY"]).resolve()
MODEL = pathlib.Path(os.environ["TURNSTILE_TEST_MODEL"]).resolve()
PATIENCE_SECONDS = 60
LISTENERS = 2


def wait_until(condition, what, seconds=PATIENCE_SECONDS):
    """Polls: the events of another process can only be asked for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


class Installation:
    """A temporary folder with turnstile.toml, policies.toml, keys.toml, pepper and admin.key."""

    def __init__(self, model=MODEL):
        self._scratch = tempfile.TemporaryDirectory(prefix="turnstile-e2e-")
        self.folder = pathlib.Path(self._scratch.name) / "t"
        made = run("init", self.folder, "--model", model)
        assert made.returncode == 0, made.stderr
        self.key = made.stdout.strip()
        self.config = self.folder / "turnstile.toml"
        self.policy = self.folder / "policies.toml"
        self.keys = self.folder / "keys.toml"

    def close(self):
        self._scratch.cleanup()

    def add_policy(self, text):
        """Appends tables to the policy that init wrote (department main, team lab)."""
        self.policy.write_text(self.policy.read_text() + "\n" + text)

    def add_config(self, text):
        self.config.write_text(self.config.read_text() + "\n" + text)

    def set_in_config(self, name, value):
        """Replaces a setting that init wrote, commented out or not, or adds it under [server]."""
        text = self.config.read_text()
        text, times = re.subn(rf"(?m)^#?\s*{name}\s*=.*$", f"{name} = {value}", text, count=1)
        if times == 0:
            text = text.replace("[server]\n", f"[server]\n{name} = {value}\n", 1)
        self.config.write_text(text)

    def create_key(self, team, key_id, *flags):
        made = run("keys", "create", "--config", self.config, "--team", team, "--id", key_id,
                   *flags)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def state_dir(self):
        return self.folder / "state"

    def verify_audit(self):
        return run("audit", "verify", self.state_dir())

    def records(self, name="requests.jsonl"):
        path = self.state_dir() / name
        return [json.loads(line) for line in path.read_text().splitlines()]

    def serve(self, *flags):
        return RunningServer(self, flags)


def run(*arguments, timeout=PATIENCE_SECONDS, address_space=resource.RLIM_INFINITY):
    """Runs a verb to its end; text output. It gets no more address space, in bytes."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (address_space, resource.RLIM_INFINITY))
    return subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout, preexec_fn=limit)


class RunningServer:
    """`turnstile serve` on free ports; started when the constructor returns."""

    def __init__(self, installation, flags):
        self.installation = installation
        command = [BINARY, "serve", "--config", installation.config, "--listen", "127.0.0.1:0",
                   *flags]
        if "--admin-listen" not in flags:
            command += ["--admin-listen", "127.0.0.1:0"]
        self.log = open(installation.folder / "stderr.log", "ab")
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self._lines = queue.Queue()
        threading.Thread(target=self._read_stdout, daemon=True).start()
        self.admin_url = self._announced("admin")
        self.url = self._announced("ready")
        self.host, _, port = self.url.partition("://")[2].partition(":")
        self.port = int(port)

    def _read_stdout(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _announced(self, word):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            if line is None:
                self.process.wait()
                raise AssertionError(f"serve ended with {self.process.returncode}: "
                                     + self.stderr_text()[-2000:])
            if line.startswith(word + " "):
                return line.split()[1]

    def stderr_text(self):
        return (self.installation.folder / "stderr.log").read_text(errors="replace")

    def stop(self, signal_number=signal.SIGTERM):
        """Asks it to end; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.log.close()
        return self.process.returncode

    def metrics(self):
        """Series with its labels, as Prometheus writes it -> value."""
        with urllib.request.urlopen(self.admin_url + "/metrics",
                                    timeout=PATIENCE_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {series: float(value) for series, value in pairs}

    def total(self, family, **labels):
        """Sum of a family over all series that have these labels."""
        wanted = [f'{name}="{value}"' for name, value in labels.items()]
        return sum(value for series, value in self.metrics().items()
                   if series.partition("{")[0] == family and all(w in series for w in wanted))

    def is_idle(self):
        """Nothing runs, nothing waits, and no block, slot or permit is committed."""
        held = (self.total("turnstile_requests_running"), self.total("turnstile_requests_queued"),
                self.total("turnstile_meter_committed", meter="kv_blocks"),
                self.total("turnstile_meter_committed", meter="sequence_slots"))
        return not any(held)

    def wait_idle(self):
        wait_until(self.is_idle, "the server is idle and holds nothing")

    def descriptors(self):
        """What the process holds open: number -> what it is."""
        folder = pathlib.Path(f"/proc/{self.process.pid}/fd")
        found = {}
        for entry in folder.iterdir():
            try:
                found[entry.name] = os.readlink(entry)
            except FileNotFoundError:
                pass  # closed since the folder was read
        return found

    def descriptors_at_rest(self):
        """The same without any connection. The answer to a request, a scrape too, may be read a
        moment before the server has closed its side."""
        def without_connections():
            found = self.descriptors()
            sockets = [what for what in found.values() if what.startswith("socket:")]
            return found if len(sockets) == LISTENERS else None
        return wait_until(without_connections, "the server holds no connection")

    def request(self, method, path, body=None, key=None, headers=None):
        """One request on a connection of its own -> (status, headers, body bytes)."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        try:
            sent = dict(headers or {})
            if key:
                sent["Authorization"] = "Bearer " + key
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            if body is not None:
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def complete(self, key, headers=None, **fields):
        """POST /v1/completions -> (status, headers, parsed body)."""
        body = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0, **fields}
        status, headers, answer = self.request("POST", "/v1/completions", body, key,
                                               headers)
        return status, headers, json.loads(answer)


class ServedTest(unittest.TestCase):
    """One server for the tests of a class. After the last, it drains, exits 0, and its audit chain
    holds."""

    POLICY = ""      # tables added to the policy
    CONFIG = ""      # tables added to turnstile.toml
    TEAMS = ()       # teams of POLICY; each gets a key, in self.team_keys
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.installation = Installation()
        cls.addClassCleanup(cls.installation.close)
        cls.installation.set_in_config("drain_delay", '"0s"')
        if cls.POLICY:
            cls.installation.add_policy(cls.POLICY)
        if cls.CONFIG:
            cls.installation.add_config(cls.CONFIG)
        cls.key = cls.installation.key
        cls.team_keys = {team: cls.installation.create_key(team, f"key-of-{team}")
                         for team in cls.TEAMS}
        cls.prepare()
        cls.server = cls.installation.serve(*cls.FLAGS)
        cls.addClassCleanup(cls._check_end)

    @classmethod
    def prepare(cls):
        """What a class changes before the server starts."""

    @classmethod
    def _check_end(cls):
        code = cls.server.stop()
        assert code == 0, f"serve ended with {code}: {cls.server.stderr_text()[-2000:]}"
        verified = cls.installation.verify_audit()
        assert verified.returncode == 0, verified.stdout + verified.stderr
