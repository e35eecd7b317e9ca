"""The servers that are flooded: Turnstile with a policy, and the peers at their best settings.

Every stand has `load_flags` for all clients and `client_flags(who)` for one kind of client, where
`who` is "people" (interactive), "demo", or a batch team, and `pause_ms`, for which a batch client
that was refused stays silent.
"""
import json
import pathlib
import re
import secrets
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import servers  # noqa: E402

PEOPLE = "people"
CONTEXT = 512  # tokens a slot of llama-server; a request needs at most 200


class Gateway(servers.Turnstile):
    """`teams`: {name: class of its clients}; each gets a key. `policy` replaces the file."""

    name = "turnstile"
    api = "completions"
    pause_ms = 1000

    def __init__(self, arguments, teams, policy="", more_flags=()):
        super().__init__(arguments.turnstile, arguments.model, arguments.threads)
        self.teams, self.rules, self.more_flags = teams, policy, more_flags

    def command(self, folder):
        settings = folder / "t"
        super().command(folder)
        (settings / "policies.toml").write_text(self.rules or plain_policy(self.teams))
        self.keys = {team: self.run_verb("keys", "create", "--config", settings / "turnstile.toml",
                                         "--team", team, "--id", f"{team}-key")
                     for team in self.teams}
        self.load_flags = ()
        self.state, self.admin_port = settings / "state", servers.free_port()
        return [str(self.binary), "serve", "--config", str(settings / "turnstile.toml"),
                "--listen", f"127.0.0.1:{self.port}",
                "--admin-listen", f"127.0.0.1:{self.admin_port}", "--threads", str(self.threads),
                *self.more_flags]

    def client_flags(self, who):
        return ("--key", self.keys[who], "--class", self.teams[who])

    def metrics(self):
        """-> {series as printed: value}"""
        url = f"http://127.0.0.1:{self.admin_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in
                (line.rpartition(" ") for line in lines if not line.startswith("#"))}

    def finished(self):
        return sum(value for name, value in self.metrics().items()
                   if name.startswith("turnstile_requests_finished_total"))

    def audit(self, kind=None):
        """All records so far, as dictionaries."""
        found = []
        for file in sorted((self.state / "audit").glob("*.jsonl")):
            for line in file.read_text().splitlines():
                record = json.loads(line)
                if kind is None or record.get("kind") == kind:
                    found.append(record)
        return found

    def settings(self):
        return {"flags": [flag for flag in self.flags[1:] if "/" not in flag],
                "policy": self.rules or plain_policy(self.teams),
                "version": subprocess.run([self.binary, "version"], capture_output=True,
                                          text=True).stdout.strip()}


def plain_policy(teams, more=""):
    """Nothing but the teams: every other rule is the built-in default."""
    lines = ["schema = 1", "[depts.main]"]
    for team in teams:
        lines += [f"[teams.{team}]", 'dept = "main"']
    return "\n".join(lines) + "\n" + more


class LlamaServer(servers.Peer):
    """llama-server with 16 slots, split or unified KV."""

    api = "completions"
    pause_ms = 1000
    slots = 16

    def __init__(self, arguments, binary):
        super().__init__(binary, arguments.model, arguments.threads, True, CONTEXT)
        self.name = f"llama-server ({pathlib.Path(binary).parents[1].name})"

    def command(self, folder):
        return [str(self.binary), "-m", str(self.model), "-t", str(self.threads), "-tb",
                str(self.threads), "-np", str(self.slots), "-c", str(CONTEXT * self.slots), "-fa",
                "on", "--no-kv-unified", "--host", "127.0.0.1", "--port", str(self.port)]

    def client_flags(self, who):
        return ()

    def settings(self):
        version = subprocess.run([self.binary, "--version"], capture_output=True, text=True)
        return {"flags": [flag for flag in self.flags[1:] if "/" not in flag],
                "version": (version.stderr + version.stdout).strip().splitlines()[:1]}


