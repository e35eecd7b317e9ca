"""What other requests are in the batch changes nothing: texts, and who may see whose cache."""
import concurrent.futures
import unittest

import openai

from installation import ServedTest

STREAMS = 50
TOPICS = ("rivers", "bread", "winter", "a lighthouse", "old maps", "bees", "a bridge", "salt",
          "the night sky", "paper")


class FiftyStreams(ServedTest):
    def fields(self, number):
        # Half greedy, half sampled with a seed of their own; lengths differ so that the batch
        # never has the same shape for long.
        return {"messages": [{"role": "user",
                              "content": f"Tell me {number + 2} facts about "
                                         f"{TOPICS[number % len(TOPICS)]}."
                                         + " Please." * (number % 7)}],
                "temperature": 0.0 if number % 2 == 0 else 0.9, "seed": number,
                "max_tokens": 8 + number % 17}

    def stream(self, client, model, number):
        chunks = client.chat.completions.create(model=model, stream=True, **self.fields(number))
        return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)

    def test_fifty_concurrent_streams_have_the_texts_they_have_alone(self):
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key=self.key, max_retries=0,
                               timeout=120)
        self.addCleanup(client.close)
        model = client.models.list().data[0].id
        with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
            together = list(pool.map(lambda i: self.stream(client, model, i), range(STREAMS)))
        alone = [self.stream(client, model, i) for i in range(STREAMS)]
        self.assertEqual(together, alone)
        self.assertTrue(all(text for text in alone))
        self.server.wait_idle()


class PrefixCache(ServedTest):
    POLICY = """
[teams.neighbour]
dept = "main"
"""
    TEAMS = ("neighbour",)

    def cached_tokens(self, key, prompt, **fields):
        status, _, answer = self.server.complete(key, prompt=prompt, **fields)
        self.assertEqual(status, 200, answer)
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_the_second_request_finds_the_prefix_and_another_team_does_not(self):
        prompt = "The keeper of the lighthouse wrote down every ship that passed. " * 12
        self.assertEqual(self.cached_tokens(self.key, prompt), 0)
        self.assertGreaterEqual(self.cached_tokens(self.key, prompt), 64)
        self.assertEqual(self.cached_tokens(self.team_keys["neighbour"], prompt), 0)
        self.assertGreaterEqual(self.cached_tokens(self.team_keys["neighbour"], prompt), 64)

    def test_a_cache_salt_separates_within_a_team(self):
        prompt = "Salt keeps bread, fish and secrets for a long time, said the miller. " * 12
        self.assertEqual(self.cached_tokens(self.key, prompt, cache_salt="a"), 0)
        self.assertEqual(self.cached_tokens(self.key, prompt, cache_salt="b"), 0)
        self.assertGreaterEqual(self.cached_tokens(self.key, prompt, cache_salt="a"), 64)

    def test_the_text_is_the_same_with_and_without_the_cache(self):
        prompt = "Rivers carry more than water; they carry the names of towns and of people. " * 9
        texts = []
        for _ in range(2):
            status, _, answer = self.server.complete(self.key, prompt=prompt, max_tokens=24)
            self.assertEqual(status, 200, answer)
            texts.append(answer["choices"][0]["text"])
        self.assertEqual(texts[0], texts[1])


if __name__ == "__main__":
    unittest.main()
