#!/usr/bin/env python3
"""The other side of the conformance test: the same cases as conformance_ranks.cpp on PyTorch's gloo.

    conformance_torch.py DIRECTORY WORLD_SIZE

What PyTorch does not support is left out of the records: the comparison is of the cells that both have.
"""

import os
import sys

import torch
import torch.distributed as dist

SHORT_COUNTS = [0, 1, 7, 1000, 8193]
LONG_COUNT, LONGEST_COUNT, FEW_RANKS = 300007, 1000003, 3
DTYPES = {"int8": torch.int8, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64,
          "float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
ARITHMETIC = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
              "max": dist.ReduceOp.MAX}
BITWISE = {"band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR, "bxor": dist.ReduceOp.BXOR}


def values_of(dtype, rank, count, thirds=False):
    number = (torch.arange(count, dtype=torch.int64) * 7 + rank * 13) % 23
    if dtype.is_floating_point:
        real = number.to(torch.float64)
        return (real / 3.0 if thirds else real * 0.5 - 5).to(dtype)
    return (number if dtype == torch.uint8 else number - 11).to(dtype)


def run_cases(name, dtype, rank, size, record):
    much_used, few = name in ("float32", "int64"), size <= FEW_RANKS
    lengths = SHORT_COUNTS + [LONG_COUNT] * (much_used or few) + [LONGEST_COUNT] * (much_used and few)
    for count in lengths:
        def own(thirds=False, length=count):
            return values_of(dtype, rank, length, thirds)

        def case(call, run, mine=True, length=count):
            try:
                result = run()
            except (RuntimeError, ValueError, TypeError):
                return  # not supported: all ranks find so before anything is sent
            if mine:
                record(f"{call} {name} {length}", result)

        def in_place(collective, values):
            collective(values)
            return values

        operations = dict(ARITHMETIC)
        if not dtype.is_floating_point:
            operations.update(BITWISE)
        if count:  # PyTorch's gloo returns at once for nothing
            for operation, op in operations.items():
                case(f"all_reduce/{operation}", lambda op=op: in_place(lambda v: dist.all_reduce(v, op), own()))
            case("all_reduce/sum-of-thirds", lambda: in_place(dist.all_reduce, own(True)))
            case("reduce", lambda: in_place(lambda v: dist.reduce(v, size - 1), own()), rank == size - 1)
        case("broadcast", lambda: in_place(lambda v: dist.broadcast(v, size // 2), own()))
        if not count:
            continue
        parts = [torch.zeros(count, dtype=dtype) for _ in range(size)]
        dist.all_gather(parts, own())
        record(f"all_gather {name} {count}", torch.cat(parts))
        gathered = [torch.zeros(count, dtype=dtype) for _ in range(size)] if rank == 0 else None
        case("gather", lambda: (dist.gather(own(), gathered, 0), gathered)[1] and torch.cat(gathered), rank == 0)
        scattered = torch.zeros(count, dtype=dtype)
        case("scatter", lambda: (dist.scatter(scattered, parts if rank == 0 else None, 0), scattered)[1])
        table = own(length=size * count)
        turned = torch.zeros(size * count, dtype=dtype)
        case("all_to_all_single", lambda: (dist.all_to_all_single(turned, table), turned)[1])
        if size > 1:  # not to itself
            received = torch.zeros(count, dtype=dtype)
            work = dist.isend(own(), (rank + 1) % size)
            dist.recv(received, (rank + size - 1) % size)
            work.wait()
            record(f"send/recv {name} {count}", received)


def be_rank(rank, size, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=size)
    with open(f"{directory}/rank{rank}", "wb") as file:
        def record(name, tensor):
            data = tensor.contiguous().numpy().tobytes()
            file.write(f"{name}\n{len(data)}\n".encode())
            file.write(data)

        for name, dtype in DTYPES.items():
            run_cases(name, dtype, rank, size, record)
    dist.barrier()


def main():
    directory, size = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    # Copies of this process, in which PyTorch is loaded already.
    children = []
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            try:
                be_rank(rank, size, directory)
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"rank {rank}: {error!r}", file=sys.stderr)
                os._exit(1)
        children.append(pid)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children))


if __name__ == "__main__":
    main()
