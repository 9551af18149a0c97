"""The GPU check's section "model": a real model from end to end, by the programs that users run. The same question is asked
of one rank and of two that share the card, whose answers must have one digest, and of the CPU, whose tokens are only
reported: another kernel family has other bits."""

import dataclasses
import json
import os
import select
import signal
import subprocess
import time

from . import sections

QUESTION = "To whom are these letters written, and where is the writer?"


@dataclasses.dataclass(frozen=True)
class Run:
    device: str
    transport: str
    workers: int

    @property
    def name(self):
        return f"{self.device}, {self.workers} rank{'s' if self.workers > 1 else ''}"


ON_GPU = [Run("cuda", "cuda-ipc", 1), Run("cuda", "cuda-ipc", 2)]
ON_CPU = [Run("cpu", "mpi", 1)]


class Wrong(Exception):
    pass


class Ring:
    """A running `rondo up`."""

    def __init__(self, rondo, model, run, log, environment):
        self.log = log
        command = [rondo, "up", "--once", "--workers", str(run.workers), "--model", model, "--listen", "127.0.0.1:0",
                   "--device", run.device, "--transport", run.transport, "--kv-type", "bf16"]
        with log.open("wb") as to:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=to, text=True,
                                            env=environment, start_new_session=True)

    def address(self, seconds):
        """HOST:PORT, once jobs can be taken."""
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if not line.startswith("ready "):
            said = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip("- ")]
            end = " | ".join(said[-3:])  # mpirun draws lines
            raise Wrong(f"rondo up did not get ready: {end or 'it says nothing'}")
        return line.split()[1]

    def stop(self):
        """Ends it and all that it started."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()


def answer(folder, model, document, run, max_tokens, log, seconds, environment):
    """What `rondo generate --json` says of the run. Wrong, with the words of who failed."""
    rondo, deadline = str(folder / "rondo"), time.monotonic() + seconds
    ring = Ring(rondo, str(model), run, log, environment)
    try:
        command = [rondo, "generate", "--coordinator", ring.address(seconds), "--document", str(document), "--question",
                   QUESTION, "--max-tokens", str(max_tokens), "--json", "--quiet"]
        code, out, err = sections.run(command, max(deadline - time.monotonic(), 1), environment)
    finally:
        ring.stop()
    if code is None:
        raise Wrong(f"no answer within {seconds:.0f} s")
    if code != 0:
        raise Wrong(f"rondo generate: {sections.exit_words(code)}: {' | '.join(err.strip().splitlines()[-3:])}")
    try:
        return json.loads(out)
    except ValueError:
        raise Wrong(f"rondo generate printed {out[:100]!r}") from None


def same_beginning(a, b):
    """How many tokens two answers begin with in common."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def lines(judged, reported, answers, family):
    """The section's lines. `judged` must agree; their kernels must be of `family`."""
    said = []
    for run in judged + reported:
        got = answers[run]
        said.append({"kind": "row", "run": run.name, "kernels": got["kernels"], "prompt_tokens": got["prompt_tokens"],
                     "prefill_tokens_per_s": got["prefill_tokens_per_s"],
                     "decode_tokens_per_s": got["decode_tokens_per_s"], "tokens": len(got["tokens"]),
                     "as_the_first": same_beginning(answers[judged[0]]["tokens"], got["tokens"]),
                     "digest": got["digest"][:16]})
    for run in judged:
        kernels = answers[run]["kernels"]
        said.append({"kind": "check", "kernel": run.name, "case": f"kernels {kernels}", "pass": kernels.startswith(family)})
    first = answers[judged[0]]
    for run in judged[1:]:
        got = answers[run]
        said.append({"kind": "check", "kernel": run.name, "case": "digest and tokens of one rank",
                     "pass": bool(first["tokens"]) and got["digest"] == first["digest"] and got["tokens"] == first["tokens"]})
    return said


def run_model(folder, model, document, log_folder, seconds, environment, clock, judged=None, reported=None, max_tokens=48,
              family="sm"):
    """The section, for programs in `folder`. Runs that are only reported may fail."""
    judged, reported = judged or ON_GPU, ON_CPU if reported is None else reported
    section, begin, answers = sections.Section("model"), clock(), {}
    log_folder.mkdir(parents=True, exist_ok=True)
    for number, run in enumerate(judged + reported):
        left = seconds - (clock() - begin)
        log = log_folder / f"model-{number}.log"
        try:
            if left < 5:
                raise Wrong(f"no time left of {seconds:.0f} s")
            answers[run] = answer(folder, model, document, run, max_tokens, log, left, environment)
        except Wrong as wrong:
            if run in judged:
                section.lines.append({"kind": "error", "why": f"{run.name}: {wrong}"})
                break
            section.lines.append({"kind": "absent", "what": run.name, "why": str(wrong)})
    section.seconds = clock() - begin
    if all(run in answers for run in judged):
        section.lines = lines(judged, [run for run in reported if run in answers], answers, family) + section.lines
    return sections.judge(section, 0, "")
