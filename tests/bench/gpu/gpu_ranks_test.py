#!/usr/bin/env python3
"""The law over ranks that are processes, on the host (gpu_ranks_on_host PROGRAM): right ranks pass, and every planted
mistake is found, with a rank that dies or hangs named."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench/gpu"))
from check import sections  # noqa: E402

PROGRAM = None


def judged(plant=""):
    done = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=500, env=dict(os.environ, RONDO_PLANT=plant))
    section = sections.Section("ranks", lines=sections.parse(done.stdout))
    section.stderr = done.stderr
    return sections.judge(section, done.returncode, done.stderr)


class Ranks(unittest.TestCase):
    def test_right_ranks_pass(self):
        section = judged()
        self.assertEqual((section.status, section.why), ("PASS", ""))
        self.assertEqual(len(section.of_kind("check")), 5)  # float64, and two worlds in two strategies
        # Blocks did go from process to process: pieces of memory that ranks opened of each other.
        for world in (2, 3):
            opened = re.findall(rf"opened (\d+) of {world} ranks", section.stderr)
            self.assertEqual(len(opened), 2 * world)
            self.assertGreater(sum(map(int, opened)), 0)

    def test_a_wrong_bit_on_one_rank(self):
        for check in judged("bits").of_kind("check")[1:]:
            self.assertFalse(check["pass"])
            self.assertGreater(check["different"], 0)

    def test_ranks_that_agree_and_are_wrong(self):
        checks = judged("everywhere").of_kind("check")
        self.assertEqual([check["pass"] for check in checks], [False, True, True, True, True])

    def test_a_rank_that_dies_is_named(self):
        check = judged("dies").of_kind("check")[1]
        self.assertFalse(check["pass"])
        self.assertIn("rank 1: ended by signal 9", check["why"])

    def test_a_rank_that_hangs_is_named(self):
        check = judged("hangs").of_kind("check")[1]
        self.assertFalse(check["pass"])
        self.assertIn("rank 1: not through after 15s", check["why"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
