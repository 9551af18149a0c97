"""Finds what the GPU check needs on a machine: the card, nvcc, the libraries, compute-sanitizer."""

import ctypes
import dataclasses
import os
import pathlib
import shutil
import sys


def capability(text):
    """(9, 0) of "9.0"; ValueError for anything else."""
    major, minor = text.split(".")
    return int(major), int(minor)


@dataclasses.dataclass
class Card:
    name: str
    capability: tuple  # (major, minor)

    @property
    def architecture(self):
        """As CMake names it. Cards from 9.0 on have instructions of their own ("a"), which the kernels for them use."""
        major, minor = self.capability
        return f"{major}{minor}{'a' if major >= 9 else ''}-real"


def card():
    """(Card, "") or (None, why), asked from the driver itself."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no driver (libcuda.so.1)"
    count, device = ctypes.c_int(0), ctypes.c_int(0)
    if (code := driver.cuInit(0)) != 0:
        return None, f"the driver says error {code} to cuInit"
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None, "the driver sees no device"
    name = ctypes.create_string_buffer(256)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    codes = [driver.cuDeviceGet(ctypes.byref(device), 0),
             driver.cuDeviceGetName(name, 256, device),
             driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device),  # compute capability, major and minor
             driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)]
    if any(codes):
        return None, f"the driver says errors {codes} when asked about device 0"
    return Card(name.value.decode(errors="replace"), (major.value, minor.value)), ""


def nvcc(given=None):
    """Path of nvcc, or None. What was given is taken as it is."""
    if given:
        return pathlib.Path(given)
    candidates = [os.environ.get("CUDACXX"), shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"]
    candidates += sorted(pathlib.Path("/usr/local").glob("cuda-*/bin/nvcc"), reverse=True)
    return next((pathlib.Path(c) for c in candidates if c and os.access(c, os.X_OK)), None)


def wheel_folders():
    """Folders in which pip puts NVIDIA's libraries: .../site-packages/nvidia/cudnn and its neighbours."""
    folders = []
    for base in sys.path:
        nvidia = pathlib.Path(base) / "nvidia"
        if nvidia.is_dir():
            folders += sorted(folder for folder in nvidia.iterdir() if (folder / "lib").is_dir())
    return folders


def header_root(header, nvcc_path):
    """The folder whose include/ has the header, or None."""
    roots = [pathlib.Path("/usr/local/cuda"), pathlib.Path("/usr"), pathlib.Path("/usr/local")]
    if nvcc_path:
        roots.insert(0, nvcc_path.resolve().parent.parent)
    roots += wheel_folders()
    return next((root for root in roots if (root / "include" / header).is_file()), None)


def library_path(nvcc_path):
    """LD_LIBRARY_PATH with every folder that may hold cuDNN, NCCL and nvrtc, after what is set already."""
    folders = [os.environ.get("LD_LIBRARY_PATH")]
    if nvcc_path:
        root = nvcc_path.resolve().parent.parent
        folders += [root / "lib64", root / "lib"]
    folders += [folder / "lib" for folder in wheel_folders()]
    return ":".join(str(folder) for folder in folders if folder)


def rondo_programs(root, given=None):
    """The folder with Rondo's programs and its GPU module, or None. What was given is taken as it is."""
    if given:
        return pathlib.Path(given)
    folders = [root / "build" / preset / "bin" for preset in ("cuda", "ci", "dev", "release", "mpi")]
    return next((folder for folder in folders if (folder / "librondo_cuda.so").is_file()), None)


def sanitizer(nvcc_path):
    """Path of compute-sanitizer, or None."""
    candidates = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"]
    if nvcc_path:
        root = nvcc_path.resolve().parent.parent
        candidates = [root / "bin/compute-sanitizer", root / "compute-sanitizer/compute-sanitizer"] + candidates
    return next((pathlib.Path(c) for c in candidates if c and os.access(c, os.X_OK)), None)
