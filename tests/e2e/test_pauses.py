"""Who is paused keeps nobody out, however many prompts it has."""
import threading
import unittest

from installation import ServedTest, wait_until

SLOTS = 2
CLASSES = ("batch", "standard", "interactive", "demo")  # each pauses the one before


class Pauses(ServedTest):
    POLICY = "".join(f"""
[classes.{name}]
watermark = 1.0
floor = 0
can_preempt = true
preemptible = true
ttft = "10m"
""" for name in reversed(CLASSES))
    FLAGS = ("--max-num-seqs", SLOTS)

    def test_three_engines_full_of_paused_prompts_leave_room_for_a_fourth(self):
        answers = {}

        def ask(name):
            prompts = [f"The {name} number {i}" for i in range(SLOTS)]
            # Long enough that it still runs when the next class comes.
            answers[name] = self.server.complete(self.key, {"X-Turnstile-Class": name},
                                                 prompt=prompts, max_tokens=400, ignore_eos=True)

        threads = []
        for count, name in enumerate(CLASSES):
            threads.append(threading.Thread(target=ask, args=(name,)))
            threads[-1].start()
            if name == CLASSES[-1]:
                break  # it may be served before anybody has looked
            # The one before has been paused: the newcomer alone holds a permit.
            wait_until(lambda: self.server.total("turnstile_requests_running") == 1
                       and self.server.total("turnstile_requests_queued") == count,
                       f"{name} runs and {count} are paused")
        for thread in threads:
            thread.join()
        for name in CLASSES:
            status, _, answer = answers[name]
            self.assertEqual(status, 200, (name, answer))
            self.assertEqual(len(answer["choices"]), SLOTS)
            self.assertEqual(answer["turnstile"]["pauses"], 0 if name == "demo" else 1, name)
        self.server.wait_idle()


if __name__ == "__main__":
    unittest.main()
