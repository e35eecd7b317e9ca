"""A client that leaves, in any phase and in any manner, frees what it held; others go on."""
import socket
import time
import unittest

from installation import PATIENCE_SECONDS, ServedTest, wait_until
from open_stream import RESET_ON_CLOSE, OpenStream, request_bytes

GENERATE = {"prompt": "Once upon a time", "max_tokens": 600, "ignore_eos": True}
LONG_PROMPT = "The keeper of the lighthouse wrote down every ship that passed in the night. " * 60


class Disconnects(ServedTest):
    POLICY = """
[teams.single]
dept = "main"
inflight = 1
queue_requests = 8
"""
    TEAMS = ("single",)
    CONFIG = """
[limits]
stream_soft = "2KiB"
stream_soft_time = "1s"
stream_hard = "8KiB"
send_buffer = "4KiB"
"""

    def setUp(self):
        self.gone_before = self.gone()

    def tearDown(self):
        self.server.wait_idle()
        status, _, answer = self.server.complete(self.key)
        self.assertEqual(status, 200, answer)

    def gone(self):
        return self.server.total("turnstile_requests_finished_total", outcome="client_gone")

    def open(self, key=None, **fields):
        stream = OpenStream(self.server, key or self.key, {**GENERATE, **fields})
        self.addCleanup(stream.close)
        return stream

    def wait_running(self, count=1):
        wait_until(lambda: self.server.total("turnstile_requests_running") >= count,
                   f"{count} requests run")

    def expect_gone(self, count=1):
        wait_until(lambda: self.gone() >= self.gone_before + count, "the client counts as gone")
        self.assertEqual(self.gone(), self.gone_before + count)

    def test_reset_before_the_body_is_there_is_no_arrived_request(self):
        arrived = self.server.total("turnstile_requests_arrived_total")
        stream = OpenStream(self.server, self.key, GENERATE, body_bytes_sent=10)
        wait_until(lambda: self.server.total("turnstile_connections") >= 1, "it is connected")
        stream.reset()
        self.server.wait_idle()
        self.assertEqual(self.server.total("turnstile_requests_arrived_total"), arrived)

    def test_reset_during_prefill(self):
        stream = self.open(prompt=LONG_PROMPT, stream=True)
        self.wait_running()
        stream.reset()
        self.expect_gone()

    def test_reset_during_decode(self):
        for choices in (1, 4):
            with self.subTest(n=choices):
                before = self.gone()
                stream = self.open(stream=True, n=choices, temperature=1.0)
                stream.read_until(b"data: ")
                stream.reset()
                wait_until(lambda: self.gone() == before + 1, "the client counts as gone")
                self.server.wait_idle()

    def test_reset_while_an_answer_in_one_piece_is_made(self):
        for choices in (1, 4):
            with self.subTest(n=choices):
                before = self.gone()
                stream = self.open(n=choices, temperature=1.0)
                self.wait_running()
                stream.reset()
                wait_until(lambda: self.gone() == before + 1, "the client counts as gone")
                self.server.wait_idle()

    def test_a_client_that_closes_its_side_is_gone(self):
        stream = self.open(stream=True)
        stream.read_until(b"data: ")
        stream.finish_sending()
        self.expect_gone()

    def test_reset_while_queued_leaves_the_running_one_alone(self):
        key = self.team_keys["single"]
        running = self.open(key, stream=True, max_tokens=1000)
        running.read_until(b"data: ")
        waiting = self.open(key, stream=True)
        wait_until(lambda: self.server.total("turnstile_requests_queued") == 1, "one waits")
        waiting.reset()
        wait_until(lambda: self.server.total("turnstile_requests_queued") == 0, "none waits")
        running.read_until(b"[DONE]")
        self.expect_gone()

    def test_many_leave_at_once(self):
        streams = [self.open(stream=True) for _ in range(12)]
        for stream in streams:
            stream.read_until(b"data: ")
        for stream in streams:
            stream.reset()
        self.expect_gone(12)

    def test_who_leaves_at_any_byte_leaves_no_descriptor(self):
        before = self.server.descriptors_at_rest()
        whole = b"".join(request_bytes(self.server, self.key, {**GENERATE, "stream": True}))
        for cut in range(0, len(whole), 3):
            client = socket.create_connection((self.server.host, self.server.port),
                                              timeout=PATIENCE_SECONDS)
            client.sendall(whole[:cut])
            if cut % 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.close()
        for events in range(12):
            stream = OpenStream(self.server, self.key, {**GENERATE, "stream": True})
            while stream.received.count(b"data: ") < events:
                stream.received += stream.socket.recv(100)
            (stream.reset if events % 2 else stream.close)()
        for _ in range(12):
            OpenStream(self.server, self.key, {**GENERATE, "prompt": LONG_PROMPT * 20}).reset()
        self.assertEqual(self.server.descriptors_at_rest(), before)

    def test_a_slow_reader_ends_as_client_slow_and_delays_nobody(self):
        slow = OpenStream(self.server, self.key, {**GENERATE, "stream": True, "n": 4,
                                                  "temperature": 1.0, "logprobs": 5},
                          receive_buffer_bytes=4096)
        self.addCleanup(slow.close)
        self.wait_running()
        started = time.monotonic()
        status, _, answer = self.server.complete(self.key, max_tokens=16)
        self.assertEqual(status, 200, answer)
        self.assertLess(time.monotonic() - started, 20)
        wait_until(lambda: any(r.get("code") == "client_slow" for r in self.ended()),
                   "the slow reader ended as client_slow")

    def ended(self):
        path = self.installation.state_dir() / "requests.jsonl"
        return self.installation.records() if path.exists() else []


if __name__ == "__main__":
    unittest.main()