class Before(servers.Server):
    """A gateway of others in front of a llama-server."""

    api = "completions"
    pause_ms = 1000

    def __init__(self, arguments, environment, back):
        self.environment = pathlib.Path(environment)
        self.back = LlamaServer(arguments, back)

    def __enter__(self):
        self.back.__enter__()
        try:
            return super().__enter__()
        except BaseException:
            self.back.__exit__()
            raise

    def __exit__(self, *_):
        super().__exit__()
        self.back.__exit__()

    def version_of(self, package):
        shown = subprocess.run([self.environment / "bin/pip", "show", package],
                               capture_output=True, text=True).stdout
        found = re.search(r"(?m)^Version: (.*)$", shown)
        return f"{package} {found[1]}" if found else package


class LiteLlm(Before):
    """One llama-server, two keys. The key of batch may have `batch_slots` requests open, so that
    the other slots stay free for people; the rest is refused. That limit belongs to keys, which
    come from a database or, here, from a function; the limit of the same name on a model ends with
    the headers of a stream and keeps no slot free, and requests a minute come in bursts."""

    health_path = "/health/liveliness"  # the one that asks no model
    pause_ms = 5000  # it says 60 s; every second, its refusals would take the processors

    def __init__(self, arguments, environment, back, batch_slots):
        super().__init__(arguments, environment, back)
        self.batch_slots = batch_slots
        self.name = f"LiteLLM, {batch_slots} slots of batch"

    def command(self, folder):
        (folder / "keys_of_run.py").write_text(f"""\
from litellm.proxy._types import UserAPIKeyAuth

LIMITS = {{"sk-people": None, "sk-batch": {self.batch_slots}}}


async def key_of(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, max_parallel_requests=LIMITS[api_key])
""")
        lines = ["model_list:", "- model_name: default", "  litellm_params:",
                 "    model: text-completion-openai/default",
                 f"    api_base: {self.back.url}/v1", "    api_key: none",
                 "router_settings:", "  num_retries: 0", "litellm_settings:",
                 "  telemetry: false", "  request_timeout: 120",
                 "general_settings:", "  custom_auth: keys_of_run.key_of"]
        self.text = "\n".join(lines) + "\n"
        config = folder / "litellm.yaml"
        config.write_text(f"{self.text}  master_key: sk-{secrets.token_hex(32)}\n")
        return [str(self.environment / "bin/litellm"), "--config", str(config), "--host",
                "127.0.0.1", "--port", str(self.port), "--num_workers", "1"]

    def client_flags(self, who):
        return ("--key", "sk-people" if who == PEOPLE else "sk-batch", "--model", "default")

    def settings(self):
        return {"version": self.version_of("litellm"), "config": self.text,
                "batch_slots": self.batch_slots, "behind": self.back.settings()}


class Smg(Before):
    """The priority scheduler. A worker that does not tell its slots, as this one, counts as 64: all
    but `batch_slots` of them are kept for people, so that the llama-server has some free."""

    counted = 64

    def __init__(self, arguments, environment, back, batch_slots):
        super().__init__(arguments, environment, back)
        self.reserved = self.counted - batch_slots
        self.name = f"SMG, {batch_slots} slots of batch"

    def command(self, folder):
        self.text = "classes:\n" + "".join(
            f"  {name}:\n    reserved_floor: {reserved}\n    queue_size: 256\n"
            f"    queue_timeout_secs: {timeout}\n    starvation_threshold_secs: {patience}\n"
            f"    can_preempt: {preempt}\n"
            for name, reserved, timeout, patience, preempt in
            (("system", 0, 60, 60, "true"), ("interactive", self.reserved, 60, 60, "true"),
             ("default", 0, 120, 120, "false"), ("bulk", 0, 300, 300, "false")))
        config = folder / "priority.yaml"
        config.write_text(self.text)
        return [str(self.environment / "bin/smg"), "launch", "--worker-urls", self.back.url,
                "--host", "127.0.0.1", "--port", str(self.port), "--policy", "round_robin",
                "--prometheus-port", str(servers.free_port()),
                "--max-concurrent-requests", str(self.counted), "--queue-size", "256",
                "--disable-retries", "--priority-scheduler-enabled",
                "--priority-scheduler-default-max-class", "system",
                "--priority-scheduler-config", str(config)]

    def client_flags(self, who):
        return ("--header", f"x-smg-priority: {'interactive' if who == PEOPLE else 'bulk'}",
                "--model", "default")

    def settings(self):
        return {"version": self.version_of("smg"), "config": self.text,
                "flags": [flag for flag in self.flags[2:] if not flag.startswith("/")],
                "behind": self.back.settings()}
