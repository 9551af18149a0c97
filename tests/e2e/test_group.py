"""Groups started by a plain mpirun beside a coordinator: who may join, and how the group ends when it is sent home."""

import json
import os
import signal
import subprocess
import time
import unittest

from harness import BIN, SOURCE, TRANSPORTS, Case, wait_until


class GroupCase(Case):
    def coordinator(self, *words):
        """(process, address)"""
        process = subprocess.Popen([BIN / "rondo-coordinator", "--listen", "127.0.0.1:0", "--journal", "none", *words],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.readline().decode().split()[1]

    def mpirun(self, *words):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        process = subprocess.Popen(["mpirun", "--oversubscribe", "--bind-to", "none", *root, *map(str, words)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.env)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def groups(self, address):
        return json.loads(self.rondo("status", "--coordinator", address, "--json", check=0).stdout)["groups"]


@unittest.skipUnless("mpi" in TRANSPORTS, "needs ranks that are processes: built without MPI")
class PlainMpirun(GroupCase):
    def test_reference_kernels_may_not_join_a_group_of_cpu_kernels(self):
        """Their bits are others: a ring of both would answer with neither's."""
        coordinator, address = self.coordinator()
        worker = [BIN / "rondo-worker", "--coordinator", address, "--model", self.tiny_model()]
        mpi = self.mpirun("-np", 1, *worker, "--kernels", "portable", ":", "-np", 1, *worker, "--kernels", "ref")
        _, err = mpi.communicate(timeout=60)
        self.assertNotEqual(mpi.returncode, 0)
        said = [line for line in err.decode().splitlines() if "kernel family differs" in line]
        self.assertTrue(said, err)
        for word in ("rank 0", "rank 1", "cpu", "ref"):
            self.assertIn(word, said[0])
        self.assertFalse([g for g in self.groups(address) if g["state"] == "ready"])

    def test_a_drain_sends_the_group_home_with_0(self):
        coordinator, address = self.coordinator()
        mpi = self.mpirun("-np", 3, BIN / "rondo-worker", "--coordinator", address, "--model", self.tiny_model())
        wait_until("the group", lambda: [g for g in self.groups(address) if g["state"] == "ready"])
        # With a job behind it, so that the ring has been used.
        self.rondo("generate", "--coordinator", address, "--prompt", "Once", "--max-tokens", 3, check=0)
        coordinator.send_signal(signal.SIGTERM)
        self.assertEqual(coordinator.wait(30), 0)
        _, err = mpi.communicate(timeout=30)
        self.assertEqual(mpi.returncode, 0, err)
        self.assert_nothing_left()


class Wrapper(GroupCase):
    def test_a_signal_at_any_early_moment_ends_the_wrapper_and_what_it_started(self):
        launcher = self.folder / "launcher"
        launcher.write_text("#!/bin/sh\nexec sleep 1000\n")
        launcher.chmod(0o755)
        for delay_ms in list(range(0, 40, 2)) + [80, 200]:
            wrapper = subprocess.Popen([SOURCE / "deploy/mpirun-group", "-np", "1", "--", "worker"], stderr=subprocess.DEVNULL,
                                       stdin=subprocess.DEVNULL, env={**self.env, "MPIRUN": str(launcher)})
            self.addCleanup(wrapper.kill)
            time.sleep(delay_ms / 1000)
            wrapper.terminate()
            # Before the shell has read the script, the signal is not the script's to handle.
            self.assertIn(wrapper.wait(30), (0, -signal.SIGTERM), delay_ms)
            self.assert_nothing_left()

    def test_a_signal_between_the_start_of_mpirun_and_its_number_being_known(self):
        """The launcher itself sends it, as early as can be: the script may not have passed the line after the start."""
        launcher = self.folder / "launcher"
        launcher.write_text("#!/bin/sh\nkill -TERM $PPID\nexec sleep 1000\n")
        launcher.chmod(0o755)
        for _ in range(10):
            wrapper = subprocess.Popen([SOURCE / "deploy/mpirun-group", "-np", "1", "--", "worker"], stderr=subprocess.DEVNULL,
                                       stdin=subprocess.DEVNULL, env={**self.env, "MPIRUN": str(launcher)})
            self.addCleanup(wrapper.kill)
            self.assertEqual(wrapper.wait(30), 0)
            self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
