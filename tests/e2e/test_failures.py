"""Ranks that die or freeze: the answer arrives all the same, with the bits of a run in which nothing happened."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

from harness import BIN, SOURCE, TRANSPORTS, Case, wait_until

needs_fault_points = unittest.skipUnless(os.environ.get("RONDO_FAULT_POINTS") in ("ON", "1"),
                                         "built without the CMake option RONDO_FAULT_POINTS, which plants the faults")


@unittest.skipUnless("mpi" in TRANSPORTS, "needs ranks that are processes: built without MPI")
class LostRanks(Case):
    # Five ways to lose a rank, so 20 moments in all.
    SEEDS = int(os.environ.get("RONDO_KILL_SEEDS", "5"))

    def start_job(self, ring):
        return ring.start("generate", "--json", "--document", self.document, "--question", "Who?", "--max-tokens", 400)

    def answer(self, job, what="no fault"):
        """The JSON object of a job that must have been answered."""
        out, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, f"{what}: {err.decode(errors='replace')}")
        return json.loads(out)

    def setUp(self):
        super().setUp()
        self.document = self.folder / "document.txt"
        self.document.write_bytes((SOURCE / "examples/frankenstein-letters.txt").read_bytes()[:3500])

    def run_with(self, sig):
        ring = self.up(self.tiny_model(), workers=4)
        wanted = None
        for seed in range(self.SEEDS):
            choice = random.Random(f"{sig.name} {seed}")
            if wanted is None:
                began = time.monotonic()
                wanted = self.answer(self.start_job(ring))
                lasts = time.monotonic() - began
                self.assertEqual(wanted["restarts"], 0)
            pids = wait_until("a ready group", ring.rank_pids)
            job = self.start_job(ring)
            # Anywhere in the job: prefill, decode, perhaps before it began. What is asserted holds for every moment.
            time.sleep(choice.uniform(0, lasts))
            victim = choice.choice(pids)
            try:
                os.kill(victim, sig)
            except ProcessLookupError:
                self.fail(f"rank {victim} was gone before it was hit: {ring.log()}")
            answer = self.answer(job, f"seed {seed}\n{ring.log()}")
            self.assertEqual(answer["digest"], wanted["digest"], f"seed {seed}")
            self.assertEqual(answer["text"], wanted["text"], f"seed {seed}")
            wait_until("the victim to be gone", lambda: victim not in self.processes(), 30)
            wait_until("a new group", lambda: victim not in ring.rank_pids() and len(ring.rank_pids()) == 4)
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()

    def test_killed(self):
        self.run_with(signal.SIGKILL)

    def test_frozen(self):
        self.run_with(signal.SIGSTOP)

    def test_terminated(self):
        self.run_with(signal.SIGTERM)

    def run_planted(self, kind):
        """The rank does it to itself at a chosen step of the ring, once (see worker/session/fault_point.h)."""
        model = self.tiny_model()
        ring = self.up(model, workers=4)
        wanted = self.answer(self.start_job(ring))
        ring.stop()
        for seed in range(self.SEEDS):
            choice = random.Random(f"{kind} {seed}")
            marker = self.folder / f"{kind}-{seed}"
            self.env["RONDO_FAULT"] = f"{choice.randrange(4)}:{kind}:{choice.randrange(1, 300)}:{marker}"
            ring = self.up(model, workers=4)
            answer = self.answer(self.start_job(ring), f"seed {seed}")
            self.assertTrue(marker.exists(), f"seed {seed}: the fault was not reached")
            self.assertEqual(answer["digest"], wanted["digest"], f"seed {seed}")
            self.assertEqual(answer["text"], wanted["text"])
            self.assertGreaterEqual(answer["restarts"], 1)
            self.assertEqual(ring.stop(), 0)
            self.assert_nothing_left()

    @needs_fault_points
    def test_exits_without_a_word(self):
        self.run_planted("exit")

    @needs_fault_points
    def test_throws(self):
        self.run_planted("throw")

    def test_mpirun_killed_leaves_no_rank_and_the_answer_comes(self):
        ring = self.up(self.tiny_model(), workers=4)
        wanted = self.answer(self.start_job(ring))
        ranks = ring.rank_pids()
        job = self.start_job(ring)
        launcher = [pid for pid, line in self.processes().items() if line.split()[0].endswith("mpirun")]
        self.assertEqual(len(launcher), 1)
        os.kill(launcher[0], signal.SIGKILL)
        self.assertEqual(self.answer(job, ring.log())["digest"], wanted["digest"])
        wait_until("the old ranks to end", lambda: not set(ranks) & set(self.processes()), 30)
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()

    def test_the_supervisor_killed_takes_everything_along(self):
        """Even with a frozen rank, which cannot end itself."""
        ring = self.up(self.tiny_model(), workers=3)
        os.kill(ring.rank_pids()[1], signal.SIGSTOP)
        ring.process.kill()
        ring.process.wait()
        self.assert_nothing_left(60)

    def test_the_mpirun_wrapper_starts_a_lost_group_again(self):
        coordinator = subprocess.Popen([BIN / "rondo-coordinator", "--listen", "127.0.0.1:0", "--journal", "none"],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env)
        self.addCleanup(coordinator.stdout.close)
        self.addCleanup(coordinator.wait)
        self.addCleanup(coordinator.kill)
        address = coordinator.stdout.readline().decode().split()[1]
        wrapper = subprocess.Popen([SOURCE / "deploy/mpirun-group", "-np", "3", "--", BIN / "rondo-worker", "--coordinator",
                                    address, "--model", self.tiny_model()], stderr=subprocess.DEVNULL, env=self.env)
        self.addCleanup(wrapper.wait)
        self.addCleanup(wrapper.terminate)

        def ranks():
            status = json.loads(self.rondo("status", "--coordinator", address, "--json", check=0).stdout)
            return [r["pid"] for g in status["groups"] if g["state"] == "ready" for r in g["ranks"]]

        first = wait_until("a group", ranks)
        self.assertEqual(len(first), 3)
        os.kill(first[2], signal.SIGKILL)
        wait_until("another group", lambda: len(ranks()) == 3 and not set(ranks()) & set(first))
        wrapper.terminate()
        self.assertEqual(wrapper.wait(30), 0)
        coordinator.terminate()
        coordinator.wait(30)
        self.assert_nothing_left()

    def test_coordinator_killed_comes_back_and_so_does_the_group(self):
        ring = self.up(self.tiny_model(), workers=2)
        wanted = ring.generate("--prompt", "Once", "--max-tokens", 5)
        coordinator = [pid for pid, line in self.processes().items() if line.split()[0].endswith("rondo-coordinator")]
        os.kill(coordinator[0], signal.SIGKILL)
        wait_until("another coordinator", lambda: self.rondo("status", "--coordinator", ring.address).returncode == 0)
        self.assertEqual(ring.generate("--prompt", "Once", "--max-tokens", 5)["digest"], wanted["digest"])
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()


@needs_fault_points
class HungRanks(Case):
    def test_a_rank_that_beats_and_does_not_compute_is_noticed(self):
        """Its step loop sleeps for ever, its heart beats: others wait for it, and none of them is silent."""
        model = self.tiny_model()
        for transport in TRANSPORTS:
            marker = self.folder / f"hang-{transport}"
            self.env["RONDO_FAULT"] = f"1:hang:7:{marker}"
            ring = self.up(model, "--stall-timeout", 5, workers=3, transport=transport)
            words = ("--prompt", "Once upon a time", "--max-tokens", 20)
            answer = ring.generate(*words)
            self.assertTrue(marker.exists(), "the fault was not reached")
            self.assertGreaterEqual(answer["restarts"], 1)
            self.assertIn("is stuck: no progress for", ring.log())
            self.assertEqual(ring.generate(*words)["digest"], answer["digest"])
            self.assertEqual(ring.stop(), 0)
            self.assert_nothing_left()


class LostCoordinator(Case):
    def kill_coordinator(self):
        (pid,) = [pid for pid, line in self.processes().items() if line.split()[0].endswith("rondo-coordinator")]
        os.kill(pid, signal.SIGKILL)

    def test_the_answer_arrives_over_the_death_of_the_coordinator(self):
        ring = self.up(self.tiny_model(), "--journal", self.folder / "journal", workers=3, transport=TRANSPORTS[0])
        words = ("--prompt", "Once upon a time", "--beyond-context", "--max-tokens", 3000)
        wanted = ring.generate(*words)
        # Streaming: what was shown before is not shown again.
        job = ring.start("generate", *words)
        first = wait_until("the first text", lambda: job.stdout.read(1))
        self.kill_coordinator()
        out, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, err)
        self.assertIn(b"lost the coordinator", err)
        self.assertEqual((first + out).decode(errors="replace"), wanted["text"] + "\n")
        self.assertIn(wanted["digest"], err.decode())
        # The object of --json, and a job that had not drawn a token yet.
        wait_until("a group", ring.rank_pids)
        job = ring.start("generate", "--json", *words)
        wait_until("the job", lambda: [j for j in ring.jobs()])
        self.kill_coordinator()
        out, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, err)
        self.assertIn(b"lost the coordinator", err)
        answer = json.loads(out)
        for key in ("text", "tokens", "digest", "finish_reason", "completion_tokens"):
            self.assertEqual(answer[key], wanted[key], key)
        # And for those who come later.
        kept = json.loads(ring.rondo("jobs", answer["id"], "--json", check=0).stdout)
        self.assertEqual((kept["state"], kept["digest"], kept["text"]), ("finished", wanted["digest"], wanted["text"]))
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()

    def start_coordinator(self, listen):
        process = subprocess.Popen([BIN / "rondo-coordinator", "--listen", listen, "--journal", "none"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, env=self.env)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.stdout.readline().decode().split()[1]

    def test_a_coordinator_that_forgot_the_job_or_never_comes_back(self):
        address = self.start_coordinator("127.0.0.1:0")
        for back in (True, False):
            worker = subprocess.Popen([BIN / "rondo-worker", "--transport", "loopback", "--coordinator", address, "--model",
                                       self.tiny_model()], stderr=subprocess.DEVNULL, env=self.env)
            self.addCleanup(worker.wait)
            self.addCleanup(worker.kill)
            job = subprocess.Popen(self.command("generate", "--coordinator", address, "--prompt", "x", "--beyond-context",
                                                "--max-tokens", 1000000), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.env)
            self.addCleanup(job.kill)
            wait_until("the first text", lambda: job.stdout.read(1))
            self.kill_coordinator()
            worker.wait(30)
            if back:
                wait_until("the old one to be gone", lambda: len(self.processes()) == 1)
                self.start_coordinator(address)
            _, err = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 1 if back else 69, err)
            self.assertIn(b"does not know job" if back else b"lost the coordinator", err)


if __name__ == "__main__":
    unittest.main()
