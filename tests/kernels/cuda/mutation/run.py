#!/usr/bin/env python3
"""Compiles CUDA attention kernels with one planted mistake after another and expects the tests to find each.

  run.py sm80|sm90 [--compiler g++] [--jobs N] [--only TEXT] LIBRARY...

The libraries are what the probe links: the problem's and the emulator's. Every mutant lives in a folder of its own. Of a
probe's sources only those are compiled again that include the file with the mistake.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import mutations_sm80
import mutations_sm90

ROOT = pathlib.Path(__file__).resolve().parents[4]
KERNELS = "kernels/cuda/attention"
TESTS = "tests/kernels/cuda"
# Of each kernel: the mistakes, and the sources of the program that looks for them.
PROBES = {
    "sm80": (mutations_sm80.MUTATIONS, ["mutation/probe.cc", "emulated.cc", "emulated_sm80.cc", "emulated_decode.cc"]),
    "sm90": (mutations_sm90.MUTATIONS, ["mutation/probe_sm90.cc", "emulated.cc", "emulated_sm90.cc"]),
}
# A mutant may loop for ever; the probe itself takes seconds.
TIME_LIMIT_S = 120


class CompileError(Exception):
    pass


class Probe:
    def __init__(self, args, folder):
        self.mutations, self.sources = PROBES[args.kernel]
        self.args = args
        self.objects, self.includes = {}, {}
        self.precompiled = folder / "precompiled.h"
        self.compile("mutation/precompiled.h", folder, ["-x", "c++-header"], folder / "precompiled.h.gch")
        for source in self.sources:
            self.objects[source] = self.compile_object(source, folder)
            listed = subprocess.run([*self.command(folder), "-MM", ROOT / TESTS / source], capture_output=True, text=True)
            self.includes[source] = listed.stdout

    def command(self, folder):
        # The mutant's folder comes first, so that its kernels are the ones included.
        includes = [f"-I{folder}", f"-I{ROOT}", f"-I{ROOT}/include", f"-I{ROOT}/tests/testing/simt/side"]
        return [self.args.compiler, "-std=c++20", "-O1", "-w", "-ffp-contract=off", "-DRONDO_FEW_INSTANTIATIONS",
                "-DRONDO_TEST_BLOCK=256", *includes]

    def compile(self, source, folder, options, to):
        command = [*self.command(folder), *options, "-c", ROOT / TESTS / source, "-o", to]
        compiled = subprocess.run(command, capture_output=True, text=True)
        if compiled.returncode != 0:
            raise CompileError("does not compile: " + compiled.stderr[:1000])

    def compile_object(self, source, folder):
        to = folder / (source.replace("/", "_") + ".o")
        self.compile(source, folder, ["-include", self.precompiled], to)
        return to

    def run(self, folder, objects):
        program = folder / "probe"
        linked = subprocess.run([self.args.compiler, "-o", program, *objects, *self.args.libraries, "-pthread"],
                                capture_output=True, text=True)
        if linked.returncode != 0:
            raise CompileError("does not link: " + linked.stderr[:1000])
        try:
            ran = subprocess.run([program], capture_output=True, text=True, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            return True, f"no end after {TIME_LIMIT_S} s"
        said = (ran.stdout + ran.stderr).strip().splitlines()
        return ran.returncode != 0, said[-1] if said else f"exit status {ran.returncode}"

    def try_mutant(self, what, file, text, replacement):
        """Returns (found, how)."""
        with tempfile.TemporaryDirectory(prefix="rondo-mutant-") as folder:
            folder = pathlib.Path(folder)
            shutil.copytree(ROOT / KERNELS, folder / KERNELS)
            path = folder / KERNELS / file
            source = path.read_text()
            if text not in source:
                return False, f"{file} no longer has the text to be replaced: {text!r}"
            path.write_text(source.replace(text, replacement, 1))
            try:
                objects = [self.compile_object(s, folder) if f"{KERNELS}/{file}" in self.includes[s] else self.objects[s]
                           for s in self.sources]
                return self.run(folder, objects)
            except CompileError as error:
                return False, str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", choices=PROBES)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="mutations whose description has this text")
    parser.add_argument("libraries", nargs="+")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="rondo-probe-") as folder:
        try:
            probe = Probe(args, pathlib.Path(folder))
            found, how = probe.run(pathlib.Path(folder), probe.objects.values())
        except CompileError as error:
            found, how = True, str(error)
        if found or how != "exit status 0":
            print(f"run.py: the kernels as they are do not pass: {how}")
            return 1
        chosen = [m for m in probe.mutations if args.only in m[0]]
        missed = 0
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for (what, *_), (found, how) in zip(chosen, pool.map(lambda m: probe.try_mutant(*m), chosen)):
                missed += not found
                print(f"{'found ' if found else 'MISSED'}  {what}: {how}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mistakes found")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
