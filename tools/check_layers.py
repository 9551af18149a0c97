#!/usr/bin/env python3
"""Checks that no folder includes what the architecture forbids (docs/ARCHITECTURE.md, "Who may include whom").

  tools/check_layers.py            # prints each forbidden include as FILE:LINE and exits 1, or says how many it read
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folder -> prefixes of our own headers it may include. The longest matching folder counts.
ALLOWED = {
    "include/rondo": ["rondo/"],
    "base": ["rondo/", "base/"],
    "kernels": ["rondo/", "base/", "kernels/"],
    "kernels/cuda": ["rondo/", "base/", "kernels/cuda/"],
    "model": ["rondo/", "base/", "model/", "kernels/fold_nodes.h", "kernels/rope_table.h"],
    "model/gguf": ["rondo/", "base/", "model/gguf/"],
    "model/tokenizer": ["rondo/", "base/", "model/gguf/", "model/tokenizer/"],
    "model/cost": ["rondo/", "base/", "model/cost/"],
    "model/kv": ["rondo/", "base/", "model/kv/"],
    "worker/transport": ["rondo/", "base/", "worker/transport/"],
    "worker/ring": ["rondo/", "base/", "kernels/fold_nodes.h", "model/kv/", "worker/ring/"],
    "worker/session": ["rondo/", "base/", "kernels/registry.h", "model/", "worker/ring/", "worker/session/"],
    "worker/device": ["rondo/", "base/", "kernels/cuda/", "worker/device/", "worker/transport/"],
    "worker": ["rondo/", "base/", "kernels/registry.h", "kernels/cuda/backend/", "model/", "worker/"],
    "coordinator/core": ["rondo/", "base/", "coordinator/core/"],
    "coordinator/journal": ["rondo/", "base/", "coordinator/core/", "coordinator/journal/"],
    "coordinator": ["rondo/", "base/", "coordinator/", "model/gguf/", "model/tokenizer/", "model/sampler/"],
    "cli": ["rondo/", "base/", "cli/", "model/cost/", "model/gguf/", "model/tokenizer/",
            "worker/transport/mpi_launch.h"],
}

# Header prefix -> folders that may include it. Generated protos begin with rondo/v1/.
VENDORS = {
    "mpi.h": ["worker/transport", "include/rondo/mpi.h"],
    "grpcpp/": ["worker/rpc", "coordinator/rpc", "cli", "coordinator/main.cc"],
    "rondo/v1/": ["worker/rpc", "coordinator/rpc", "coordinator/journal", "coordinator/engine", "cli"],
    "boost/": ["cli/up"],
    "CLI/": ["cli", "worker/options.cc", "coordinator/main.cc"],
    "pcre2.h": ["model/tokenizer"],
    "openssl/": ["base", "coordinator/rpc"],
    "immintrin.h": ["base", "kernels"],
    "cuda": ["kernels/cuda", "worker/device/cuda_module"],
    "cudnn": ["kernels/cuda/cudnn"],
    "nccl.h": [],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
OWN = ("rondo/", "base/", "kernels/", "model/", "worker/", "coordinator/", "cli/", "tests/", "bench/")


def within(path, folder):
    return path == folder or path.startswith(folder + "/")


def allowed_own(path):
    folders = [f for f in ALLOWED if within(path, f)]
    return ALLOWED[max(folders, key=len)] if folders else None


def complaint(path, header):
    for vendor, folders in VENDORS.items():
        if header.startswith(vendor):
            if any(within(path, f) for f in folders):
                return None
            return f"only {', '.join(folders)} may include {vendor}"
    prefixes = allowed_own(path)
    if prefixes is None or not header.startswith(OWN):
        return None
    if any(header.startswith(p) for p in prefixes):
        return None
    return f"this folder may include only {', '.join(prefixes)}"


def main():
    files = 0
    bad = 0
    for top in ("include", "base", "kernels", "model", "worker", "coordinator", "cli"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in (".h", ".cc", ".cuh", ".cu"):
                continue
            files += 1
            path = file.relative_to(ROOT).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                why = complaint(path, match.group(1)) if match else None
                if why:
                    bad += 1
                    print(f"{path}:{number}: {match.group(1)}: {why}")
    if bad:
        print(f"{bad} forbidden includes", file=sys.stderr)
        return 1
    print(f"layers: {files} files, every include allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
