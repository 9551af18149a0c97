"""Builds the program behind the GPU check: bench/gpu as a CMake project of its own, for the card that is here."""

import shutil
import subprocess

from . import find


class BuildError(Exception):
    pass


def build(root, folder, nvcc, card, jobs, seconds, without_abseil=False):
    """Path of the program. BuildError with the end of what the tools said, or the time they took too long."""
    configure = ["cmake", "-S", root / "bench/gpu", "-B", folder, f"-DCMAKE_CUDA_COMPILER={nvcc}",
                 f"-DRONDO_GPU_ARCHITECTURES={card.architecture}", "-DCMAKE_BUILD_TYPE=Release"]
    if without_abseil:
        configure.append("-DRONDO_GPU_WITHOUT_ABSEIL=ON")
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    for name, header in (("CUDNN_ROOT", "cudnn_graph.h"), ("NCCL_ROOT", "nccl.h")):
        if place := find.header_root(header, nvcc):
            configure.append(f"-D{name}={place}")
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "gpu_check.log"
    log.write_bytes(b"")
    for command in (configure, ["cmake", "--build", folder, "--parallel", str(jobs)]):
        with log.open("ab") as to:
            try:
                code = subprocess.run(command, stdout=to, stderr=subprocess.STDOUT, timeout=seconds).returncode
            except FileNotFoundError:
                raise BuildError(f"{command[0]} is not installed") from None
            except subprocess.TimeoutExpired:
                raise BuildError(f"building took longer than {seconds:.0f} s; see {log}") from None
        if code != 0:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
            raise BuildError(f"{end}\n(all of it in {log})")
    return folder / "bin/gpu_check_sections"
