"""The main job by hand: a ring answers, the bits do not depend on it, and calls end as the manual says."""

import ast
import hashlib
import json
import signal
import struct
import time
import unittest

from harness import SOURCE, TRANSPORTS, Case, wait_until

DOCUMENT = SOURCE / "examples/frankenstein-letters.txt"
QUESTION = "To whom are these letters written?"

# Longer than any test waits for: such a job ends by being ended.
ENDLESS = ("--beyond-context", "--max-tokens", 1000000)


def read_npy(path):
    """(shape, raw bytes) of a float32 .npy file, read by the format's description."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    return header["shape"], data[10 + length :]


class Answers(Case):
    def short_document(self, size=4000):
        path = self.folder / "document.txt"
        path.write_bytes(DOCUMENT.read_bytes()[:size])
        return path

    def test_bits_do_not_depend_on_workers_or_transport(self):
        model = self.tiny_model()
        document = self.short_document()
        seen = {}
        for transport in TRANSPORTS:
            for workers in (1, 2, 3, 4) if transport == "mpi" else (1, 4, 7):
                ring = self.up(model, workers=workers, transport=transport)
                out = ring.generate("--document", document, "--question", QUESTION, "--max-tokens", 12)
                self.assertEqual(out["workers"], workers)
                self.assertEqual(out["completion_tokens"], 12)
                self.assertEqual(out["finish_reason"], "length")
                seen[transport, workers] = (out["digest"], tuple(out["tokens"]), out["text"])
                if workers == 4:
                    one = ring.generate("--document", document, "--question", QUESTION, "--max-tokens", 12, "--ring-size", 1)
                    seen[transport, "ring of 1 of 4"] = (one["digest"], tuple(one["tokens"]), one["text"])
                self.assertEqual(ring.stop(), 0)
                self.assert_nothing_left()
        self.assertEqual(len(set(seen.values())), 1, seen)

    def test_the_digest_is_that_of_the_logits(self):
        ring = self.up(self.tiny_model(), workers=2, transport=TRANSPORTS[0])
        path = self.folder / "logits.npy"
        out = ring.generate("--prompt", "Once upon a time", "--max-tokens", 5, "--logits-out", path)
        (steps, vocabulary), data = read_npy(path)
        self.assertEqual(steps, 5)
        self.assertEqual(len(data), steps * vocabulary * 4)
        self.assertEqual(hashlib.sha256(data).hexdigest(), out["digest"])
        # Greedy: each token is the first of the largest logits.
        for step, token in enumerate(out["tokens"]):
            row = struct.unpack_from(f"<{vocabulary}f", data, step * vocabulary * 4)
            self.assertEqual(row.index(max(row)), token)

    def test_text_streams_to_stdout_and_the_rest_to_stderr(self):
        ring = self.up(self.tiny_model(), workers=2, transport=TRANSPORTS[0])
        words = ("--document", self.short_document(), "--question", QUESTION, "--max-tokens", 8)
        done = ring.rondo("generate", *words, check=0)
        wanted = ring.generate(*words)
        self.assertEqual(done.stdout.decode(errors="replace"), wanted["text"] + "\n")
        summary = done.stderr.decode()
        for word in ("first token after", "tokens/s", "exchanged", "per worker", wanted["digest"]):
            self.assertIn(word, summary)

    def test_prompts_of_every_kind(self):
        model = self.tiny_model()
        ring = self.up(model, workers=2, transport="loopback")
        text = "Once upon a time"
        ids = self.rondo("tokenize", "--model", model, stdin=text.encode(), check=0).stdout
        (self.folder / "ids").write_bytes(ids)
        (self.folder / "text").write_text(text)
        by_text = ring.generate("--prompt", text, "--max-tokens", 6)
        self.assertEqual(by_text["prompt_tokens"], len(ids.split()))
        for words in [("--prompt-ids", self.folder / "ids"), ("--prompt-file", self.folder / "text")]:
            self.assertEqual(ring.generate(*words, "--max-tokens", 6)["digest"], by_text["digest"])
        done = ring.rondo("generate", "--json", "--prompt-file", "-", "--max-tokens", 6, stdin=text.encode(), check=0)
        self.assertEqual(json.loads(done.stdout)["digest"], by_text["digest"])
        # White space behind a document does not count; a question alone is a chat too.
        document = self.short_document(500)
        first = ring.generate("--document", document, "--question", "Why?", "--max-tokens", 4)
        document.write_bytes(document.read_bytes().rstrip() + b" \n\n\t")
        self.assertEqual(ring.generate("--document", document, "--question", "Why?", "--max-tokens", 4)["digest"], first["digest"])
        alone = ring.generate("--question", "Why?", "--max-tokens", 4)
        with_system = ring.generate("--question", "Why?", "--system", "Be brief.", "--max-tokens", 4)
        self.assertLess(alone["prompt_tokens"], with_system["prompt_tokens"])

    def test_sampling_is_repeatable_and_seeded(self):
        ring = self.up(self.tiny_model(), workers=2, transport="loopback")
        words = ("--prompt", "Once", "--temperature", 1.5, "--max-tokens", 24)
        first, again = (ring.generate(*words, "--seed", 7) for _ in range(2))
        other = ring.generate(*words, "--seed", 8)
        self.assertEqual(first["tokens"], again["tokens"])
        self.assertNotEqual(first["tokens"], other["tokens"])

    def test_jobs_side_by_side_change_no_bit(self):
        ring = self.up(self.tiny_model(), workers=3, transport=TRANSPORTS[0])
        prompts = ["one", "a longer prompt than the first", "x " * 300, "and the fourth"]
        alone = [ring.generate("--prompt", p, "--max-tokens", 20)["digest"] for p in prompts]
        running = [ring.start("generate", "--json", "--quiet", "--prompt", p, "--max-tokens", 20) for p in prompts]
        together = [json.loads(process.communicate()[0])["digest"] for process in running]
        self.assertEqual(together, alone)

    def test_verify(self):
        ring = self.up(self.tiny_model(), workers=3, transport=TRANSPORTS[0])
        done = ring.rondo("verify", "--prompt", "Once upon a time", "--max-tokens", 4, "--json", check=0)
        out = json.loads(done.stdout)
        self.assertTrue(out["equal"])
        self.assertEqual(out["workers"], 3)
        self.assertEqual(out["reference_steps"], 4)
        # Float32 against float64: near, and not the same numbers.
        self.assertLess(out["largest_relative"], 1e-3)
        self.assertGreater(out["largest_absolute"], 0)

    def test_refusals_name_the_numbers(self):
        ring = self.up(self.tiny_model(context=256), workers=2, transport="loopback")
        document = self.short_document(8000)
        done = ring.rondo("generate", "--document", document, "--question", "Why?", check=2)
        self.assertIn(b"256", done.stderr)
        for words in [("--temperature", -1), ("--top-p", 1.5), ("--prompt-ids", self.bad_ids(b"1 2 99999999"))]:
            prompt = () if words[0] == "--prompt-ids" else ("--prompt", "x")
            done = ring.rondo("generate", *prompt, *words, check=2)
            self.assertEqual(done.stdout, b"")
            self.assertTrue(done.stderr.startswith(b"rondo: "), done.stderr)
        ring.rondo("cancel", "no-such-job", check=1)
        # And it still answers.
        ring.generate("--prompt", "x", "--max-tokens", 2)

    def bad_ids(self, text):
        path = self.folder / "bad-ids"
        path.write_bytes(text)
        return path


class Endings(Case):
    def endless(self, ring):
        """A job that decodes until it is ended."""
        process = ring.start("generate", "--prompt", "Once", *ENDLESS)
        wait_until("the first text", lambda: process.stdout.read(1))
        return process

    def assert_ring_is_free(self, ring):
        wait_until("no jobs", lambda: not ring.jobs(), 20)
        wait_until("no KV in use", lambda: ring.kv_used() == 0, 20)
        ring.generate("--prompt", "x", "--max-tokens", 2)

    def test_ctrl_c_ends_the_job_with_130(self):
        ring = self.up(self.tiny_model(), workers=2, transport=TRANSPORTS[0])
        for sig in (signal.SIGINT, signal.SIGTERM):
            process = self.endless(ring)
            process.send_signal(sig)
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 130)
            self.assert_ring_is_free(ring)

    def test_an_ended_job_has_its_json_object(self):
        """By Ctrl-C, and by someone else."""
        ring = self.up(self.tiny_model(), workers=2, transport="loopback")
        for code in (130, 1):
            summary = self.folder / f"summary-{code}"
            process = ring.start("generate", "--json", "--prompt", "Once", "--summary-out", summary, *ENDLESS)
            (job,) = wait_until("a job with tokens", lambda: [j for j in ring.jobs() if j["completion_tokens"] > 3])
            if code == 130:
                process.send_signal(signal.SIGINT)
            else:
                ring.rondo("cancel", job["id"], check=0)
            out, _ = process.communicate(timeout=30)
            self.assertEqual(process.returncode, code)
            answer = json.loads(out)
            self.assertEqual(answer["finish_reason"], "cancelled")
            self.assertEqual(answer["id"], job["id"])
            self.assertEqual(answer["prompt_tokens"], job["prompt_tokens"])
            self.assertEqual(answer["completion_tokens"], len(answer["tokens"]))
            self.assertGreater(len(answer["tokens"]), 0)
            self.assertGreater(len(answer["text"]), 0)
            self.assertEqual(json.loads(summary.read_text()), answer)
            self.assert_ring_is_free(ring)

    def test_one_job_by_its_id(self):
        ring = self.up(self.tiny_model(), workers=2, transport="loopback")
        wanted = ring.generate("--prompt", "Once", "--max-tokens", 9)
        job = json.loads(ring.rondo("jobs", wanted["id"], "--json", check=0).stdout)
        self.assertEqual(job["state"], "finished")
        self.assertEqual({key: job[key] for key in wanted}, wanted)
        shown = ring.rondo("jobs", wanted["id"], check=0)
        self.assertEqual(shown.stdout.decode(errors="replace"), wanted["text"] + "\n")
        for word in ("finished", wanted["digest"], "9 of at most 9 tokens"):
            self.assertIn(word, shown.stderr.decode())
        self.endless(ring)
        (running,) = ring.jobs()
        job = json.loads(ring.rondo("jobs", running["id"], "--json", check=0).stdout)
        self.assertEqual((job["state"], job["finish_reason"], job["digest"]), ("running", "", ""))
        self.assertGreater(len(job["tokens"]), 0)
        self.assertIn(b"no-such-job", ring.rondo("jobs", "no-such-job", check=1).stderr)

    def test_a_client_that_is_killed_frees_the_ring(self):
        ring = self.up(self.tiny_model(), workers=2, transport=TRANSPORTS[0])
        process = self.endless(ring)
        process.kill()
        process.communicate()
        self.assert_ring_is_free(ring)

    def test_cancel(self):
        ring = self.up(self.tiny_model(), workers=2, transport=TRANSPORTS[0])
        process = self.endless(ring)
        (job,) = ring.jobs()
        self.assertEqual(job["state"], "running")
        ring.rondo("cancel", job["id"], check=0)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1)
        self.assert_ring_is_free(ring)
        self.assertIn(b"over already", ring.rondo("cancel", job["id"], check=1).stderr)

    def test_a_deadline_ends_a_running_and_a_queued_job_with_124(self):
        ring = self.up(self.tiny_model(), "--max-running", 1, workers=2, transport=TRANSPORTS[0])
        ring.rondo("generate", "--prompt", "Once", *ENDLESS, "--deadline", "1500ms", check=124)
        self.assert_ring_is_free(ring)
        self.endless(ring)
        queued = ring.rondo("generate", "--prompt", "behind it", "--max-tokens", 2, "--deadline", "1s", check=124)
        self.assertEqual(queued.stdout, b"")

    def test_a_full_queue_is_75(self):
        ring = self.up(self.tiny_model(), "--max-running", 1, "--queue-limit", 1, workers=1, transport="loopback")
        self.endless(ring)
        ring.start("generate", "--prompt", "waits", "--max-tokens", 2)
        wait_until("one in the queue", lambda: ring.status()["queued_jobs"] == 1)
        done = ring.rondo("generate", "--prompt", "too many", "--max-tokens", 2, check=75)
        self.assertIn(b"queue is full", done.stderr)

    def test_stop_during_a_stream_ends_it_with_a_status(self):
        ring = self.up(self.tiny_model(), "--drain", 2, workers=2, transport=TRANSPORTS[0])
        process = self.endless(ring)
        self.assertEqual(ring.stop(), 0)
        process.communicate(timeout=30)
        self.assertIn(process.returncode, (1, 69))
        self.assert_nothing_left()

    def test_a_reader_that_stops_reading_holds_nobody_up(self):
        ring = self.up(self.tiny_model(), "--drain", 2, workers=2, transport=TRANSPORTS[0])
        self.endless(ring)  # nobody reads its pipe from here on
        time.sleep(1)
        ring.generate("--prompt", "another", "--max-tokens", 5)
        self.assertEqual(ring.stop(), 0)


if __name__ == "__main__":
    unittest.main()
