#!/usr/bin/env python3
"""An attention job from any language: generated stubs, NumPy, and nothing of Rondo's but its proto file.

  apt-get install python3-grpcio python3-grpc-tools python3-numpy
  rondo up --workers 4
  examples/attend.py --coordinator 127.0.0.1:7070 --tokens 3000 --out o.npy

(Without apt: pip install grpcio grpcio-tools numpy.)

Without --q, --k and --v it attends random tensors. It prints the SHA-256 of the result, as `rondo attend --json` does.
"""

import argparse
import hashlib
import importlib
import pathlib
import sys
import tempfile

import grpc
import numpy as np

PROTO = pathlib.Path(__file__).resolve().parents[1] / "proto"
PIECE_BYTES = 256 << 10  # the size gRPC moves fastest


def stubs():
    """(messages, services): attention.proto compiled into a temporary folder. A real client would do it once."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory(prefix="attend-") as folder:
        words = ["protoc", f"-I{PROTO}", f"--python_out={folder}", f"--grpc_python_out={folder}", "rondo/v1/attention.proto"]
        if protoc.main(words) != 0:
            sys.exit("the proto file could not be compiled")
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("rondo.v1.attention_pb2"), importlib.import_module("rondo.v1.attention_pb2_grpc")
        finally:
            sys.path.remove(folder)


def load(parser, option, path):
    """The tensor in a .npy file; ends the program with what is wrong with it."""
    try:
        tensor = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        parser.error(f"--{option}: {path}: {error}")
    if not isinstance(tensor, np.ndarray) or tensor.ndim != 3 or tensor.dtype.kind != "f":
        what = f"{tensor.dtype} of shape {list(tensor.shape)}" if isinstance(tensor, np.ndarray) else "an archive"
        parser.error(f"--{option}: {path} is {what}, floats of shape [tokens, heads, head_dim] are needed")
    return tensor.astype("<f4")


def pieces(pb, ticket, share, tensors):
    """Every row that `share` names, as TensorPieces. The first one says which job it is."""
    job = pb.JobRef(job_id=ticket.job_id, token=ticket.token, epoch=ticket.epoch)
    for name, runs in (("Q", share.q_rows), ("K", share.kv_rows), ("V", share.kv_rows)):
        rows = tensors[name]
        step = max(1, PIECE_BYTES // (rows[0].nbytes if len(rows) else 1))
        for run in runs:
            for begin in range(run.begin, run.end, step):
                data = rows[begin : min(begin + step, run.end)].tobytes()
                yield pb.TensorPiece(job=job, tensor=pb.Tensor.Value(name), first_row=begin, type=pb.F32, data=data)
                job = None


def attend(address, q, k, v, **settings):
    """O of float32 tensors [tokens, heads, head_dim]; settings are fields of AttentionSpec."""
    pb, services = stubs()
    tensors = {name: np.ascontiguousarray(t, dtype="<f4") for name, t in (("Q", q), ("K", k), ("V", v))}
    coordinator = services.AttentionServiceStub(grpc.insecure_channel(address))
    ticket = coordinator.Open(pb.AttentionSpec(
        q_tokens=q.shape[0], kv_tokens=k.shape[0], q_heads=q.shape[1], kv_heads=k.shape[1], head_dim=q.shape[2], **settings))
    ranks = [services.AttentionDataStub(grpc.insecure_channel(share.data_address)) for share in ticket.ranks]
    try:
        for share, rank in zip(ticket.ranks, ranks):
            rank.Put(pieces(pb, ticket, share, tensors))
        for event in coordinator.Attend(pb.AttendRequest(job_id=ticket.job_id)):
            if event.HasField("finished"):
                print(f"{event.finished.workers} workers, {event.finished.strategy}, {event.finished.run_us / 1e6:.3f} s",
                      file=sys.stderr)
        o = np.empty(q.shape, dtype="<f4")
        job = pb.JobRef(job_id=ticket.job_id, token=ticket.token, epoch=ticket.epoch)
        for share, rank in zip(ticket.ranks, ranks):
            for run in share.q_rows:
                for piece in rank.Get(pb.GetRequest(job=job, tensor=pb.O, first_row=run.begin, rows=run.end - run.begin)):
                    rows = np.frombuffer(piece.data, dtype="<f4").reshape(-1, *q.shape[1:])
                    o[piece.first_row : piece.first_row + len(rows)] = rows
        return o
    finally:
        coordinator.Close(pb.CloseAttentionRequest(job_id=ticket.job_id))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coordinator", default="127.0.0.1:7070")
    parser.add_argument("--tokens", type=int, default=3000, help="of the random tensors")
    for name in "qkv":
        parser.add_argument(f"--{name}", help="a .npy file [tokens, heads, head_dim]")
    parser.add_argument("--full", action="store_true", help="not causal")
    parser.add_argument("--out", help="write O here, .npy")
    o = parser.parse_args()
    given = {name: getattr(o, name) for name in "qkv" if getattr(o, name) is not None}
    if given:
        missing = [f"--{name}" for name in "qkv" if name not in given]
        if missing:
            parser.error(f"{', '.join(f'--{name}' for name in given)} without {', '.join(missing)}: give all three or none")
        q, k, v = (load(parser, name, path) for name, path in given.items())
        if k.shape != v.shape or q.shape[2] != k.shape[2]:
            parser.error(f"shapes do not fit: q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}; k and v have one shape, "
                         "and all three the same head_dim")
    else:
        if o.tokens < 1:
            parser.error(f"--tokens: {o.tokens}, 1 or more are needed")
        random = np.random.default_rng(1)
        q = random.standard_normal((o.tokens, 8, 64), dtype=np.float32)
        k, v = (random.standard_normal((o.tokens, 2, 64), dtype=np.float32) for _ in range(2))
    out = attend(o.coordinator, q, k, v, causal=not o.full)
    if o.out:
        np.save(o.out, out)
    print(hashlib.sha256(out.tobytes()).hexdigest())


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
