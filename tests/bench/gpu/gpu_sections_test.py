#!/usr/bin/env python3
"""The GPU check's sections on the host (gpu_sections_on_host PROGRAM): they find nothing wrong with right kernels, and find
every planted mistake."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench/gpu"))
from check import sections  # noqa: E402

PROGRAM = None
# Of the dense kernels: a product a little off, one number not written, bits that go by a row's place or by how many rows
# there are, rows rounded to bf16, another epsilon, the wrong way round, another constant, a column too many, other rows, ties
# to the higher id.
DENSE = ("lt_scale", "lt_place", "lt_alone", "few_scale", "few_place", "few_unwritten", "few_rounded", "norm",
         "rope", "gelu", "move", "ids", "tie")


def judged(name, plant=""):
    done = subprocess.run([PROGRAM, name], capture_output=True, text=True, timeout=800,
                          env=dict(os.environ, RONDO_PLANT=plant))
    section = sections.Section(name, lines=sections.parse(done.stdout))
    return sections.judge(section, done.returncode, done.stderr)


class Sections(unittest.TestCase):
    def test_right_kernels_pass(self):
        for name, fewest in (("small", 2), ("dense", 20), ("law", 50), ("accuracy", 20)):
            with self.subTest(name):
                section = judged(name)
                self.assertEqual((section.status, section.why), ("PASS", ""))
                self.assertGreaterEqual(len(section.of_kind("check")), fewest)

    def test_planted_mistakes_are_found(self):
        # mask: one key too many; unwritten: one number of a row; merge, order: other bits; decode: a scale a little off.
        for name, plant in (("small", "mask"), ("small", "unwritten"), ("small", "merge"), ("law", "order"),
                            ("law", "decode"), *(("dense", plant) for plant in DENSE)):
            with self.subTest(f"{name} {plant}"):
                self.assertEqual(judged(name, plant).status, "FAIL")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
