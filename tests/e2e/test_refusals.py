"""Every refusal and every wrong request: status, code, headers, and what it leaves behind."""
import http.client
import json
import time
import tomllib
import unittest

from installation import PATIENCE_SECONDS, ServedTest, run, wait_until
from open_stream import OpenStream

LONG = {"prompt": "Once upon a time", "max_tokens": 200, "ignore_eos": True, "stream": True}


class Refusals(ServedTest):
    POLICY = """
[teams.one-at-a-time]
dept = "main"
inflight = 1
queue_requests = 0
[teams.poor]
dept = "main"
tokens_per_minute = 400          # a bucket of 100
bucket_fraction = 0.25
charge = "max"
[teams.short]
dept = "main"
max_input_tokens = 8
max_output_tokens = 16
[teams.closed]
dept = "main"
disabled = true
[teams.expired]
dept = "main"
"""
    TEAMS = ("one-at-a-time", "poor", "short", "closed", "expired")

    @classmethod
    def prepare(cls):
        # A key whose time is over: written into the file, as an admin would.
        text = cls.installation.keys.read_text()
        head, mark, tail = text.partition('id = "key-of-expired"')
        lines = tail.splitlines(keepends=True)
        for at, line in enumerate(lines):
            if line.strip().startswith("[["):
                break
            if line.strip().startswith("expires"):
                lines[at] = ""
        cls.installation.keys.write_text(head + mark + '\nexpires = "2020-01-01T00:00:00Z"'
                                         + "".join(lines))

    def refused(self, answer, status, code, kind=None):
        self.assertEqual(answer[0], status, answer[2])
        body = answer[2] if isinstance(answer[2], dict) else json.loads(answer[2])
        error = body["error"]
        self.assertEqual(error["code"], code)
        self.assertIn("param", error)
        self.assertTrue(error["message"])
        self.assertTrue(answer[1]["x-request-id"])
        if kind:
            self.assertEqual(error["type"], kind)
        return error

    def test_a_full_queue_is_429_with_a_computed_wait(self):
        key = self.team_keys["one-at-a-time"]
        running = OpenStream(self.server, key, LONG)
        self.addCleanup(running.close)
        running.read_until(b"data: ")
        answer = self.server.complete(key)
        error = self.refused(answer, 429, "queue_full", "rate_limit_error")
        self.assertEqual(answer[1]["x-admission-code"], "queue_full")
        self.assertGreaterEqual(int(answer[1]["retry-after"]), 1)
        self.assertEqual(answer[1]["x-should-retry"], "true")
        self.assertEqual(error["request_id"], answer[1]["x-request-id"])
        for field in ("meter", "scope", "limit", "retry_after_ms", "policy_rev"):
            self.assertIn(field, error)
        running.read_until(b"[DONE]")
        self.server.wait_idle()
        self.assertEqual(self.server.complete(key)[0], 200)

    def test_an_empty_budget_is_429_and_charges_nothing(self):
        key = self.team_keys["poor"]
        status, headers, answer = self.server.complete(key, max_tokens=80, ignore_eos=True)
        self.assertEqual(status, 200, answer)
        refused = self.server.complete(key, max_tokens=80)
        error = self.refused(refused, 429, "budget_tokens", "rate_limit_error")
        self.assertEqual(error["meter"], "tokens_per_minute/team/poor")
        self.assertEqual(error["scope"], "team/poor")
        # Whoever comes too soon with its ticket hears the same wait, of which time has passed, and
        # refusals leave the budget as it was, however often one asks.
        ticket = {"X-Admission-Ticket": refused[1]["x-admission-ticket"]}
        early = [self.server.complete(key, headers=ticket, max_tokens=80) for _ in range(10)]
        told = [int(answer[1]["retry-after-ms"]) for answer in [refused, *early]]
        self.assertEqual(told, sorted(told, reverse=True))
        left = [int(answer[1]["x-ratelimit-remaining-tokens"]) for answer in [refused, *early]]
        self.assertEqual(left, sorted(left))

    def test_more_than_the_bucket_can_ever_hold_is_400(self):
        answer = self.server.complete(self.team_keys["poor"], max_tokens=500)
        self.refused(answer, 400, "exceeds_budget_capacity", "invalid_request_error")

    def test_a_prompt_over_the_teams_limit_is_400_and_counted_as_a_refusal(self):
        before = self.server.total("turnstile_admission_rejected_total", code="input_too_long")
        answer = self.server.complete(self.team_keys["short"], prompt="word " * 40)
        self.refused(answer, 400, "input_too_long")
        self.assertEqual(
            self.server.total("turnstile_admission_rejected_total", code="input_too_long"),
            before + 1)

    def test_max_tokens_over_the_teams_limit_is_400_and_names_the_field(self):
        answer = self.server.complete(self.team_keys["short"], prompt="a", max_tokens=17)
        self.assertEqual(self.refused(answer, 400, "invalid_value")["param"], "max_tokens")

    def test_a_prompt_beyond_the_context_is_400(self):
        answer = self.server.complete(self.key, prompt="word " * 20000)
        self.assertEqual(self.refused(answer, 400, "context_length_exceeded")["param"], "prompt")
        answer = self.server.complete(self.key, prompt="a", max_tokens=10_000_000)
        self.assertEqual(self.refused(answer, 400, "context_length_exceeded")["param"],
                         "max_tokens")

    def test_an_unknown_model_is_404(self):
        self.refused(self.server.complete(self.key, model="nobody"), 404, "model_not_found",
                     "not_found_error")

    def test_keys_that_may_not_pass(self):
        self.refused(self.server.complete(self.team_keys["expired"]), 403, "key_expired",
                     "permission_error")
        self.refused(self.server.complete(self.team_keys["closed"]), 403, "key_disabled",
                     "permission_error")
        self.refused(self.server.complete(None), 401, "invalid_api_key", "authentication_error")
        self.refused(self.server.complete(self.key[:-1]), 401, "invalid_api_key")

    def test_a_revoked_key_stops_within_two_seconds(self):
        # The machine may stand still for a second: the best of three.
        self.assertLess(min(self.seconds_to_revoke(f"for-day-{day}") for day in range(3)), 2)

    def seconds_to_revoke(self, key_id):
        key = self.installation.create_key("lab", key_id)
        wait_until(lambda: self.server.complete(key)[0] == 200, "the new key works")
        done = run("keys", "revoke", key_id, "--config", self.installation.config)
        self.assertEqual(done.returncode, 0, done.stderr)
        started = time.monotonic()
        wait_until(lambda: self.server.complete(key)[0] in (401, 403), "the key is refused")
        return time.monotonic() - started

    def test_malformed_json_is_400(self):
        bodies = ['{"prompt": "a"', "", "[1]", '{"prompt": "a", "max_tokens": 1e400}',
                  '{"prompt": "a", "prompt": "b"}', '{"prompt": "\\ud800"}', "[" * 2000,
                  b'{"prompt": "\xff"}', '{"prompt": NaN}']
        for body in bodies:
            with self.subTest(body[:30]):
                answer = self.server.request("POST", "/v1/completions", body, self.key)
                error = self.refused(answer, 400, "invalid_json", "invalid_request_error")
                self.assertIsNone(error["param"])

    def test_routes_and_methods_that_do_not_exist(self):
        self.refused(self.server.request("GET", "/v1/nothing", key=self.key), 404, "not_found")
        self.refused(self.server.request("GET", "/v1/completions", key=self.key), 405,
                     "method_not_allowed")
        self.refused(self.server.request("POST", "/v1/responses", {}, self.key), 404, "not_found")
        # A stranger learns nothing about routes.
        self.refused(self.server.request("GET", "/v1/nothing"), 401, "invalid_api_key")

    def test_a_body_over_the_limit_is_413(self):
        # Refused by its length, before it is sent: the rest would be read by nobody.
        stream = OpenStream(self.server, self.key, {"prompt": "a" * (5 << 20)}, body_bytes_sent=100)
        self.addCleanup(stream.close)
        answer = stream.read_to_end()
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer[:200])
        self.assertIn(b'"body_too_large"', answer)
        self.assertIn(b"connection: close", answer.lower())

    def test_a_body_that_is_not_json_by_its_type_is_415(self):
        answer = self.server.request("POST", "/v1/completions", "prompt=a", self.key,
                                     {"Content-Type": "application/x-www-form-urlencoded"})
        self.refused(answer, 415, "unsupported_media_type")

    def test_a_compressed_body_is_415(self):
        answer = self.server.request("POST", "/v1/completions", {"prompt": "a"}, self.key,
                                     {"Content-Encoding": "gzip"})
        self.refused(answer, 415, "unsupported_media_type")

    def test_an_unknown_class_is_400(self):
        answer = self.server.request("POST", "/v1/completions", {"prompt": "a"}, self.key,
                                     {"X-Turnstile-Class": "royal"})
        error = self.refused(answer, 400, "invalid_value")
        self.assertEqual(error["param"].lower(), "x-turnstile-class")

    def test_health_needs_no_key(self):
        for path in ("/health", "/livez", "/readyz"):
            self.assertEqual(self.server.request("GET", path)[0], 200)

    def test_a_refusal_keeps_the_connection(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port,
                                                timeout=PATIENCE_SECONDS)
        self.addCleanup(connection.close)
        for _ in range(3):
            connection.request("POST", "/v1/completions", "{", {
                "Authorization": "Bearer " + self.key, "Content-Type": "application/json"})
            answer = connection.getresponse()
            self.assertEqual(answer.status, 400)
            answer.read()


