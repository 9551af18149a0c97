"""What the end-to-end tests share: starting `rondo up` on a free port, running commands, and finding what was left.

Every process that a test starts carries RONDO_TEST_TAG in its environment, which its children inherit. So a test finds
its own processes among all others, and no test ends by name anything that it did not start.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

BIN = pathlib.Path(os.environ["RONDO_BIN"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TRANSPORTS = os.environ.get("RONDO_TRANSPORTS", "mpi loopback").split()

# Not a limit that a healthy run comes near, even on a busy machine or under a sanitizer: it ends a hang.
PATIENCE = 120


def wait_until(what, condition, patience=PATIENCE):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {patience} s for: {what}")


class Case(unittest.TestCase):
    """A temporary folder and a tag for each test; fails a test that leaves a process behind."""

    def setUp(self):
        self.tag = uuid.uuid4().hex
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rondo-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self._nothing_left)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_")}
        self.env.update(RONDO_TEST_TAG=self.tag, TMPDIR=str(self.folder), NO_COLOR="1")
        self.env.pop("RONDO_COORDINATOR", None)

    def processes(self):
        """{pid: command line} of the living processes of this test; a zombie is not one."""
        mark = f"RONDO_TEST_TAG={self.tag}".encode()
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # gone meanwhile
        return found

    def assert_nothing_left(self, patience=20):
        try:
            wait_until("all processes to end", lambda: not self.processes(), patience)
        except AssertionError:
            self.fail(f"left behind: {self.processes()}")

    def _nothing_left(self):
        left = self.processes()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if left:
            # A cleanup's failure fails the test.
            raise AssertionError(f"the test left processes behind: {left}")

    def command(self, *words):
        return [str(BIN / "rondo"), *map(str, words)]

    def rondo(self, *words, stdin=b"", check=None, timeout=PATIENCE, env=None):
        """Runs a command to its end. Output is bytes. check: the exit code it must have."""
        done = subprocess.run(self.command(*words), input=stdin, capture_output=True, timeout=timeout, env={**self.env, **(env or {})})
        if check is not None:
            self.assertEqual(done.returncode, check, f"rondo {' '.join(map(str, words))}\n{done.stderr.decode(errors='replace')}")
        return done

    def tiny_model(self, **options):
        """A random Llama of 5 layers, 9 query and 3 KV heads of 8."""
        path = self.folder / f"tiny-{uuid.uuid4().hex[:8]}.gguf"
        words = [BIN / "make_tiny_llama", "--out", path]
        for name, value in options.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        subprocess.run(list(map(str, words)), check=True, timeout=PATIENCE)
        return path

    def up(self, model, *words, workers=1, wait=True, **options):
        ring = Up(self, model, *words, workers=workers, **options)
        self.addCleanup(ring.stop)
        if wait:
            ring.wait_ready()
        return ring


class Up:
    """A running `rondo up`."""

    def __init__(self, case, model, *words, workers=1, transport="mpi", listen="127.0.0.1:0"):
        self.case = case
        self.log_path = case.folder / f"up-{uuid.uuid4().hex[:8]}.log"
        self.log_file = open(self.log_path, "wb")
        # A session of its own, as a terminal would give it: the test's own Ctrl-C does not reach it.
        self.process = subprocess.Popen(
            case.command("up", *(["--model", model] if model else []), "--workers", workers, "--listen", listen,
                         "--transport", transport, *words),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log_file, env=case.env, start_new_session=True)
        self.address = None

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_ready(self):
        os.set_blocking(self.process.stdout.fileno(), False)
        out = b""

        def ready():
            nonlocal out
            out += self.process.stdout.read() or b""
            if self.process.poll() is not None:
                raise AssertionError(f"rondo up ended with {self.process.returncode}:\n{self.log()}")
            return b"\n" in out

        try:
            wait_until("rondo up to be ready", ready)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None
        word, self.address = out.decode().split()
        self.case.assertEqual(word, "ready")

    def rondo(self, command, *words, **options):
        return self.case.rondo(command, "--coordinator", self.address, *words, **options)

    def start(self, command, *words, **options):
        """The command without waiting for it."""
        process = subprocess.Popen(self.case.command(command, "--coordinator", self.address, *words), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.case.env, **options)
        self.case.addCleanup(_end, process)
        return process

    def status(self):
        return json.loads(self.rondo("status", "--json", check=0).stdout)

    def jobs(self):
        return json.loads(self.rondo("jobs", "--json", check=0).stdout)["jobs"]

    def generate(self, *words, check=0):
        """The JSON object of a generate."""
        done = self.rondo("generate", "--json", "--quiet", *words, check=check)
        return json.loads(done.stdout)

    def rank_pids(self):
        """Process ids of the ranks of the ready group, in rank order; empty while there is none."""
        for group in self.status()["groups"]:
            if group["state"] == "ready":
                return [rank["pid"] for rank in group["ranks"]]
        return []

    def kv_used(self):
        return sum(rank["kv_used_bytes"] for group in self.status()["groups"] for rank in group["ranks"])

    def stop(self, sig=signal.SIGTERM):
        """Ends it and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"rondo up did not end:\n{self.log()}") from None
        finally:
            self.process.stdout.close()
            self.log_file.close()
        return code


def _end(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()
