"""A server that is killed, or whose disk is full to the end: what its records say afterwards."""
import json
import os
import signal
import unittest

from installation import Installation, run, wait_until
from open_stream import OpenStream

SLOW = {"prompt": "Once upon a time", "max_tokens": 1900, "ignore_eos": True, "stream": True}


class KilledServer(unittest.TestCase):
    def setUp(self):
        self.installation = Installation()
        self.addCleanup(self.installation.close)
        self.installation.set_in_config("drain_delay", '"0s"')

    def serve(self):
        server = self.installation.serve()
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        return server

    def audit(self):
        folder = self.installation.state_dir() / "audit"
        return [json.loads(line) for file in sorted(folder.glob("audit-*.jsonl"))
                for line in file.read_text().splitlines()]

    def test_what_ran_gets_its_end_at_the_next_start_and_once(self):
        server = self.serve()
        self.assertEqual(server.complete(self.installation.key, max_tokens=1)[0], 200)
        for _ in range(2):
            stream = OpenStream(server, self.installation.key, SLOW)
            self.addCleanup(stream.close)
            stream.read_until(b"data: ")
        ids = lambda kind: [r["request_id"] for r in self.audit() if r["kind"] == kind]
        wait_until(lambda: len(ids("admitted")) == 3 and len(ids("ended")) == 1, "3 admitted")
        server.process.kill()
        server.stop()
        verified = self.installation.verify_audit()
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertIn("requests without an end: 2 ", verified.stdout)

        for _ in range(2):
            server = self.serve()
            self.assertEqual(server.complete(self.installation.key, max_tokens=1)[0], 200)
            self.assertEqual(server.total("turnstile_requests_arrived_total"), 1)
            self.assertTrue(server.is_idle(), "nothing of the server before is held or charged")
            self.assertEqual(server.stop(), 0)
        self.assertEqual(sorted(ids("ended")), sorted(ids("admitted")))
        lines = self.installation.records()
        self.assertEqual(sorted(line["request_id"] for line in lines), sorted(ids("admitted")))
        closed = [line for line in lines if line.get("recovered")]
        self.assertEqual([(line["outcome"], line["code"], line["team"]) for line in closed],
                         [("fault", "internal_error", "lab")] * 2)
        verified = self.installation.verify_audit()
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertNotIn("without an end", verified.stdout)

    def test_records_that_the_disk_does_not_take_are_said_by_the_exit_code(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("this system has no /dev/full")
        state = self.installation.state_dir()
        state.mkdir(mode=0o700)
        (state / "events.jsonl").symlink_to("/dev/full")
        server = self.serve()
        self.assertEqual(server.stop(signal.SIGTERM), 3)
        self.assertRegex(server.stderr_text(), r"the disk did not take the last \d+ records; free")

    def test_a_mistake_in_the_key_file_keeps_no_revoked_key_in_use(self):
        created = {name: self.installation.create_key("lab", name) for name in ("anna", "bert")}
        server = self.serve()
        status = lambda key: server.complete(key, max_tokens=1)[0]
        self.assertEqual(server.total("turnstile_key_file_errors"), 0)
        with self.installation.keys.open("a") as file:
            file.write('inflght = 1\n')  # below bert, the last one
        wait_until(lambda: status(created["bert"]) == 403, "the wrong entry is closed")
        self.assertEqual(server.total("turnstile_key_file_errors"), 1)
        self.assertEqual(server.request("GET", "/readyz")[0], 200, "others are served")
        self.assertEqual(status(created["anna"]), 200)
        revoked = run("keys", "revoke", "--config", self.installation.config, "anna")
        self.assertEqual(revoked.returncode, 0, revoked.stderr)
        self.assertIn("inflght", revoked.stderr)
        wait_until(lambda: status(created["anna"]) == 403, "the revoked key is closed")
        self.assertEqual(status(self.installation.key), 200)
        changes = [(r["key_id"], r["change"]) for r in self.audit() if r["kind"] == "key"]
        self.assertEqual(changes, [("bert", "closed"), ("anna", "revoked")])
        self.assertEqual(server.stop(), 0)

    def test_a_key_that_the_policy_does_not_understand_is_closed_and_shown(self):
        key = self.installation.create_key("lab", "anna")
        text = self.installation.keys.read_text()
        wrong = text + 'max_class = "nope"\n'  # below anna, the last one
        server = self.serve()
        status = lambda: server.complete(key, max_tokens=1)[0]
        self.installation.keys.write_text(wrong)
        wait_until(lambda: status() == 403, "the key is closed")
        self.assertEqual(server.total("turnstile_key_file_errors"), 1)
        self.assertEqual(server.total("turnstile_key_reload_total", result="partial"), 1)
        self.installation.keys.write_text("")
        wait_until(lambda: server.total("turnstile_key_reload_total", result="rejected") == 1,
                   "a file without keys is refused")
        self.assertEqual(server.complete(self.installation.key, max_tokens=1)[0], 200)
        self.assertEqual(server.total("turnstile_key_file_errors"), 2)
        self.installation.keys.write_text(text)
        wait_until(lambda: status() == 200, "the mended key is open")
        self.assertEqual(server.total("turnstile_key_file_errors"), 0)
        changes = [(r["key_id"], r["change"]) for r in self.audit() if r["kind"] == "key"]
        self.assertEqual(changes, [("anna", "closed"), ("anna", "changed")])
        self.assertEqual(server.stop(), 0)
        self.installation.keys.write_text(wrong)
        server = self.serve()
        self.assertEqual(server.total("turnstile_key_file_errors"), 1, "from the start on")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
