"""`rondo up` as a supervisor, with workers that are shell scripts: restarts, giving up, and leaving nothing behind."""

import os
import shutil
import signal
import socket
import unittest

from harness import BIN, Case, wait_until


class Up(Case):
    def fake_bin(self, script):
        """A folder with the true coordinator and a worker of our own."""
        folder = self.folder / "bin"
        folder.mkdir()
        (folder / "rondo-coordinator").symlink_to(BIN / "rondo-coordinator")
        worker = folder / "rondo-worker"
        worker.write_text("#!/bin/bash\n" + script)
        worker.chmod(0o755)
        return folder, self.tiny_model()

    def start_up(self, script, *words):
        folder, model = self.fake_bin(script)
        return self.up(model, "--bin", folder, *words, wait=False, transport="loopback")

    def find(self, word):
        return [pid for pid, line in self.processes().items() if word in line]

    def test_gives_up_on_workers_that_never_join(self):
        runs = self.folder / "runs"
        ring = self.start_up(f"echo run >> {runs}\necho 'rondo-worker: the model is upside down' >&2\nexit 3\n")
        self.assertEqual(ring.process.wait(60), 1)
        self.assertEqual(len(runs.read_text().split()), 5)
        last = ring.log().splitlines()
        self.assertTrue(any("exited with 3 5 times in a row" in l and "upside down" in l for l in last), last)
        self.assertIn("--check-model", ring.log())
        self.assert_nothing_left()

    def test_a_file_that_is_no_model_is_said_once_and_at_once(self):
        runs = self.folder / "runs"
        folder, _ = self.fake_bin(f"echo run >> {runs}\nexit 3\n")
        model = self.folder / "not.gguf"
        model.write_bytes(b"GGUG" + bytes(100))
        done = self.rondo("up", "--model", model, "--bin", folder, "--listen", "127.0.0.1:0", check=1)
        self.assertFalse(runs.exists())
        self.assertEqual(done.stdout, b"")
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertIn(str(model), lines[0])
        self.assertIn("--check-model", lines[1])
        self.assertEqual(self.scratch_folders(), [])

    def scratch_folders(self):
        return sorted(self.folder.glob("rondo-up-*"))

    def test_the_folder_of_one_that_was_killed_is_swept_by_the_next(self):
        first = self.start_up("exec sleep 1000\n")
        wait_until("the worker", lambda: self.find("sleep 1000"))
        old = self.scratch_folders()
        self.assertEqual(len(old), 1)
        first.process.kill()
        first.process.wait()
        self.assert_nothing_left(30)
        self.assertEqual(self.scratch_folders(), old)
        other = self.folder / "rondo-up-of-someone"  # without an owner's lock it is not ours to remove
        other.mkdir()

        shutil.rmtree(self.folder / "bin")
        second = self.start_up("exec sleep 1000\n")
        wait_until("the worker", lambda: self.find("sleep 1000"))
        new = [folder for folder in self.scratch_folders() if folder != other]
        self.assertEqual(len(new), 1)
        self.assertNotEqual(new, old)
        # A third leaves the folder of one that lives alone.
        shutil.rmtree(self.folder / "bin")
        third = self.start_up("exec sleep 2000\n")
        wait_until("the worker", lambda: self.find("sleep 2000"))
        self.assertIn(new[0], self.scratch_folders())
        self.assertEqual(third.stop(), 0)
        self.assertEqual(second.stop(), 0)
        self.assertEqual(self.scratch_folders(), [other])

    def test_once_does_not_start_again(self):
        runs = self.folder / "runs"
        ring = self.start_up(f"echo run >> {runs}\nexit 4\n", "--once")
        self.assertEqual(ring.process.wait(60), 1)
        self.assertEqual(len(runs.read_text().split()), 1)
        self.assert_nothing_left()

    def test_a_stop_ends_workers_that_ignore_it(self):
        ring = self.start_up("trap '' TERM INT\nwhile true; do sleep 0.1; done\n")
        wait_until("the worker", lambda: self.find("bin/rondo-worker"))
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()

    def test_ctrl_c_stops(self):
        ring = self.start_up("sleep 1000\n")
        wait_until("the worker", lambda: self.find("bin/rondo-worker"))
        self.assertEqual(ring.stop(signal.SIGINT), 0)
        self.assert_nothing_left()

    def test_killed_itself_it_takes_its_children_along(self):
        ring = self.start_up("exec sleep 1000\n")
        wait_until("the worker", lambda: self.find("sleep 1000"))
        wait_until("the coordinator", lambda: self.find("rondo-coordinator"))
        ring.process.kill()
        ring.process.wait()
        self.assert_nothing_left(30)

    def test_orphans_of_a_lost_group_are_ended(self):
        ring = self.start_up("setsid sleep 1234 &\nsleep 1000 &\nwait\n")
        wait_until("the orphan-to-be", lambda: self.find("sleep 1234"))
        orphan = self.find("sleep 1234")[0]
        os.kill(self.find("bin/rondo-worker")[0], signal.SIGKILL)
        wait_until("the orphan to end", lambda: orphan not in self.processes())
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()

    def test_a_coordinator_that_dies_comes_back_on_its_port(self):
        ring = self.start_up("echo \"dial $*\" >&2\nsleep 1000\n")
        wait_until("the worker", lambda: "dial" in ring.log())
        address = ring.log().split("--coordinator ")[1].split()[0]
        first = self.find("rondo-coordinator")[0]
        os.kill(first, signal.SIGKILL)
        wait_until("another coordinator", lambda: [p for p in self.find("rondo-coordinator") if p != first])
        wait_until("an answer", lambda: self.rondo("status", "--coordinator", address).returncode == 0)
        self.assertEqual(ring.stop(), 0)
        self.assert_nothing_left()

    def test_a_taken_port_is_said_at_once(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            folder, model = self.fake_bin("exit 1\n")
            ring = self.up(model, "--bin", folder, wait=False, transport="loopback", listen=f"127.0.0.1:{taken.getsockname()[1]}")
            self.assertEqual(ring.process.wait(60), 1)
            self.assertIn("--listen", ring.log())
            self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
