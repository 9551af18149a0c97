"""Attention jobs by hand: any ring gives one worker's bits, float64 agrees, and what cannot be done is refused in time."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

from harness import PATIENCE, SOURCE, TRANSPORTS, Case, wait_until


def attention(q, k, v, causal=True, window=0, softcap=0.0, sinks=None, alibi=None, starts=None):
    """float64, row by row. (O, LSE)"""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    tokens, heads, dim = q.shape
    group = heads // k.shape[1]
    out = np.zeros_like(q)
    lse = np.full((tokens, heads), -np.inf)
    keys = np.arange(len(k))
    for i in range(tokens):
        p = len(k) - tokens + i
        seen = np.ones(len(k), dtype=bool)
        if causal:
            seen &= keys <= p
        if window:
            seen &= abs(keys - p) < window
        if starts is not None:
            s = np.searchsorted(starts, p, side="right") - 1
            seen &= (keys >= starts[s]) & (keys < starts[s + 1])
        if not seen.any():
            continue
        for h in range(heads):
            score = k[seen, h // group] @ q[i, h] / np.sqrt(dim)
            if softcap:
                score = softcap * np.tanh(score / softcap)
            if alibi is not None:
                score = score - alibi[h] * abs(keys[seen] - p)
            top = score.max() if sinks is None else max(score.max(), sinks[h])
            weight = np.exp(score - top)
            total = weight.sum() + (0 if sinks is None else np.exp(sinks[h] - top))
            out[i, h] = weight @ v[seen, h // group] / total
            lse[i, h] = top + np.log(total)
    return out, lse


class AttendCase(Case):
    def tensors(self, q_tokens=700, kv_tokens=700, heads=4, kv_heads=2, dim=24, seed=1):
        random = np.random.default_rng(seed)
        made = [random.standard_normal((n, h, dim), dtype=np.float32)
                for n, h in ((q_tokens, heads), (kv_tokens, kv_heads), (kv_tokens, kv_heads))]
        words = []
        for name, tensor in zip("qkv", made):
            np.save(self.folder / f"{name}.npy", tensor)
            words += [f"--{name}", self.folder / f"{name}.npy"]
        return made, words

    def ring(self, workers=2, transport="loopback", *words):
        return self.up(None, *words, workers=workers, transport=transport)

    def attend(self, ring, *words, check=0):
        done = ring.rondo("attend", "--json", "--quiet", "--out", self.folder / "o.npy", *words, check=check)
        return json.loads(done.stdout)

    def refused(self, ring, code, text, *words):
        done = ring.rondo("attend", "--json", "--out", self.folder / "o.npy", *words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, b"")
        self.assertIn(text, done.stderr.decode())
        self.assertFalse((self.folder / "o.npy").exists())


class Attend(AttendCase):
    def test_one_digest_over_workers_and_transports_and_float64_agrees(self):
        (q, k, v), words = self.tensors(q_tokens=900, kv_tokens=1500)
        digests = {}
        for transport in TRANSPORTS:
            for workers in (1, 2, 4):
                ring = self.ring(workers, transport)
                for strategy in ("pass-kv", "pass-q"):
                    out = self.attend(ring, *words, "--causal", "--strategy", strategy)
                    self.assertEqual(out["workers"], workers)
                    self.assertEqual((out["tokens"], out["kv_tokens"]), (900, 1500))
                    digests[transport, workers, strategy] = out["digest"]
                if workers == 4:
                    digests[transport, "3 of 4"] = self.attend(ring, *words, "--causal", "--workers", 3)["digest"]
                wait_until("memory to be free", lambda: ring.kv_used() == 0)
                self.assertEqual(ring.stop(), 0)
                self.assert_nothing_left()
        self.assertEqual(len(set(digests.values())), 1, digests)
        o = np.load(self.folder / "o.npy")
        self.assertEqual(hashlib.sha256(o.tobytes()).hexdigest(), out["digest"])
        np.testing.assert_allclose(o, attention(q, k, v)[0], atol=2e-6)

    def test_every_mask_and_score(self):
        (q, k, v), words = self.tensors(600, 600)
        ring = self.ring(3)
        random = np.random.default_rng(2)
        sinks, slopes = random.standard_normal(4).astype("<f4"), random.random(4).astype("<f4")
        starts = np.array([0, 100, 100, 470, 600])
        np.save(self.folder / "sinks.npy", sinks)
        np.save(self.folder / "starts.npy", starts)
        for more, settings in [
            ((), dict(causal=False)),
            (("--causal", "--window", 100), dict(window=100)),
            (("--window", 70), dict(causal=False, window=70)),
            (("--causal", "--softcap", 2), dict(softcap=2.0)),
            (("--causal", "--sinks", self.folder / "sinks.npy"), dict(sinks=sinks)),
            (("--causal", "--alibi", ",".join(map(str, slopes))), dict(alibi=slopes)),
            (("--causal", "--cu-seqlens", self.folder / "starts.npy"), dict(starts=starts)),
            (("--cu-seqlens", "0,100,100,470,600"), dict(causal=False, starts=starts)),
        ]:
            out = self.attend(ring, *words, *more, "--lse", self.folder / "lse.npy", "--verify")
            self.assertTrue(out["equal"], more)
            self.assertEqual(out["digest"], out["digest_one_worker"])
            self.assertLess(out["largest_error"], 1e-5, more)
            wanted, lse = attention(q, k, v, **settings)
            np.testing.assert_allclose(np.load(self.folder / "o.npy"), wanted, atol=5e-6, err_msg=str(more))
            np.testing.assert_allclose(np.load(self.folder / "lse.npy"), lse, atol=1e-5, err_msg=str(more))

    def test_shapes_at_the_edge(self):
        ring = self.ring(3)
        for q_tokens, kv_tokens in [(5, 2), (1, 5), (1, 1), (0, 0), (0, 9), (3, 0), (257, 256)]:
            (q, k, v), words = self.tensors(q_tokens, kv_tokens)
            self.attend(ring, *words, "--causal", "--lse", self.folder / "lse.npy")
            wanted, lse = attention(q, k, v)
            np.testing.assert_allclose(np.load(self.folder / "o.npy"), wanted, atol=1e-6)
            np.testing.assert_allclose(np.load(self.folder / "lse.npy"), lse, atol=1e-5)

    def test_files_of_every_kind(self):
        (q, k, v), words = self.tensors(300, 300)
        ring = self.ring(2)
        # float16 is widened exactly, and so is what a safetensors file holds as bfloat16.
        for name, tensor in zip("qkv", (q, k, v)):
            np.save(self.folder / f"{name}.npy", tensor.astype("<f2"))
        half = [t.astype("<f2").astype("<f4") for t in (q, k, v)]
        self.attend(ring, *words, "--causal")
        np.testing.assert_allclose(np.load(self.folder / "o.npy"), attention(*half)[0], atol=2e-6)

        header, data = {"__metadata__": {"format": "np"}}, b""
        for name, tensor in zip("qkv", (q, k, v)):
            bits = (tensor.view("<u4") >> 16).astype("<u2").tobytes()
            header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(bits)]}
            data += bits
        text = json.dumps(header).encode()
        path = self.folder / "t.safetensors"
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        out = self.attend(ring, *[w for n in "qkv" for w in (f"--{n}", f"{path}:{n}")], "--causal", "--verify")
        self.assertEqual(out["dtype"], "bf16")
        self.assertTrue(out["equal"])
        cut = [(t.view("<u4") & 0xFFFF0000).view("<f4") for t in (q, k, v)]
        np.testing.assert_allclose(np.load(self.folder / "o.npy"), attention(*cut)[0], atol=2e-2)

    def test_refusals_name_the_field_and_the_numbers(self):
        (q, k, v), words = self.tensors(50, 50)
        ring = self.ring(2, "loopback", "--kv-memory", "1MiB")
        other = self.folder / "other.npy"

        def with_v(array):
            np.save(other, array)
            return [*words[:4], "--v", other]

        self.refused(ring, 2, "--v: 49 tokens, --k has 50", *with_v(v[:49]))
        self.refused(ring, 2, "shape [50, 48], [tokens, heads, head_dim]", *with_v(v.reshape(50, 48)))
        self.refused(ring, 2, "'<f8'", *with_v(v.astype("<f8")))
        self.refused(ring, 2, "Fortran order", *with_v(np.asfortranarray(v)))
        np.save(other, np.zeros((50, 3, 24), "<f4"))
        self.refused(ring, 2, "3 heads are not a multiple of the 2 heads", "--q", other, *words[2:])
        self.refused(ring, 2, "sequence_starts[2]: 3 is less than the one before, 7", *words, "--cu-seqlens", "0,7,3,50")
        self.refused(ring, 2, "--workers: 3 ranks asked, the group has 2", *words, "--workers", 3)
        for scale in (0, "1e-50", -1, "nan"):
            self.refused(ring, 2, f"--scale: {scale} is not a number from 1e-06 to 1e+06", *words, "--scale", scale)
        for window in (-1, "99999999999999999999"):
            self.refused(ring, 2, f"--window: {window} is not a whole number from 0 to 2147483647", *words, "--window", window)
        bad = v.copy()
        bad[7, 1, 3] = np.nan
        self.refused(ring, 2, "--v: row 7 head 1 element 3 is nan", *with_v(bad), "--check-finite")
        np.save(other, np.zeros((50, 1, 300), "<f4"))
        self.refused(ring, 2, "head_dim", "--q", other, "--k", other, "--v", other)
        _, words = self.tensors(20000, 20000)
        self.refused(ring, 1, "bytes, 2 ranks have 2097152", *words)

    def test_no_model_no_answer(self):
        ring = self.ring(2)
        done = ring.rondo("generate", "--prompt", "x")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no model", done.stderr)

    def test_beside_a_model(self):
        _, words = self.tensors()
        ring = self.up(self.tiny_model(), workers=3, transport=TRANSPORTS[0])
        alone = ring.generate("--prompt", "Once", "--max-tokens", 200)["digest"]
        job = ring.start("generate", "--json", "--quiet", "--prompt", "Once", "--max-tokens", 200)
        digests = {self.attend(ring, *words, "--causal")["digest"] for _ in range(3)}
        self.assertEqual(json.loads(job.communicate(timeout=PATIENCE)[0])["digest"], alone)
        self.assertEqual(len(digests), 1)

    def test_python_alone(self):
        _, words = self.tensors()
        ring = self.ring(2)
        wanted = self.attend(ring, *words, "--causal")["digest"]
        done = subprocess.run([sys.executable, SOURCE / "examples/attend.py", "--coordinator", ring.address, *map(str, words)],
                              capture_output=True, timeout=PATIENCE, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode().strip(), wanted)

    def test_jobs_shows_it_and_cancel_ends_it(self):
        _, words = self.tensors(9000, 9000, dim=64)
        ring = self.ring(2, "loopback", "--kernels", "portable", "--threads", 1)
        job = ring.start("attend", *words, "--out", self.folder / "o.npy")
        found = wait_until("it to attend", lambda: [j for j in ring.jobs() if j["stage"] == "attending"])
        self.assertEqual((found[0]["kind"], found[0]["prompt_tokens"]), ("attention", 9000))
        ring.rondo("cancel", found[0]["id"], check=0)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 1)
        self.assertIn(b"cancelled by a client", err)
        wait_until("memory to be free", lambda: ring.kv_used() == 0)
        # Ctrl-C, and the next job runs.
        job = ring.start("attend", *words, "--out", self.folder / "o.npy")
        wait_until("it to attend", lambda: [j for j in ring.jobs() if j["stage"] == "attending"])
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130)
        wait_until("memory to be free", lambda: ring.kv_used() == 0)
        self.assertFalse((self.folder / "o.npy").exists())
        self.assertEqual(list(self.folder.glob("o.npy*")), [])
        _, words = self.tensors()
        self.attend(ring, *words)


@unittest.skipUnless("mpi" in TRANSPORTS, "needs ranks that are processes: built without MPI")
class LostRanks(AttendCase):
    def test_a_rank_is_killed_and_the_answer_is_right(self):
        _, words = self.tensors(4000, 4000, dim=64)
        ring = self.up(None, "--threads", 1, workers=3)
        wanted = self.attend(ring, *words, "--causal")
        restarts = 0
        for moment in (0.0, 0.3, 0.6, 0.9):
            pids = wait_until("a ready group", lambda: len(ring.rank_pids()) == 3 and ring.rank_pids())
            began = time.monotonic()
            job = ring.start("attend", "--json", *words, "--causal", "--out", self.folder / "o.npy", "--deadline", "100s")
            wait_until("it to be there", lambda: ring.jobs() or job.poll() is not None)
            time.sleep(moment * wanted["total_seconds"])
            os.kill(pids[1], signal.SIGKILL)
            out, err = job.communicate(timeout=PATIENCE)
            self.assertEqual(job.returncode, 0, f"{moment}: {err.decode()}\n{ring.log()}")
            answer = json.loads(out)
            self.assertEqual(answer["digest"], wanted["digest"], moment)
            restarts += answer["restarts"]
            wait_until("a new group", lambda: pids[1] not in ring.rank_pids() and len(ring.rank_pids()) == 3)
        self.assertGreaterEqual(restarts, 1)
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
