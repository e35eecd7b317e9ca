"""The official openai client against the real model."""
import json
import time
import unittest

import openai

from installation import ServedTest


class OfficialClientTest(ServedTest):
    POLICY = """
[teams.slow]
dept = "main"
requests_per_minute = 120
bucket_fraction = 0.009          # one request at a time, the next half a second later
[teams.slower]
dept = "main"
requests_per_minute = 6
bucket_fraction = 0.17           # the next after ten seconds
[teams.never]
dept = "main"
requests_per_minute = 0
[teams.two-models]
dept = "main"
"""
    TEAMS = ("slow", "slower", "never", "two-models")

    def client(self, key=None, **options):
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key=key or self.key,
                               max_retries=options.pop("max_retries", 0), **options)
        self.addCleanup(client.close)
        return client

    def model_name(self):
        return self.client().models.list().data[0].id

    def chat(self, client=None, **fields):
        fields = {"model": self.model_name(), "temperature": 0, "max_tokens": 24,
                  "messages": [{"role": "user", "content": "Name three colours."}], **fields}
        return (client or self.client()).chat.completions.create(**fields)


class Answers(OfficialClientTest):
    def test_chat_answers_with_text_usage_and_reason(self):
        answer = self.chat()
        choice = answer.choices[0]
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(choice.message.role, "assistant")
        self.assertTrue(choice.message.content.strip())
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertLessEqual(answer.usage.completion_tokens, 24)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens % 16, 0)

    def test_the_answer_is_explained(self):
        explained = self.chat().model_extra["turnstile"]
        self.assertEqual(explained["class"], "interactive")
        for field in ("policy", "queue_ms", "prefill_ms", "decode_ms", "ttft_ms", "cached_tokens",
                      "pauses"):
            self.assertIn(field, explained)

    def test_a_stream_has_the_same_text_as_the_answer_in_one_piece(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual({c.id for c in chunks}, {chunks[0].id})
        # The role comes with the first text: it must not stop a client's clock before a token.
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertTrue(chunks[0].choices[0].delta.content or chunks[1].choices[0].delta.content)
        reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
        self.assertEqual([r for r in reasons if r], [whole.choices[0].finish_reason])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertIn("turnstile", chunks[-1].model_extra)

    def test_a_stream_without_include_usage_has_no_usage(self):
        chunks = list(self.chat(stream=True, max_tokens=3))
        self.assertTrue(all(c.usage is None for c in chunks))
        self.assertTrue(all(c.choices for c in chunks))

    def test_completions_take_text_lists_and_token_ids(self):
        client, model = self.client(), self.model_name()
        options = {"model": model, "max_tokens": 8, "temperature": 0}
        one = client.completions.create(prompt="Once upon a time", **options)
        self.assertTrue(one.choices[0].text)
        two = client.completions.create(prompt=["Once upon a time", "The capital of France is"],
                                        **options)
        self.assertEqual([c.index for c in two.choices], [0, 1])
        self.assertEqual(two.choices[0].text, one.choices[0].text)
        ids = self.server.request("POST", "/tokenize", {"model": model,
                                                        "prompt": "Once upon a time"}, self.key)
        self.assertEqual(ids[0], 200, ids[2])
        tokens = json.loads(ids[2])["tokens"]
        by_ids = client.completions.create(prompt=tokens, **options)
        self.assertEqual(by_ids.choices[0].text, one.choices[0].text)
        self.assertEqual(by_ids.usage.prompt_tokens, len(tokens))

    def test_completions_stream(self):
        client, model = self.client(), self.model_name()
        options = {"model": model, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
        whole = client.completions.create(**options)
        pieces = [c.choices[0].text for c in client.completions.create(stream=True, **options)]
        self.assertEqual("".join(pieces), whole.choices[0].text)

    def test_the_same_seed_gives_the_same_text_and_another_seed_another(self):
        texts = [self.chat(temperature=1.0, seed=seed).choices[0].message.content
                 for seed in (7, 7, 8)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_several_choices(self):
        answer = self.chat(n=3, temperature=1.0, seed=1)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        self.assertGreater(len({c.message.content for c in answer.choices}), 1)

    def test_a_stop_string_ends_the_text_and_is_not_in_it(self):
        text = self.chat(max_tokens=24).choices[0].message.content
        stop = text[len(text) // 2:][:3]
        for stream in (False, True):
            answer = self.chat(stop=stop, stream=stream)
            stopped = ("".join(c.choices[0].delta.content or "" for c in answer if c.choices)
                       if stream else answer.choices[0].message.content)
            self.assertEqual(stopped, text[:text.index(stop)])

    def test_max_tokens_ends_with_length(self):
        answer = self.chat(max_tokens=2, messages=[{"role": "user", "content": "Count to ten."}])
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 2)

    def test_logprobs_come_with_their_alternatives(self):
        content = self.chat(max_tokens=4, logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual(len(content), 4)
        for token in content:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertLessEqual(token.logprob, 0)
            # Greedy: the chosen token is the likeliest.
            self.assertAlmostEqual(token.logprob, max(t.logprob for t in token.top_logprobs),
                                   places=4)

    def test_models_are_listed_and_retrieved(self):
        client = self.client()
        models = client.models.list().data
        self.assertEqual(len(models), 1)
        self.assertEqual(client.models.retrieve(models[0].id).id, models[0].id)
        self.assertGreater(models[0].model_extra["max_model_len"], 0)

    def test_every_answer_has_a_request_id(self):
        raw = self.client().chat.completions.with_raw_response.create(
            model=self.model_name(), max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
        self.assertTrue(raw.headers["x-request-id"])
        self.assertEqual(raw.headers["x-turnstile-class"], "interactive")
        self.assertTrue(raw.headers["x-turnstile-policy"])


class Errors(OfficialClientTest):
    def assert_raises(self, kind, code, call, param=None):
        with self.assertRaises(kind) as caught:
            call()
        self.assertEqual(caught.exception.code, code)
        if param is not None:
            self.assertEqual(caught.exception.param, param)
        return caught.exception

    def test_a_wrong_key_is_an_authentication_error(self):
        for key in ("gw_AAAAAAAA_" + "A" * 38, "nonsense", self.key[:-1] + "!"):
            self.assert_raises(openai.AuthenticationError, "invalid_api_key",
                               lambda: self.chat(self.client(key), model="m"))

    def test_an_unknown_model_is_a_not_found_error(self):
        self.assert_raises(openai.NotFoundError, "model_not_found",
                           lambda: self.chat(model="no-such-model"))
        self.assert_raises(openai.NotFoundError, "model_not_found",
                           lambda: self.client().models.retrieve("no-such-model"))

    def test_bad_requests_name_the_field(self):
        cases = [({"temperature": 9}, "invalid_value", "temperature"),
                 ({"max_tokens": 0}, "invalid_value", "max_tokens"),
                 ({"n": 0}, "invalid_value", "n"),
                 ({"messages": []}, "invalid_value", "messages"),
                 ({"extra_body": {"top_k": "many"}}, "invalid_value", "top_k"),
                 ({"response_format": {"type": "json_object"}}, "unsupported_parameter",
                  "response_format")]
        for fields, code, param in cases:
            with self.subTest(param):
                self.assert_raises(openai.BadRequestError, code, lambda f=fields: self.chat(**f),
                                   param)

    def test_tools_are_refused_by_name(self):
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        self.assert_raises(openai.BadRequestError, "unsupported_parameter",
                           lambda: self.chat(tools=[tool]), "tools")

    def test_a_prompt_beyond_the_context_is_refused(self):
        self.assert_raises(
            openai.BadRequestError, "context_length_exceeded",
            lambda: self.chat(messages=[{"role": "user", "content": "word " * 20000}]), "messages")

    def test_a_rate_limit_is_a_rate_limit_error_with_its_headers(self):
        client = self.client(self.team_keys["slower"])
        model = self.model_name()
        ask = lambda: client.completions.create(model=model, prompt="a", max_tokens=1)
        with self.assertRaises(openai.RateLimitError) as caught:
            for _ in range(3):
                ask()
        headers = caught.exception.response.headers
        self.assertEqual(caught.exception.code, "rate_requests")
        self.assertEqual(headers["x-admission-code"], "rate_requests")
        self.assertEqual(headers["x-should-retry"], "true")
        self.assertGreaterEqual(int(headers["retry-after"]), 1)
        self.assertGreater(int(headers["retry-after-ms"]), 0)
        self.assertIn("x-ratelimit-limit-requests", headers)

    def test_retries_obey_retry_after(self):
        client = self.client(self.team_keys["slow"], max_retries=3)
        model = self.model_name()
        started = time.monotonic()
        for _ in range(4):
            self.assertTrue(client.completions.create(model=model, prompt="a", max_tokens=1).id)
        # The bucket holds one request and gains two a second: four need at least 1.5 s, less what
        # the start of the test found in it.
        self.assertGreater(time.monotonic() - started, 0.9)

    def test_a_limit_of_zero_is_not_retried(self):
        client = self.client(self.team_keys["never"], max_retries=5)
        model = self.model_name()
        started = time.monotonic()
        with self.assertRaises(openai.RateLimitError) as caught:
            client.completions.create(model=model, prompt="a", max_tokens=1)
        self.assertLess(time.monotonic() - started, 5, "five retries would wait 15 s")
        self.assertEqual(caught.exception.response.headers["x-should-retry"], "false")
        self.assertNotIn("retry-after", caught.exception.response.headers)


if __name__ == "__main__":
    unittest.main()
