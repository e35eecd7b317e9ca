"""The servers that are flooded: Turnstile with a policy, and the peers at their best settings.

Every stand has `load_flags` for all clients and `client_flags(who)` for one kind of client, where
`who` is "people" (interactive), "demo", or a batch team.
"""
import json
import pathlib
import re
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
    """Two names for one llama-server. The batch name may start `batch_rpm` requests a minute, so
    that slots stay free for people; the rest is refused. (Its max_parallel_requests ends with the
    headers of a stream and keeps no slot free: people waited 30 s.) Its scheduler's priorities are
    sent as well (0 people, 100 batch)."""

    health_path = "/health/liveliness"  # the one that asks no model
    key = "sk-only-for-this-run"

    def __init__(self, arguments, environment, back, batch_rpm):
        super().__init__(arguments, environment, back)
        self.batch_rpm = batch_rpm
        self.name = f"LiteLLM, batch at {batch_rpm} a minute"

    def command(self, folder):
        lines = ["model_list:"]
        for alias, limit in ((PEOPLE, None), ("batch", self.batch_rpm)):
            lines += [f"- model_name: {alias}", "  litellm_params:",
                      "    model: text-completion-openai/default",
                      f"    api_base: {self.back.url}/v1", "    api_key: none"]
            if limit:
                lines += [f"    rpm: {limit}"]
        lines += ["router_settings:", "  num_retries: 0",
                  '  optional_pre_call_checks: ["enforce_model_rate_limits"]', "litellm_settings:",
                  "  telemetry: false", "  request_timeout: 120",
                  "general_settings:", f"  master_key: {self.key}"]
        self.text = "\n".join(lines) + "\n"
        config = folder / "litellm.yaml"
        config.write_text(self.text)
        return [str(self.environment / "bin/litellm"), "--config", str(config), "--host",
                "127.0.0.1", "--port", str(self.port), "--num_workers", "1"]

    def client_flags(self, who):
        alias, priority = (PEOPLE, 0) if who == PEOPLE else ("batch", 100)
        return ("--key", self.key, "--model", alias, "--priority", priority)

    def settings(self):
        return {"version": self.version_of("litellm"), "config": self.text,
                "behind": self.back.settings()}


class Smg(Before):
    """The priority scheduler: as many requests at a time as the llama-server has slots, of which
    `reserved` are kept for people."""

    def __init__(self, arguments, environment, back, reserved):
        super().__init__(arguments, environment, back)
        self.reserved = reserved
        self.name = f"SMG, {reserved} slots reserved"

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
                "--max-concurrent-requests", str(self.back.slots), "--queue-size", "256",
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
