"""Who leaves in the very moment in which it is refused after waiting harms nobody."""
import signal
import socket
import unittest

from installation import PATIENCE_SECONDS, ServedTest, run, wait_until
from open_stream import OpenStream, request_bytes

PLACES = 8


class LeavingRefused(ServedTest):
    POLICY = f"""
[teams.single]
dept = "main"
inflight = 1
queue_requests = {PLACES}
"""
    TEAMS = ("single",)

    @classmethod
    def prepare(cls):
        cls.second_key = cls.installation.create_key("single", "second")

    def setUp(self):
        self.occupant = self.open(self.team_keys["single"], max_tokens=1500, stream=True)
        self.occupant.read_until(b"data: ")

    def tearDown(self):
        self.occupant.close()
        self.server.wait_idle()
        status, _, answer = self.server.complete(self.key)
        self.assertEqual(status, 200, answer)

    def open(self, key, **fields):
        stream = OpenStream(self.server, key, {"prompt": "Once", "ignore_eos": True, **fields})
        self.addCleanup(stream.close)
        return stream

    def connect(self):
        client = socket.create_connection((self.server.host, self.server.port),
                                          timeout=PATIENCE_SECONDS)
        self.addCleanup(client.close)
        return client

    def send(self, client, service_class):
        head, payload = request_bytes(self.server, self.team_keys["single"],
                                      {"prompt": "Once", "max_tokens": 1})
        named = f"X-Turnstile-Class: {service_class}\r\n\r\n".encode()
        client.sendall(head[:-2] + named + payload)

    def wait_queued(self, count):
        wait_until(lambda: self.server.total("turnstile_requests_queued") == count,
                   f"{count} requests wait")

    def ends(self, **fields):
        path = self.installation.state_dir() / "requests.jsonl"
        records = self.installation.records() if path.exists() else []
        return [(r["outcome"], r["code"]) for r in records if fields.items() <= r.items()]

    def test_displaced_and_gone_in_one_turn(self):
        waiting = [self.connect() for _ in range(PLACES)]
        for client in waiting:
            self.send(client, "batch")
        self.wait_queued(PLACES)
        newcomers = [self.connect() for _ in range(PLACES)]
        # Stopped, the server finds all of it at once; about the newest is displaced first.
        self.server.process.send_signal(signal.SIGSTOP)
        for newcomer, displaced in zip(newcomers, reversed(waiting)):
            self.send(newcomer, "interactive")
            displaced.close()
        self.server.process.send_signal(signal.SIGCONT)
        wait_until(lambda: len(self.ends(**{"class": "batch"})) >= PLACES, "the displaced ended")
        self.occupant.close()
        for newcomer in newcomers:
            self.assertTrue(newcomer.recv(100).startswith(b"HTTP/1.1 200"))
        self.server.wait_idle()
        ends = self.ends(**{"class": "batch"})
        self.assertEqual(len(ends), PLACES, "one line for each")
        self.assertIn(("client_gone", "client_gone"), ends)
        self.assertLessEqual(set(ends), {("client_gone", "client_gone"), ("refused", "displaced")})

    def test_revoked_now_while_it_waits(self):
        waiting = self.open(self.second_key, max_tokens=1)
        self.wait_queued(1)
        revoked = run("keys", "revoke", "second", "--now", "--config", self.installation.config)
        self.assertEqual(revoked.returncode, 0, revoked.stderr)
        waiting.read_until(b"key_disabled")
        self.assertTrue(waiting.received.startswith(b"HTTP/1.1 403"), waiting.received)
        ends = wait_until(lambda: self.ends(key_id="second"), "it is recorded")
        self.assertEqual(ends, [("fault", "key_disabled")])


if __name__ == "__main__":
    unittest.main()
