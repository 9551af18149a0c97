"""Commands without a ring: exit codes, messages that say what to do next, and the tokenizer."""

import json
import os
import socket
import subprocess
import unittest

from harness import BIN, SOURCE, Case


class Usage(Case):
    def assert_two_lines(self, done, code, what, following):
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        self.assertEqual(done.stdout, b"")
        lines = text.splitlines()
        self.assertEqual(len(lines), 2, text)
        self.assertIn(what, lines[0])
        self.assertIn(following, lines[1])

    def test_help_begins_with_examples(self):
        for command in "up attend generate status jobs cancel tokenize detokenize verify".split():
            text = self.rondo(command, "--help", check=0).stdout.decode()
            self.assertLess(text.index("Examples:"), text.index("Options:"), command)
            self.assertIn(f"rondo {command}", text)
        self.assertIn("generate", self.rondo("--help", check=0).stdout.decode())

    def test_wrong_use_is_2(self):
        for words in [[], ["sing"], ["generate", "--max-tokens", "many"], ["attend"], ["cancel"], ["tokenize"]]:
            done = self.rondo(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(b"--help", done.stderr)
        self.assert_two_lines(self.rondo("generate"), 2, "--prompt", "rondo generate --help")
        self.assert_two_lines(self.rondo("generate", "--prompt", "x", "--deadline", "soon"), 2, "--deadline: 'soon'", "--help")

    def test_an_unknown_command_is_told_which_there_are(self):
        done = self.rondo("frobnicate", "--workers", 3)
        self.assert_two_lines(done, 2, "no command is called frobnicate", "rondo --help")
        for command in "up generate attend verify status jobs cancel plan bench tokenize detokenize".split():
            self.assertIn(command.encode(), done.stderr)

    def test_a_port_that_is_taken_is_said_in_one_line(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = subprocess.run([BIN / "rondo-coordinator", "--listen", address, "--journal", "none"], capture_output=True, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(f"cannot listen on {address}".encode(), done.stderr)

    @unittest.skipUnless((BIN / "rondo-worker").exists(), "built without workers")
    def test_kernels_that_there_are_not_is_2(self):
        done = subprocess.run([BIN / "rondo-worker", "--kernels", "nope"], capture_output=True, env=self.env)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--kernels: ", done.stderr)
        self.assertIn(b"avx2", done.stderr)

    def test_no_coordinator_is_69(self):
        with socket.socket() as taken:  # bound and not listening: nobody else answers there
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for words in [["generate", "--prompt", "x"], ["status"], ["jobs"], ["cancel", "a"], ["verify", "--prompt", "x"]]:
                done = self.rondo(words[0], "--coordinator", address, *words[1:])
                self.assert_two_lines(done, 69, address, "rondo up")
            done = self.rondo("status", env={"RONDO_COORDINATOR": address})
            self.assert_two_lines(done, 69, address, "rondo up")

    def test_a_gpu_that_cannot_be_had_is_said(self):
        """All of it before MPI starts: what is missing, or that the CPU is taken and why."""
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU here")
        for words, code, text in [
            (["--device", "cuda"], 1, b"--device cuda: no "),
            (["--device", "cpu", "--transport", "nccl"], 1, b"--transport nccl: needs --device cuda"),
            (["--transport", "cuda-ipc"], 1, b"--transport cuda-ipc: no "),
            (["--device", "gpu"], 2, b"not gpu"),
            (["--model", "/no/such/model"], 1, b"on the CPU: no "),
        ]:
            done = subprocess.run([BIN / "rondo-worker", *words], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            self.assertEqual(done.stderr.count(text), 1, (words, done.stderr))

    def test_a_file_that_is_not_there_is_named(self):
        done = self.rondo("generate", "--document", "/no/such/book", "--question", "x")
        self.assert_two_lines(done, 2, "--document: cannot read /no/such/book", "rondo generate --help")
        self.assert_two_lines(self.rondo("up", "--model", "/no/such/model"), 1, "/no/such/model", "--model")

    def test_outputs_that_cannot_be_written_are_said_before_anything_is_sent(self):
        """No coordinator is asked: 69 would say that one was."""
        for option in ("--logits-out", "--summary-out"):
            done = self.rondo("generate", "--coordinator", "127.0.0.1:1", "--prompt", "x", option, "/no/such/folder/file")
            self.assert_two_lines(done, 1, "/no/such/folder/file", option)
        kept = self.folder / "summary.json"
        kept.write_text("from before")
        self.rondo("generate", "--coordinator", "127.0.0.1:1", "--prompt", "x", "--summary-out", kept, check=69)
        self.assertEqual(kept.read_text(), "from before")

    @unittest.skipUnless((BIN / "rondo-worker").exists(), "built without workers")
    def test_check_model_of_no_file_is_one_line_and_1(self):
        done = subprocess.run([BIN / "rondo-worker", "--check-model", "--model", "/no/such/model"], capture_output=True, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, b"")
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertIn(b"/no/such/model: bad: ", done.stdout)
        self.assertIn(b"No such file", done.stdout)


class Tokenize(Case):
    def test_round_trip(self):
        model = self.tiny_model()
        text = (SOURCE / "examples/frankenstein-letters.txt").read_bytes()[:3000] + " naïve 🙂 日本語\n\n\t x".encode()
        out = json.loads(self.rondo("tokenize", "--model", model, "--json", "--no-special", stdin=text, check=0).stdout)
        self.assertEqual(out["count"], len(out["ids"]))
        plain = self.rondo("tokenize", "--model", model, "--no-special", stdin=text, check=0).stdout
        self.assertEqual(list(map(int, plain.split())), out["ids"])
        self.assertEqual(self.rondo("detokenize", "--model", model, stdin=plain, check=0).stdout, text)

    def test_ids_that_are_none(self):
        model = self.tiny_model()
        for bad in [b"-1", b"2147483648", b"99999999", b"1 two 3", b"1,2", b"0x10"]:
            done = self.rondo("detokenize", "--model", model, stdin=bad, check=2)
            self.assertIn(b"not a number from 0 to", done.stderr)
        self.assertEqual(self.rondo("detokenize", "--model", model, stdin=b" \n", check=0).stdout, b"")

    def test_invalid_utf8_is_defined(self):
        model = self.tiny_model()
        for text in [b"\xe2\x80", b"\xc0\x80", b"\xed\xa0\x80", b"a\xffb"]:
            ids = self.rondo("tokenize", "--model", model, "--no-special", stdin=text, check=0).stdout
            self.rondo("detokenize", "--model", model, "--json", stdin=ids, check=0)

    def test_a_model_that_is_none(self):
        path = self.folder / "not.gguf"
        path.write_bytes(b"GGUG" + bytes(100))
        done = self.rondo("tokenize", "--model", path, stdin=b"x", check=1)
        self.assertIn(b"not.gguf", done.stderr)


if __name__ == "__main__":
    unittest.main()
