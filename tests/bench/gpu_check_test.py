#!/usr/bin/env python3
"""bench/gpu_check without a GPU: what it says and writes then, and its judgement, table and JSON on made-up results."""

import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench/gpu_check"
sys.path.insert(0, str(ROOT / "bench/gpu"))
from check import find, model, report, sections  # noqa: E402


def load_script():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


SPEED = [
    {"kind": "row", "kernel": "cuDNN", "head_dim": 128, "causal": False, "tokens": 8192, "ms": 3.2, "tflops": 687.2,
     "percent_of_cudnn": None, "pass": True, "out_error": 0.31, "lse_error": 0.02, "out_rms_of_cudnn": None},
    {"kind": "row", "kernel": "sm80 prefill", "head_dim": 128, "causal": True, "tokens": 8192, "ms": 6.4, "tflops": 343.6,
     "percent_of_cudnn": 50.04, "pass": False, "out_error": 1.5, "lse_error": 0.03, "out_rms_of_cudnn": 1.011},
]


class WithoutGpu(unittest.TestCase):
    def test_says_so_and_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results"
            # Where there is a card, the driver is told to show none.
            done = subprocess.run([SCRIPT, "--results", results], capture_output=True, text=True, timeout=120,
                                  env=dict(os.environ, CUDA_VISIBLE_DEVICES="-1"))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertTrue(done.stdout.startswith("no GPU: nothing checked ("), done.stdout)
            self.assertFalse(results.exists())

    def test_help_names_every_exit_code_and_section(self):
        text = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, timeout=120, check=True).stdout
        for words in ("3 no GPU", "4 no nvcc", "5 the card", "6 the program", *sections.SECTIONS, *sections.RONDO, *sections.TOOLS):
            self.assertIn(words, text)

    def test_unknown_section_is_wrong_usage(self):
        done = subprocess.run([SCRIPT, "--only", "law,lore"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no section 'lore'", done.stderr)


class Judgement(unittest.TestCase):
    def judged(self, lines, code=0, stderr=""):
        section = sections.Section("law", lines=sections.parse("\n".join(map(json.dumps, lines))), seconds=7)
        sections.judge(section, code, stderr)
        return section.status, section.why

    def test_passes_only_with_results(self):
        self.assertEqual(self.judged([{"kind": "check", "pass": True}]), ("PASS", ""))
        self.assertEqual(self.judged([]), ("not run", "it had nothing to say"))
        self.assertEqual(self.judged([{"kind": "absent", "why": "no NCCL"}]), ("not run", "no NCCL"))

    def test_fails_for_a_check_an_error_a_crash_and_a_deadline(self):
        good = {"kind": "check", "pass": True}
        self.assertEqual(self.judged([good, {"kind": "row", "pass": False}]), ("FAIL", "1 of 2 did not pass"))
        self.assertEqual(self.judged([good, {"kind": "error", "why": "out of memory"}], 2), ("FAIL", "out of memory"))
        self.assertEqual(self.judged([good], -11, "one\ntwo"), ("FAIL", "ended by SIGSEGV: one | two"))
        self.assertEqual(self.judged([good], None), ("FAIL", "not done after 7 s"))

    def test_lines_of_libraries_are_passed_over(self):
        self.assertEqual(sections.parse('NCCL INFO\n3\n{"a": 1}\n{"kind": "fact", "nccl": 2}\n{"kind": "ro'),
                         [{"kind": "fact", "nccl": 2}])

    def test_sanitizer(self):
        def verdict(code, output):
            section = sections.judge_sanitizer(sections.Section("memcheck", lines=sections.parse(output)), code, output)
            return section.status, section.why
        good = '{"kind": "check", "pass": true}\n========= ERROR SUMMARY: 0 errors\n'
        self.assertEqual(verdict(0, good), ("PASS", ""))
        found = "========= Invalid __global__ write\n=========\n========= ERROR SUMMARY: 4 errors\n"
        self.assertEqual(verdict(9, good + found)[0], "FAIL")
        self.assertIn("4 errors", verdict(9, found)[1])
        self.assertEqual(verdict(1, "========= Error: Device not supported")[0], "not run")
        self.assertEqual(verdict(1, "something else")[0], "FAIL")
        section = sections.run_sanitizer("memcheck", None, "x", 1, {}, lambda: 0)
        self.assertEqual((section.status, section.why), ("not run", "compute-sanitizer was not found"))


class Report(unittest.TestCase):
    def test_speed_table(self):
        lines = report.speed_table(SPEED).splitlines()
        self.assertEqual(lines[0].split(), ["kernel", "D", "mask", "tokens", "ms", "TFLOP/s", "%", "of", "cuDNN", "O",
                                            "rms/cuDNN", "O", "err", "LSE", "err"])
        self.assertEqual(lines[1].split(), ["cuDNN", "128", "none", "8192", "3.200", "687.2", "-", "-", "0.31", "0.020"])
        self.assertEqual(lines[2].split(), ["sm80", "prefill", "128", "causal", "8192", "6.400", "343.6", "50.0", "1.01",
                                            "1.50", "0.030", "WRONG"])
        self.assertEqual(lines[1].index("8192"), lines[2].index("8192"))

    def test_text_of_a_section(self):
        section = sections.Section("law", lines=[
            {"kind": "check", "pass": True, "kernel": "k", "case": "fine"},
            {"kind": "check", "pass": False, "kernel": "k", "case": "3 ranks", "different": 12},
            {"kind": "absent", "what": "NCCL", "why": "no library"}])
        self.assertEqual(report.section_text(section).splitlines(),
                         ["1 of 2 checks passed", 'FAIL k: 3 ranks: {"different": 12}', "not there: NCCL: no library"])

    def test_rows_with_nothing_measured(self):
        text = report.plain_table([{"kind": "row", "kernel": "d", "gb_per_s": None, "pass": True}])
        self.assertEqual(text.splitlines()[1].split(), ["d", "-"])

    def test_json_and_its_name(self):
        done = [sections.Section("speed", "PASS", "", 1.26, SPEED)]
        data = report.as_json("NVIDIA H200", "2026-11-30", [{"kind": "fact", "cudnn": 91900}], done)
        self.assertEqual(json.loads(json.dumps(data)), data)
        self.assertEqual(data["sections"][0], {"name": "speed", "status": "PASS", "why": "", "seconds": 1.3, "lines": SPEED})
        self.assertEqual(report.file_name("NVIDIA H200", "2026-11-30"), "nvidia-h200-2026-11-30.json")

    def test_exit_code(self):
        one = lambda *statuses: report.exit_code([sections.Section("s", status) for status in statuses])
        self.assertEqual(one("PASS", "not run"), 0)
        self.assertEqual(one("PASS", "FAIL"), 1)
        self.assertEqual(one("not run"), 1)


# Stands for gpu_check_sections: "law" dies, "speed" sleeps past its deadline, the others pass.
PROGRAM = """#!/bin/sh
case "$1" in
  device) echo '{"kind": "fact", "card": "Made-up Card"}' ;;
  law) echo '{"kind": "check", "pass": true}'; kill -SEGV $$ ;;
  speed) echo '{"kind": "row", "pass": true}'; sleep 60 ;;
  *) echo '{"kind": "check", "pass": true}' ;;
esac
"""


class WholeRun(unittest.TestCase):
    """The script on a made-up card with a made-up program."""

    def run_script(self, folder, only, card=None):
        program = pathlib.Path(folder) / "program"
        program.write_text(PROGRAM)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        card = card or find.Card("Made-up Card", (9, 0))
        script = load_script()
        arguments = ["gpu_check", "--program", str(program), "--results", f"{folder}/out", "--only", only]
        with mock.patch.object(sys, "argv", arguments), mock.patch.object(script.find, "card", lambda: (card, "")), \
                mock.patch.dict(script.sections.SECTIONS, speed=11), mock.patch("sys.stdout", io.StringIO()) as said:
            with self.assertRaises(SystemExit) as ended:
                script.main()
        files = list(pathlib.Path(folder).glob("out/*.json"))
        return ended.exception.code, said.getvalue(), json.loads(files[0].read_text()) if files else None

    def test_all_good(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said, data = self.run_script(folder, "accuracy,ring")
        self.assertEqual(code, 0, said)
        self.assertEqual(data["card"], "Made-up Card")
        self.assertEqual([s["status"] for s in data["sections"]], ["PASS", "PASS"])

    def test_a_section_that_dies_or_hangs_does_not_stop_the_next(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said, data = self.run_script(folder, "law,speed,decode")
        self.assertEqual(code, 1)
        self.assertEqual([(s["name"], s["status"]) for s in data["sections"]],
                         [("law", "FAIL"), ("speed", "FAIL"), ("decode", "PASS")])
        self.assertIn("ended by SIGSEGV", said)
        self.assertRegex(said, r"not done after \d+ s")  # 11, and what a busy machine adds

    def test_building_for_a_card_that_is_elsewhere(self):
        script = load_script()
        asked = []
        with mock.patch.object(sys, "argv", ["gpu_check", "--build-for", "8.6", "--without-abseil", "--nvcc", "/x/nvcc"]), \
                mock.patch.object(script.build, "build", lambda *words: asked.append(words) or "the program"), \
                mock.patch("sys.stdout", io.StringIO()), self.assertRaises(SystemExit) as ended:
            script.main()
        self.assertEqual(ended.exception.code, 0)
        self.assertEqual(asked[0][3].architecture, "86-real")
        self.assertTrue(asked[0][6])

    def test_a_card_too_old(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said, data = self.run_script(folder, "law", find.Card("Tesla T4", (7, 5)))
        self.assertEqual((code, data), (5, None))
        self.assertIn("Tesla T4 has capability 7.5; the kernels want 8.0", said)


# Stands for rondo: `up` gets ready and waits, `generate` answers as the ring that runs was asked for; BREAK says what is
# wrong with it.
RONDO = """#!/usr/bin/env python3
import json, os, pathlib, sys, time
said = pathlib.Path(__file__).with_name("up.json")
words = dict(zip(sys.argv[2::2], sys.argv[3::2])) if sys.argv[2:3] != ["--once"] else dict(zip(sys.argv[3::2], sys.argv[4::2]))
broken = os.environ.get("BREAK", "")
if sys.argv[1] == "up":
    if broken == "start" and words["--device"] == "cuda":
        sys.exit("--device cuda: no driver")
    said.write_text(json.dumps(words))
    print("ready 127.0.0.1:7", flush=True)
    time.sleep(100)
assert sys.argv[1] == "generate" and words["--coordinator"] == "127.0.0.1:7"
up = json.loads(said.read_text())
cuda = up["--device"] == "cuda" and broken != "cpu"
if broken == "answer" and up["--workers"] == "2":
    sys.exit("the group was lost")
print(json.dumps({"kernels": "sm90+cpu" if cuda else "avx2", "prompt_tokens": 5700, "prefill_tokens_per_s": 9000.0,
                  "decode_tokens_per_s": 80.0, "tokens": [1, 2, 3] if cuda else [1, 2, 4],
                  "digest": up["--workers"] * 16 if broken == "digest" else "ab" * 16}))
"""


class Model(unittest.TestCase):
    """The section "model" with made-up programs."""

    def run_model(self, broken=""):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "rondo").write_text(RONDO)
            (folder / "rondo").chmod(0o755)
            return model.run_model(folder, folder / "m.gguf", folder / "text", folder / "logs", 40,
                                   dict(os.environ, BREAK=broken), time.monotonic)

    def test_one_digest_on_one_and_two_ranks(self):
        section = self.run_model()
        self.assertEqual((section.status, section.why), ("PASS", ""))
        self.assertEqual([(row["run"], row["as_the_first"]) for row in section.of_kind("row")],
                         [("cuda, 1 rank", 3), ("cuda, 2 ranks", 3), ("cpu, 1 rank", 2)])
        self.assertIn("cuda, 2 ranks", report.section_text(section))

    def test_what_is_found(self):
        self.assertEqual(self.run_model("digest").status, "FAIL")
        self.assertEqual(self.run_model("cpu").status, "FAIL")  # it ran, but not on the GPU
        self.assertEqual(self.run_model("start").why,
                         "cuda, 1 rank: rondo up did not get ready: --device cuda: no driver")
        self.assertEqual(self.run_model("answer").why,
                         "cuda, 2 ranks: rondo generate: exit code 1: the group was lost")

    def test_programs_that_are_not_there(self):
        script = load_script()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "argv", ["gpu_check", "--rondo", folder]):
            for name in sections.RONDO:
                section = script.run_rondo(name, script.options(), 10, {})
                self.assertEqual(section.status, "not run")
                self.assertIn("cmake --workflow --preset cuda makes one", section.why)


class Find(unittest.TestCase):
    def test_architecture(self):
        self.assertEqual(find.Card("", (9, 0)).architecture, "90a-real")
        self.assertEqual(find.Card("", (8, 9)).architecture, "89-real")
        self.assertEqual(find.Card("", (10, 0)).architecture, "100a-real")

    def test_nvcc_as_given(self):
        self.assertEqual(find.nvcc("/x/nvcc"), pathlib.Path("/x/nvcc"))


if __name__ == "__main__":
    unittest.main()
