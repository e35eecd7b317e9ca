"""Starts Turnstile or the peer on a free port, with the settings that a measurement is about."""
import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

START_SECONDS = 120
SLOTS = 32


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tied():
    """In a child before it becomes its program: a process group of its own, so that all it starts
    can be ended with it, and an end with this script however that ends."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Server:
    """A started server; `with` stops it. Attributes: url, pid, api, flags, load_flags."""

    api = ""
    load_flags = ()
    health_path = "/health"

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="against-")
        folder = pathlib.Path(self.scratch.name)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.flags = self.command(folder)
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen(self.flags, stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL, preexec_fn=tied)
        self.pid = self.process.pid
        try:
            self.wait_healthy(folder / "log")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.log.close()
        self.scratch.cleanup()

    def wait_healthy(self, log):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(self.url + self.health_path, timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.05)
        raise SystemExit(f"{self.flags[0]} does not serve; the end of its log:\n"
                         + log.read_text(errors="replace")[-2000:])


class Turnstile(Server):
    """`policy`: tables added to the policy; with `team`, the load uses a key of that team.
    `server`: another program with the verb serve (gateway/instant_server.cpp)."""

    api = "completions"
    name = "turnstile"
    kv_cache_bytes = 512 << 20

    def __init__(self, binary, model, threads, max_model_len=2048, policy="", team=None,
                 server=None):
        self.binary, self.model, self.threads = binary, model, threads
        self.server = server or binary
        self.max_model_len, self.policy, self.team = max_model_len, policy, team

    def command(self, folder):
        secret = self.run_verb("init", folder / "t", "--model", self.model)
        config = folder / "t" / "turnstile.toml"
        with open(folder / "t" / "policies.toml", "a") as policies:
            policies.write("\n" + self.policy)
        if self.team:
            secret = self.run_verb("keys", "create", "--config", config, "--team", self.team,
                                   "--id", "load")
        self.load_flags = ("--key", secret)
        text = re.sub(r"(?m)^#?\s*drain_delay\s*=.*\n", "", config.read_text())
        config.write_text(text.replace("[server]\n", '[server]\ndrain_delay = "0s"\n', 1))
        return [str(self.server), "serve", "--config", str(config),
                "--listen", f"127.0.0.1:{self.port}", "--admin-listen", "127.0.0.1:0",
                "--threads", str(self.threads), "--max-num-seqs", str(SLOTS),
                "--max-num-batched-tokens", "512", "--max-model-len", str(self.max_model_len),
                "--kv-cache-memory-bytes", str(self.kv_cache_bytes)]

    def run_verb(self, *arguments):
        """-> the secret that the verb prints."""
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"turnstile {arguments[0]} failed: {done.stderr}")
        return done.stdout.strip()


class Peer(Server):
    """llama-server. `unified`: one KV buffer for all slots (its default) or one for each."""

    api = "llama"

    def __init__(self, binary, model, threads, unified, context_per_slot):
        self.binary, self.model, self.threads = binary, model, threads
        self.unified, self.context = unified, context_per_slot * SLOTS
        self.name = f"{pathlib.Path(binary).parents[1].name}, " \
                    f"{'unified' if unified else 'split'} KV"

    def command(self, folder):
        return [str(self.binary), "-m", str(self.model), "-t", str(self.threads),
                "-tb", str(self.threads), "-np", str(SLOTS), "-c", str(self.context),
                "-b", "512", "-ub", "512", "-fa", "on",
                "--kv-unified" if self.unified else "--no-kv-unified",
                "--host", "127.0.0.1", "--port", str(self.port)]
