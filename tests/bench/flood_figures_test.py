#!/usr/bin/env python3
"""The arithmetic behind the bars of bench/flood, on numbers small enough to check by hand."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/flood"))
import figures  # noqa: E402
import sheet  # noqa: E402


class Lateness(unittest.TestCase):
    def test_counts_against_us_on_both_ends(self):
        self.assertEqual(figures.without_lateness(130, 3.5), 123)
        self.assertGreater(figures.without_lateness(1, 3), 0)

    def test_makes_a_run_invalid_only_where_it_could_decide(self):
        found = sheet.Sheet()
        found.line("far from the bar", 1.8, "<= 3", at_worst=1.9)
        found.line("near the bar", 2.95, "<= 3", at_worst=3.05)
        self.assertEqual([bool(line["client_limits"]) for line in found.lines], [False, True])


class Quantiles(unittest.TestCase):
    def test_are_values_that_were_measured(self):
        self.assertEqual(figures.quantile([4, 1, 3, 2], 0.5), 2)
        self.assertEqual(figures.quantile([4, 1, 3, 2], 0.51), 3)
        self.assertEqual(figures.quantile(range(1, 101), 0.99), 99)
        self.assertEqual(figures.quantile(range(1, 61), 0.99), 60)
        self.assertEqual(figures.quantile([7], 0), 7)

    def test_of_nothing_are_nothing(self):
        self.assertIsNone(figures.quantile([], 0.5))


class Fairness(unittest.TestCase):
    def test_jain_is_one_for_equals_and_one_nth_for_a_monopoly(self):
        self.assertAlmostEqual(figures.jain([3, 3, 3]), 1)
        self.assertAlmostEqual(figures.jain([9, 0, 0]), 1 / 3)
        self.assertIsNone(figures.jain([0, 0]))

    def test_the_largest_distance_from_the_weights_counts(self):
        weights = {"a": 1, "b": 1, "c": 3}
        self.assertAlmostEqual(figures.weight_error({"a": 10, "b": 10, "c": 30}, weights), 0)
        self.assertAlmostEqual(figures.weight_error({"a": 12, "b": 8, "c": 30}, weights), 0.2)


class Overshoot(unittest.TestCase):
    def test_a_bucket_that_was_never_passed_has_none(self):
        charges = [(0, 10), (1, 5), (2, 5)]
        self.assertEqual(figures.worst_interval(charges, 5, 10), 0)
        self.assertEqual(figures.overshoot_from_start(charges, 5, 10, 0), 0)

    def test_a_burst_after_silence_counts_though_the_whole_run_is_within_its_rate(self):
        charges = [(0, 1), (100, 17)]
        self.assertAlmostEqual(figures.worst_interval(charges, 5, 10), 7)
        self.assertEqual(figures.overshoot_from_start(charges, 5, 10, 0), 0)

    def test_what_leaks_between_two_charges_is_no_overshoot(self):
        self.assertAlmostEqual(figures.worst_interval([(0, 10), (0.5, 10)], 4, 10), 8)

    def test_from_the_start_the_worst_moment_counts_not_the_last(self):
        charges = [(0, 10), (1, 12), (60, 1)]
        self.assertAlmostEqual(figures.overshoot_from_start(charges, 5, 10, 0), 7)

    def test_the_order_of_the_charges_does_not_matter(self):
        charges = [(2, 9), (0, 9), (1, 9)]
        self.assertEqual(figures.worst_interval(charges, 3, 10),
                         figures.worst_interval(sorted(charges), 3, 10))


class Tokens(unittest.TestCase):
    RECORD = {"first_token": 10.0, "last_token": 20.0, "completion_tokens": 100, "text_events": 90}

    def test_of_a_record_are_spread_between_its_first_and_its_last(self):
        self.assertAlmostEqual(figures.tokens_in_window(self.RECORD, 0, 30), 100)
        self.assertAlmostEqual(figures.tokens_in_window(self.RECORD, 15, 30), 50)
        self.assertAlmostEqual(figures.tokens_in_window(self.RECORD, 0, 12), 20)
        self.assertEqual(figures.tokens_in_window(self.RECORD, 21, 30), 0)
        self.assertEqual(figures.tokens_in_window({"first_token": None}, 0, 30), 0)

    def test_of_an_answer_that_was_cut_off_are_its_events(self):
        self.assertAlmostEqual(figures.tokens_in_window(
            {"first_token": 1.0, "last_token": 2.0, "text_events": 8}, 0, 3), 8)

    def test_of_one_event_have_one_time(self):
        record = {"first_token": 1.0, "last_token": 1.0, "text_events": 1}
        self.assertEqual(figures.tokens_in_window(record, 0, 3), 1)
        self.assertEqual(figures.tokens_in_window(record, 2, 3), 0)

    def test_as_charges_are_the_prompt_at_the_start_and_each_token_at_its_time(self):
        self.assertEqual(figures.token_charges(7, 3, 0.0, 1.0, 2.0),
                         [(0.0, 7), (1.0, 1), (1.5, 1), (2.0, 1)])
        self.assertEqual(figures.token_charges(7, 1, 0.0, 1.0, 1.0), [(0.0, 7), (1.0, 1)])


class Bars(unittest.TestCase):
    def test_are_met_at_their_limit(self):
        self.assertTrue(sheet.meets(3, "<= 3"))
        self.assertFalse(sheet.meets(3.01, "<= 3"))
        self.assertTrue(sheet.meets(0.95, ">= 0.95"))
        self.assertFalse(sheet.meets(1, "== 0"))
        self.assertIsNone(sheet.meets(5, None))
        self.assertIsNone(sheet.meets(None, "<= 3"))


if __name__ == "__main__":
    unittest.main()