class Models(ServedTest):
    """Two names for one engine; a team that may use only one of them."""

    POLICY = """
[teams.narrow]
dept = "main"
models = ["small"]
"""
    TEAMS = ("narrow",)

    @classmethod
    def prepare(cls):
        engine = tomllib.loads(cls.installation.config.read_text())["models"][0]["name"]
        cls.installation.add_policy(f'[models.small]\nserves = "{engine}"\n'
                                    f'[models.large]\nserves = "{engine}"\n')

    def listed(self, key):
        status, _, body = self.server.request("GET", "/v1/models", key=key)
        self.assertEqual(status, 200, body)
        return [model["id"] for model in json.loads(body)["data"]]

    def test_a_team_sees_and_uses_only_its_models(self):
        key = self.team_keys["narrow"]
        self.assertEqual(self.listed(key), ["small"])
        self.assertEqual(sorted(self.listed(self.key)), ["large", "small"])
        status, _, answer = self.server.complete(key, model="large")
        self.assertEqual((status, answer["error"]["code"]), (403, "model_not_allowed"))
        status, _, answer = self.server.complete(key, model="small")
        self.assertEqual((status, answer["model"]), (200, "small"))
        # Without a name it is the first one the key may use.
        self.assertEqual(self.server.complete(key)[2]["model"], "small")


if __name__ == "__main__":
    unittest.main()
