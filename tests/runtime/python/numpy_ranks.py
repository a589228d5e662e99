"""A rank of numpy_test.py. The expected values are numpy's own."""

import os
import sys

import numpy

import dlaunch.numpy as dist

try:
    import ml_dtypes
except ImportError:  # Debian has no package of it
    ml_dtypes = None


def values(rank, count, dtype):
    return ((numpy.arange(count) * 7 + rank * 3) % 5 + 1).astype(dtype)


def same(name, have, want):
    assert have.dtype == want.dtype and numpy.array_equal(have, want), (name, have, want)


def reductions(rank, size):
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128"):
        for count in (0, 1, 1000):
            every = numpy.stack([values(i, count * size, dtype) for i in range(size)])
            part = every[:, :count]
            total = part[rank].copy()
            dist.all_reduce(total)
            same("all_reduce", total, part.sum(0).astype(dtype))
            total = part[rank].copy()
            op, want = (dist.SUM, part.sum(0)) if dtype.startswith("complex") else (dist.PRODUCT, part.prod(0))
            work = dist.all_reduce(total, op, async_op=True)
            work.wait()
            assert work.is_completed()
            same("product", total, want.astype(dtype))
            total = part[rank].copy()
            dist.reduce(total, dst=size - 1)
            if rank == size - 1:
                same("reduce", total, part.sum(0).astype(dtype))
            output = numpy.zeros(count, dtype)
            dist.reduce_scatter(output, every[rank])
            same("reduce_scatter", output, every.sum(0).astype(dtype)[rank * count:(rank + 1) * count])


def narrow_reductions(rank, size):
    """Types that NumPy itself does not have; sums that none of them rounds."""
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        every = [values(i, 1000, "int64") % 2 for i in range(size)]
        for op, want in ((dist.SUM, numpy.sum(every, 0)), (dist.MAX, numpy.max(every, 0))):
            total = every[rank].astype(dtype)
            dist.all_reduce(total, op)
            same(f"all_reduce {op}", total, want.astype(dtype))


def movements(rank, size):
    for dtype in ("bool", "float16", "float64", "uint64", "datetime64[s]", "S3"):
        own = values(rank, 6, "int64").astype(dtype).reshape(2, 3)
        every = [values(i, 6, "int64").astype(dtype).reshape(2, 3) for i in range(size)]
        array = own.copy()
        dist.broadcast(array, src=size - 1)
        same("broadcast", array, every[-1])
        gathered = numpy.zeros((size, 2, 3), dtype)
        dist.all_gather(gathered, own)
        same("all_gather", gathered, numpy.stack(every))
        outputs = [numpy.zeros_like(own) for _ in range(size)] if rank == 0 else None
        dist.gather(outputs, own, dst=0)
        for output, want in zip(outputs or (), every):
            same("gather", output, want)
        output = numpy.zeros_like(own)
        dist.scatter(output, every if rank == 0 else None, src=0)
        same("scatter", output, own)
        outputs = [numpy.zeros_like(own) for _ in range(size)]
        dist.all_to_all(outputs, [own] * size)
        for output, want in zip(outputs, every):
            same("all_to_all", output, want)
        received = numpy.zeros_like(own)
        sent = dist.send(own, (rank + 1) % size, tag=4, async_op=True)
        assert dist.recv(received, (rank - 1) % size, tag=4) == (rank - 1) % size
        sent.wait()
        same("message", received, every[(rank - 1) % size])


def groups(rank, size):
    last = dist.new_group([size - 2, size - 1])
    assert (last is None) == (rank < size - 2)
    if last is not None:
        total = numpy.array([rank])
        dist.all_reduce(total, group=last)
        assert total[0] == 2 * size - 3 and dist.get_world_size(last) == 2 and dist.get_rank(last) == rank - size + 2


def rejected(kind, words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"nothing was raised about {words}")


def bad_input():
    rejected(ValueError, "is not contiguous", dist.all_reduce, numpy.ones((4, 4))[:, 1])
    rejected(TypeError, "list is not a numpy array", dist.all_reduce, [1, 2])
    rejected(TypeError, "uint16 cannot be reduced", dist.all_reduce, numpy.ones(2, "uint16"), dist.MAX)
    if ml_dtypes:
        rejected(dist.DistError, "bitwise operations need integers", dist.all_reduce, numpy.ones(2, ml_dtypes.float8_e5m2), dist.BAND)
    rejected(TypeError, "datetime64[s] cannot be reduced", dist.all_reduce, numpy.zeros(2, "datetime64[s]"))
    fixed = numpy.ones(3)
    fixed.flags.writeable = False
    rejected(ValueError, "read-only", dist.broadcast, fixed, 0)
    rejected(dist.DistError, "rank and world_size belong together", dist.init_process_group, rank=1)


def calls():
    dist.init_process_group(timeout=60)
    rank, size = dist.get_rank(), dist.get_world_size()
    bad_input()
    reductions(rank, size)
    if ml_dtypes:
        narrow_reductions(rank, size)
    movements(rank, size)
    groups(rank, size)
    for _ in range(50):  # nobody holds the Work or the array
        dist.all_reduce(numpy.ones(100_000), async_op=True)
    dist.barrier()
    dist.destroy_process_group()
    print("called", flush=True)


def missing():
    """The last rank does not come: the others name it."""
    dist.init_process_group(timeout=60)
    try:
        if dist.get_rank() == dist.get_world_size() - 1:
            dist.recv(numpy.ones(3), src=0)
        dist.all_reduce(numpy.ones(3), timeout=0.3)
    except dist.DistNetworkError as error:
        print(f"rank {dist.get_rank()}, peer {error.peer}: {error}", flush=True)
    os._exit(0)


{"calls": calls, "missing": missing}[sys.argv[1]]()
