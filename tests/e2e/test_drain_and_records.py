"""The end of a server, and what it leaves on disk."""
import hashlib
import json
import resource
import signal
import threading
import time
import unittest
import urllib.error
import urllib.request

from installation import PATIENCE_SECONDS, Installation, ServedTest, run, wait_until
from open_stream import OpenStream

SLOW = {"prompt": "Once upon a time", "max_tokens": 150, "ignore_eos": True, "stream": True}


class Drain(unittest.TestCase):
    def setUp(self):
        self.installation = Installation()
        self.addCleanup(self.installation.close)

    def start(self, delay, timeout="60s"):
        self.installation.set_in_config("drain_delay", f'"{delay}"')
        self.installation.set_in_config("drain_timeout", f'"{timeout}"')
        self.server = self.installation.serve()
        self.addCleanup(lambda: self.server.process.poll() is None and self.server.process.kill())
        return self.server

    def assert_ended_well(self):
        self.assertEqual(self.server.stop(), 0, self.server.stderr_text()[-2000:])
        verified = self.installation.verify_audit()
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_it_is_not_ready_at_once_but_serves_until_balancers_have_left(self):
        server = self.start("60s")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.request("GET", "/readyz")[0] == 503, "readyz is 503")
        self.assertEqual(server.request("GET", "/livez")[0], 200)
        self.assertEqual(server.complete(self.installation.key, max_tokens=1)[0], 200)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(PATIENCE_SECONDS)

    def test_a_running_stream_finishes_and_new_requests_are_refused(self):
        server = self.start("0s")
        stream = OpenStream(server, self.installation.key, {**SLOW, "max_tokens": 1200})
        self.addCleanup(stream.close)
        stream.read_until(b"data: ")
        server.process.send_signal(signal.SIGTERM)

        def refusal():
            answer = server.complete(self.installation.key, max_tokens=1)
            return answer if answer[0] == 503 else None

        _, headers, answer = wait_until(refusal, "new requests are refused")
        self.assertEqual(answer["error"]["code"], "draining")
        self.assertIn("retry-after", headers)
        self.assertEqual(headers.get("connection", "").lower(), "close")
        stream.read_until(b"[DONE]")
        self.assertIn(b'"finish_reason":"length"', stream.received.replace(b" ", b""))
        self.assert_ended_well()

    def test_what_is_left_after_the_time_limit_ends_with_an_error_event(self):
        server = self.start("0s", "1s")
        stream = OpenStream(server, self.installation.key, {**SLOW, "max_tokens": 1900, "n": 4,
                                                            "temperature": 1.0})
        self.addCleanup(stream.close)
        stream.read_until(b"data: ")
        server.process.send_signal(signal.SIGTERM)
        stream.read_until(b"[DONE]")
        self.assertIn(b'"draining"', stream.received)
        self.assert_ended_well()
        last = self.installation.records()[-1]
        self.assertEqual((last["outcome"], last["code"]), ("fault", "draining"))

    def ask_admin(self, method, path, key=None, host=None):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if host:
            headers["Host"] = host
        asked = urllib.request.Request(self.server.admin_url + path, method=method,
                                       headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code

    def test_the_holder_of_the_admin_key_drains_it(self):
        self.start("0s")
        key = (self.installation.folder / "admin.key").read_text().strip()
        self.assertEqual(self.ask_admin("GET", "/metrics"), 200)
        self.assertEqual(self.ask_admin("GET", "/metrics", host="rebound.example"), 403)
        self.assertEqual(self.ask_admin("GET", "/metrics", key, host="prometheus.example"), 200)
        self.assertEqual(self.ask_admin("POST", "/admin/drain"), 401)
        self.assertEqual(self.ask_admin("POST", "/admin/drain", key), 202)
        self.assertEqual(self.server.process.wait(PATIENCE_SECONDS), 0)
        self.assert_ended_well()
        self.assertIn(("drain", "admin"), [(event["event"], event["by"]) for event in
                                           self.installation.records("events.jsonl")])

    def test_off_loopback_the_admin_listener_answers_the_key_only(self):
        self.installation.set_in_config("allow_plaintext", "true")
        self.server = self.installation.serve("--admin-listen", "0.0.0.0:0")
        self.addCleanup(lambda: self.server.process.poll() is None and self.server.process.kill())
        key = (self.installation.folder / "admin.key").read_text().strip()
        self.assertEqual(self.ask_admin("GET", "/metrics"), 401)
        self.assertEqual(self.ask_admin("GET", "/metrics", key), 200)
        self.assertEqual(self.ask_admin("GET", "/livez"), 200)

    def test_an_idle_server_ends_soon(self):
        self.start("0s")
        started = time.monotonic()
        self.assert_ended_well()
        self.assertLess(time.monotonic() - started, 20, "it waits for nobody")

    def test_a_second_signal_ends_at_once(self):
        server = self.start("30s")
        server.process.send_signal(signal.SIGINT)
        wait_until(lambda: server.request("GET", "/readyz")[0] == 503, "readyz is 503")
        server.process.send_signal(signal.SIGINT)
        server.process.wait(20)  # without the second it would take 30 s


class Records(ServedTest):
    POLICY = """
[teams.never]
dept = "main"
requests_per_minute = 0
"""
    TEAMS = ("never",)
    SECRET_WORDS = ("zanzibar", "quokka")

    def test_every_arrived_request_has_one_line_and_its_audit_records(self):
        before = self.lines()
        self.assertEqual(self.server.complete(self.key)[0], 200)
        self.assertEqual(self.server.complete(self.team_keys["never"])[0], 429)
        long = {**SLOW, "max_tokens": 1200}  # none ends before its client has left
        gone = OpenStream(self.server, self.key, long)
        gone.read_until(b"data: ")
        gone.reset()
        self.server.wait_idle()
        unanswered = OpenStream(self.server, self.key, {**long, "stream": False})
        wait_until(lambda: self.server.total("turnstile_requests_running") == 1, "it runs")
        unanswered.reset()
        self.server.wait_idle()
        wait_until(lambda: len(self.lines()) >= len(before) + 4, "four more lines")
        lines = self.lines()[len(before):]
        # The status is what the client saw, 499 when it saw nothing.
        self.assertEqual([(r["outcome"], r["status"]) for r in lines],
                         [("completed", 200), ("refused", 429), ("client_gone", 200),
                          ("client_gone", 499)])
        self.assertEqual(lines[1]["code"], "rate_requests")
        self.assertEqual(lines[2]["code"], "client_gone")
        for record in lines:
            for field in ("ts", "team", "key_id", "class"):
                self.assertIn(field, record)
        kinds = {}
        for record in self.audit():
            if "request_id" in record:
                kinds.setdefault(record["request_id"], []).append(record["kind"])
        for record in lines:
            expected = ["refused"] if record["outcome"] == "refused" else ["admitted", "ended"]
            self.assertEqual(kinds[record["request_id"]], expected, record)

    def test_a_file_at_the_size_limit_of_the_process_is_a_full_disk(self):
        log = max((self.installation.state_dir() / "audit").glob("audit-*.jsonl"))
        self.server.wait_idle()

        def limit(size):
            resource.prlimit(self.server.process.pid, resource.RLIMIT_FSIZE,
                             (size, resource.RLIM_INFINITY))

        def status():
            return self.server.complete(self.key, max_tokens=1)[0]

        limit(log.stat().st_size + 2_000)
        self.addCleanup(limit, resource.RLIM_INFINITY)
        wait_until(lambda: status() == 503, "new requests are refused")
        self.assertEqual(self.server.request("GET", "/livez")[0], 200)
        limit(resource.RLIM_INFINITY)
        wait_until(lambda: status() == 200, "it serves again")

    def test_every_scrape_balances_under_load(self):
        stop = threading.Event()

        def load(key):
            while not stop.is_set():
                self.server.complete(key, max_tokens=3)

        threads = [threading.Thread(target=load, args=(key,))
                   for key in (self.key, self.key, self.team_keys["never"])]
        for thread in threads:
            thread.start()
        try:
            for _ in range(40):
                series = self.server.metrics()
                arrived, finished, queued, running = (
                    sum(value for name, value in series.items() if name.partition("{")[0] == family)
                    for family in ("turnstile_requests_arrived_total",
                                   "turnstile_requests_finished_total",
                                   "turnstile_requests_queued", "turnstile_requests_running"))
                self.assertEqual(arrived, finished + queued + running)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def test_no_text_of_a_request_is_kept(self):
        prompt = " and ".join(self.SECRET_WORDS)
        self.assertEqual(self.server.complete(self.key, prompt=prompt)[0], 200)
        self.assertEqual(self.server.complete(self.key, prompt=prompt, model="nobody")[0], 404)
        self.server.request("POST", "/v1/completions", f'{{"prompt": "{prompt}"', self.key)
        self.server.wait_idle()
        kept = "".join(path.read_text(errors="replace")
                       for path in self.installation.folder.rglob("*") if path.is_file())
        for word in self.SECRET_WORDS:
            self.assertNotIn(word, kept)
        self.assertNotIn(self.key, kept)

    def test_the_audit_names_the_policy_file_by_its_whole_hash(self):
        digest = hashlib.sha256(self.installation.policy.read_bytes()).hexdigest()
        first = next(record for record in self.audit() if record["kind"] == "policy")
        self.assertEqual(first["sha256"], digest)
        self.assertEqual(first["revision"], "r1-" + digest[:8])

    def test_events_hold_the_effective_configuration(self):
        events = self.installation.records("events.jsonl")
        self.assertTrue(events)
        self.assertIn("max_num_seqs", json.dumps(events))

    def test_an_edited_audit_line_is_found(self):
        self.assertEqual(self.server.complete(self.key)[0], 200)
        self.server.wait_idle()
        path = self.installation.state_dir() / "audit" / "audit-000001.jsonl"
        wait_until(path.exists, "an audit file")
        wait_until(lambda: b'"team":"lab"' in path.read_bytes(), "a record of team lab")
        copy = self.installation.folder / "edited" / "audit"
        copy.mkdir(parents=True)
        text = path.read_bytes()
        (copy / path.name).write_bytes(text)
        self.assertEqual(run("audit", "verify", copy).returncode, 0)
        (copy / path.name).write_bytes(text.replace(b'"team":"lab"', b'"team":"lob"', 1))
        self.assertEqual(run("audit", "verify", copy).returncode, 1)
        shown = run("audit", "show", "--config", self.installation.config, "--team", "lab")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("admitted", shown.stdout)

    def lines(self):
        path = self.installation.state_dir() / "requests.jsonl"
        return self.installation.records() if path.exists() else []

    def audit(self):
        return [json.loads(line)
                for path in sorted((self.installation.state_dir() / "audit").glob("audit-*.jsonl"))
                for line in path.read_text().splitlines()]


class Restart(unittest.TestCase):
    def test_the_chain_goes_on_after_a_restart_and_after_a_kill(self):
        installation = Installation()
        self.addCleanup(installation.close)
        installation.set_in_config("drain_delay", '"0s"')
        for signal_number, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL),
                                    (signal.SIGTERM, 0)):
            server = installation.serve()
            self.assertEqual(server.complete(installation.key)[0], 200)
            self.assertEqual(server.stop(signal_number), code)
            verified = installation.verify_audit()
            self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)


if __name__ == "__main__":
    unittest.main()
