"""Runs one prompt on a fresh ring of this machine and reads what it took; used by memory_bench and plan_bench."""

import json
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def peak_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def run_prompt(bin_dir, model, workers, tokens, answer, folder):
    """(the job's summary, peak resident MiB by rank) of one prompt of `tokens` ids and an answer of `answer`."""
    ids, summary = folder / "ids", folder / "summary"
    ids.write_text(" ".join(str(500 + i * 7919 % 40000) for i in range(tokens)))
    up = subprocess.Popen([bin_dir / "rondo", "up", "--workers", str(workers), "--model", model, "--listen", "127.0.0.1:0"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = up.stdout.readline()
        if not line.startswith("ready "):
            sys.exit("the ring did not get ready; try rondo up by hand")
        common = ["--coordinator", line.split()[1]]
        subprocess.run([bin_dir / "rondo", "generate", *common, "--prompt-ids", ids, "--max-tokens", str(answer),
                        "--summary-out", summary, "--quiet", "--beyond-context"], check=True, stdout=subprocess.DEVNULL)
        status = json.loads(subprocess.run([bin_dir / "rondo", "status", "--json", *common],
                                           check=True, capture_output=True).stdout)
        ranks = sorted(status["groups"][0]["ranks"], key=lambda rank: rank["rank"])
        return json.loads(summary.read_text()), [peak_mib(rank["pid"]) for rank in ranks]
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(timeout=60)
