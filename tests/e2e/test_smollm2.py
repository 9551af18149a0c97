"""The real model on a ring: in f32 mode it draws the ids that others published for it, token by token."""

import json
import os
import unittest

from harness import SOURCE, TRANSPORTS, Case

GOLDEN = SOURCE / "tests/data/golden/smollm2-135m.json"
END = 2  # <|im_end|>, which rondo leaves out of its tokens


@unittest.skipUnless("RONDO_TEST_MODEL" in os.environ, "RONDO_TEST_MODEL names no model; tools/fetch_model fetches it")
class Golden(Case):
    def test_greedy_ids(self):
        ring = self.up(os.environ["RONDO_TEST_MODEL"], "--compute", "f32", workers=2, transport=TRANSPORTS[0])
        cases = [case for case in json.loads(GOLDEN.read_text())["cases"] if case["n_prompt"] < 1000]
        self.assertGreaterEqual(len(cases), 7)
        for case in cases:
            with self.subTest(case["name"]):
                if case["kind"] == "raw":
                    words = ["--prompt", case["raw"]]
                else:
                    words = ["--question", case["user"]] + (["--system", case["system"]] if "system" in case else [])
                out = ring.generate(*words, "--max-tokens", len(case["greedy_ids"]))
                self.assertEqual(out["prompt_tokens"], case["n_prompt"])
                self.assertEqual(out["tokens"], [i for i in case["greedy_ids"] if i != END])
                self.assertEqual(out["finish_reason"], "stop" if END in case["greedy_ids"] else "length")
                self.assertEqual(out["text"], case["text"].removesuffix("<|im_end|>"))


if __name__ == "__main__":
    unittest.main()
