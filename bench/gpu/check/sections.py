"""Runs the sections of the GPU check, each in a process of its own with a deadline, and judges what they say."""

import dataclasses
import json
import os
import signal
import subprocess

PASS, FAIL, NOT_RUN = "PASS", "FAIL", "not run"

# Name -> seconds it may take. The order is that of the report; what tells most comes first, in case time runs out.
SECTIONS = {"accuracy": 150, "law": 120, "speed": 240, "decode": 60, "dense": 90, "ring": 60, "exchange": 60}
# By programs of Rondo's own build.
RONDO = {"ranks": 150, "model": 150}
TOOLS = {"memcheck": 120, "racecheck": 120}
SANITIZER_FOUND = 9  # the exit code we ask of compute-sanitizer


@dataclasses.dataclass
class Section:
    name: str
    status: str = NOT_RUN
    why: str = ""  # of FAIL and not run
    seconds: float = 0.0
    lines: list = dataclasses.field(default_factory=list)  # as the program said them

    def of_kind(self, kind):
        return [line for line in self.lines if line.get("kind") == kind]


def parse(output):
    """The JSON lines of a program's output. Other lines, which libraries may print, are passed over."""
    lines = []
    for text in output.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "kind" in line:
            lines.append(line)
    return lines


def exit_words(code):
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"


def judge(section, code, stderr):
    """Sets status and why from the lines and the exit code; code None: out of time."""
    failed = [line for line in section.lines if line.get("pass") is False]
    errors = section.of_kind("error")
    results = section.of_kind("check") + section.of_kind("row")
    if code is None:
        section.status, section.why = FAIL, f"not done after {section.seconds:.0f} s"
    elif errors:
        section.status, section.why = FAIL, errors[-1].get("why", "")
    elif code != 0:
        end = " | ".join(stderr.strip().splitlines()[-3:])
        section.status, section.why = FAIL, exit_words(code) + (f": {end}" if end else "")
    elif failed:
        section.status, section.why = FAIL, f"{len(failed)} of {len(results)} did not pass"
    elif results:
        section.status = PASS
    else:
        section.why = "; ".join(line.get("why", "") for line in section.of_kind("absent")) or "it had nothing to say"
    return section


def run(command, seconds, environment):
    """(exit code or None when out of time, stdout, stderr)."""
    try:
        # A session of its own: what the program starts (compute-sanitizer starts one) ends with it.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True,
                                   errors="replace", start_new_session=True)
    except OSError as wrong:
        return 127, "", str(wrong)
    try:
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err


def run_section(name, program, seconds, environment, clock, arguments=None):
    section, begin = Section(name), clock()
    code, out, err = run([program, *([name] if arguments is None else arguments)], seconds, environment)
    section.seconds = clock() - begin
    section.lines = parse(out)
    return judge(section, code, err)


def judge_sanitizer(section, code, output):
    """compute-sanitizer's verdict on the section "small"."""
    if code == SANITIZER_FOUND:
        errors = [text.strip("= ") for text in output.splitlines() if text.startswith("=========") and text.strip("= ")]
        section.status, section.why = FAIL, " | ".join(errors[:1] + errors[-1:])
    elif code != 0 and any(words in output for words in ("not supported", "Unable to", "LibraryNotLoaded")):
        section.status, section.why = NOT_RUN, "compute-sanitizer cannot watch this device"
    else:
        judge(section, code, output)
    return section


def run_sanitizer(tool, sanitizer, program, seconds, environment, clock):
    section, begin = Section(tool), clock()
    if sanitizer is None:
        section.why = "compute-sanitizer was not found"
        return section
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(SANITIZER_FOUND), program, "small"]
    code, out, err = run(command, seconds, environment)
    section.seconds = clock() - begin
    section.lines = parse(out)
    return judge_sanitizer(section, code, out + err)


def environment(library_path):
    return dict(os.environ, LD_LIBRARY_PATH=library_path, NCCL_DEBUG=os.environ.get("NCCL_DEBUG", "WARN"))
