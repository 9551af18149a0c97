"""`rondo plan` with rates measured on this machine: that figures come, never what they are."""

import json
import unittest

from harness import TRANSPORTS, Case


class Plan(Case):
    def test_measures_the_ranks_it_plans_for(self):
        model = self.tiny_model()
        for transport in TRANSPORTS:
            with self.subTest(transport):
                done = self.rondo("plan", "--model", model, "--tokens", "600", "--workers", 2, "--transport", transport, "--json",
                                  check=0)
                plan = json.loads(done.stdout)
                self.assertEqual(plan["workers"], 2)
                self.assertIn("measured", plan["rates"])
                for figure in ["ttft_s", "decode_tokens_per_s", "rank_bytes"]:
                    self.assertGreater(plan[figure], 0, figure)


if __name__ == "__main__":
    unittest.main()
