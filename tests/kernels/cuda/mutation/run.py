#!/usr/bin/env python3
"""Compiles the CUDA attention kernels with one planted mistake after another and expects the tests to find each.

  run.py [--compiler g++] [--jobs N] [--only TEXT] LIBRARY...

The libraries are what the probe links: the problem's and the emulator's. Every mutant lives in a folder of its own.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from mutations import MUTATIONS

ROOT = pathlib.Path(__file__).resolve().parents[4]
KERNELS = "kernels/cuda/attention"
PROBE = "tests/kernels/cuda/mutation/probe.cc"
# A mutant may loop for ever; the probe itself takes seconds.
TIME_LIMIT_S = 120


def build_and_run(args, what, file, text, replacement):
    """Returns (found, how)."""
    with tempfile.TemporaryDirectory(prefix="rondo-mutant-") as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(ROOT / KERNELS, folder / KERNELS)
        if file is not None:
            path = folder / KERNELS / file
            source = path.read_text()
            if text not in source:
                return False, f"{file} no longer has the text to be replaced: {text!r}"
            path.write_text(source.replace(text, replacement, 1))
        # The mutant's folder comes first, so that its kernels are the ones included.
        includes = [f"-I{folder}", f"-I{ROOT}", f"-I{ROOT}/include", f"-I{ROOT}/tests/testing/simt/side"]
        command = [args.compiler, "-std=c++20", "-O1", "-w", "-ffp-contract=off", *includes, "-o", folder / "probe",
                   ROOT / PROBE, *args.libraries, "-pthread"]
        compiled = subprocess.run(command, capture_output=True, text=True)
        if compiled.returncode != 0:
            return False, "does not compile: " + compiled.stderr[:1000]
        try:
            ran = subprocess.run([folder / "probe"], capture_output=True, text=True, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            return True, f"no end after {TIME_LIMIT_S} s"
        said = (ran.stdout + ran.stderr).strip().splitlines()
        return ran.returncode != 0, said[-1] if said else f"exit status {ran.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="mutations whose description has this text")
    parser.add_argument("libraries", nargs="+")
    args = parser.parse_args()

    found, how = build_and_run(args, "no mistake", None, None, None)
    if found or how != "exit status 0":
        print(f"run.py: the kernels as they are do not pass: {how}")
        return 1
    chosen = [m for m in MUTATIONS if args.only in m[0]]
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (what, *_), (found, how) in zip(chosen, pool.map(lambda m: build_and_run(args, *m), chosen)):
            missed += not found
            print(f"{'found ' if found else 'MISSED'}  {what}: {how}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mistakes found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
