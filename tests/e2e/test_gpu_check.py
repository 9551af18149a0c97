"""bench/gpu_check's section "model" with the real programs, on ranks of the CPU in the place of the GPU's: the command lines
that it gives are understood, and what comes back is read."""

import sys
import time
import unittest

from harness import BIN, SOURCE, TRANSPORTS, Case

sys.path.insert(0, str(SOURCE / "bench/gpu"))
from check import model  # noqa: E402

RUNS = [model.Run("cpu", TRANSPORTS[0], 1), model.Run("cpu", TRANSPORTS[0], 2)]


class Model(Case):
    def run_model(self, family):
        document = self.folder / "document.txt"
        document.write_bytes((SOURCE / "examples/frankenstein-letters.txt").read_bytes()[:3000])
        return model.run_model(BIN, self.tiny_model(), document, self.folder / "logs", 100, self.env, time.monotonic,
                               judged=RUNS, reported=[], max_tokens=8, family=family)

    def test_one_digest_on_one_and_two_ranks(self):
        section = self.run_model(family="")
        self.assertEqual((section.status, section.why), ("PASS", ""))
        self.assertEqual([row["run"] for row in section.of_kind("row")], ["cpu, 1 rank", "cpu, 2 ranks"])
        self.assertGreater(section.of_kind("row")[0]["prompt_tokens"], 500)

    def test_the_cpu_is_no_gpu(self):
        self.assertEqual(self.run_model(family="sm").why, "2 of 5 did not pass")

    def test_without_a_gpu_the_worker_says_what_is_missing(self):
        section = model.run_model(BIN, self.tiny_model(), "no document", self.folder / "logs", 60,
                                  dict(self.env, CUDA_VISIBLE_DEVICES="-1"), time.monotonic, reported=[])
        self.assertEqual(section.status, "FAIL")
        self.assertIn("cuda, 1 rank: rondo up did not get ready: ", section.why)


if __name__ == "__main__":
    unittest.main()
