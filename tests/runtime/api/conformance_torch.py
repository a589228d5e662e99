#!/usr/bin/env python3
"""The other side of the conformance test: the same cells as conformance_ranks.cpp on PyTorch's gloo.

    conformance_torch.py DIRECTORY WORLD_SIZE

TAKES says which cells there are; a call of one of them that fails is an error.
"""

import functools
import mmap
import os
import signal
import sys
import warnings

import torch
import torch.distributed as dist

SHORT_COUNTS = [0, 1, 7, 1000, 8193]
FEWER_COUNTS = [0, 7, 1000]
LONG_COUNT, LONGEST_COUNT, FEW_RANKS = 300007, 1000003, 3

WHOLE = ("int8", "uint8", "int32", "int64")
REAL = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REST = ("int16", "bool", "bfloat16")
SELDOM_USED, MUCH_USED = ("int16", "bool", "bfloat16", "complex128"), ("float32", "int64")

OPERATIONS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
              "max": dist.ReduceOp.MAX, "band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR,
              "bxor": dist.ReduceOp.BXOR}

# The dtypes with which the gloo of PyTorch 1.13 takes each call, found out by trying all twelve with every call
# and operation. What is not here raises (on all ranks, before anything is sent) or, as messages of a rank to itself
# do, ends the process. It has neither the operation avg nor all_gather_into_tensor, all_to_all, reduce_scatter and
# reduce_scatter_tensor: what these have to give is made of the calls that it has.
TAKES = {
    "all_reduce/sum": WHOLE + REAL + COMPLEX,
    "all_reduce/product": WHOLE + REAL,
    "all_reduce/min": WHOLE + REAL,
    "all_reduce/max": WHOLE + REAL,
    "all_reduce/band": WHOLE,
    "all_reduce/bor": WHOLE,
    "all_reduce/bxor": WHOLE,
    "all_reduce/sum-of-thirds": REAL + COMPLEX,  # as sum
    "all_reduce_coalesced/sum": WHOLE + REAL + COMPLEX,
    "all_reduce_coalesced/product": WHOLE + REAL,
    "all_reduce_coalesced/min": WHOLE + REAL,
    "all_reduce_coalesced/max": WHOLE + REAL,
    "all_reduce_coalesced/band": WHOLE,
    "all_reduce_coalesced/bor": WHOLE,
    "all_reduce_coalesced/bxor": WHOLE,
    "reduce/sum": WHOLE + REAL,
    "reduce/product": WHOLE + REAL,
    "reduce/min": WHOLE + REAL,
    "reduce/max": WHOLE + REAL,
    "reduce/band": WHOLE,
    "reduce/bor": WHOLE,
    "reduce/bxor": WHOLE,
    "broadcast": WHOLE + REAL,
    "gather": WHOLE + REAL,
    "scatter": WHOLE + REAL + COMPLEX,
    "all_gather": WHOLE + REAL + COMPLEX,
    "all_gather_coalesced": WHOLE + REAL + COMPLEX,
    "all_to_all_single": WHOLE + REAL + COMPLEX,
    "all_to_all_single/splits": WHOLE + REAL + COMPLEX,
    "isend/recv": WHOLE + REAL + COMPLEX + REST,
    "send/recv": WHOLE + REAL + COMPLEX + REST,
    "recv/any": WHOLE + REAL + COMPLEX + REST,
    "batch_isend_irecv": WHOLE + REAL + COMPLEX + REST,
}
MADE_OF = {"all_gather_into_tensor": "all_gather", "all_to_all": "all_to_all_single",
           **{f"{call}/{operation}": f"all_reduce/{operation}"
              for call in ("reduce_scatter", "reduce_scatter_tensor") for operation in OPERATIONS}}
TAKES.update({call: TAKES[made_of] for call, made_of in MADE_OF.items()})
# Of no elements these divide by zero, or raise.
NEVER_EMPTY = ("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "recv/any")


@functools.lru_cache(maxsize=8)
def kept_values(name, rank, count, thirds):
    dtype = getattr(torch, name)
    if dtype.is_complex:
        part = "float32" if name == "complex64" else "float64"
        return torch.complex(kept_values(part, rank, count, thirds), kept_values(part, rank + 3, count, thirds))
    number = (torch.arange(count, dtype=torch.int64) * 7 + rank * 13) % 23
    if dtype.is_floating_point:
        real = number.to(torch.float64)
        return (real / 3.0 if thirds else real * 0.5 - 5).to(dtype)
    if dtype == torch.bool:
        return number % 2 == 1
    return (number if dtype == torch.uint8 else number - 11).to(dtype)


def values_of(name, rank, count, thirds=False):
    return kept_values(name, rank, count, thirds).clone()


class Rank:
    """One rank, its file of results, and the cell it is in, which its parent sees."""

    def __init__(self, rank, size, file, cell):
        self.rank, self.size, self.file, self.cell = rank, size, file, cell

    def start(self, cell):
        self.cell[:] = cell.encode().ljust(len(self.cell))

    def record(self, cell, data):
        self.file.write(f"{cell}\n{len(data)}\n".encode())
        self.file.write(data)


class Cells:
    """Those of one dtype and length."""

    def __init__(self, me, name, count):
        self.me, self.name, self.count = me, name, count
        self.rank, self.size = me.rank, me.size
        self.next, self.previous = (me.rank + 1) % me.size, (me.rank - 1) % me.size

    def values(self, rank=None, count=None, thirds=False):
        return values_of(self.name, self.rank if rank is None else rank, self.count if count is None else count, thirds)

    def own_second(self):
        return self.values(self.rank + self.size, 2 * self.count)

    def zeros(self, count=None):
        return torch.zeros(self.count if count is None else count, dtype=getattr(torch, self.name))

    def parts(self):
        return [self.zeros() for _ in range(self.size)]

    def cell(self, call, run, mine=True):
        """`run` returns what this rank has then; not `mine`: that is nobody's business."""
        if self.name not in TAKES[call] or (self.count == 0 and call in NEVER_EMPTY):
            return
        cell = f"{call} {self.name} {self.count}"
        self.me.start(cell)
        result = run()
        if mine:
            if result.dtype == torch.bfloat16:  # which NumPy does not have
                result = result.view(torch.int16)
            self.me.record(cell, result.contiguous().numpy().tobytes())

    def main_collectives(self):
        for operation, op in OPERATIONS.items():
            self.cell(f"all_reduce/{operation}", lambda op=op: self.all_reduce(self.values(), op))
        self.cell("all_reduce/sum-of-thirds", lambda: self.all_reduce(self.values(thirds=True), dist.ReduceOp.SUM))
        self.reduce("sum")
        self.cell("broadcast", self.broadcast)
        self.cell("all_gather", self.all_gather)
        self.cell("gather", self.gather, mine=self.rank == 0)
        self.cell("scatter", self.scatter)
        self.cell("all_to_all_single", self.all_to_all)

    def other_collectives(self):
        for operation, op in OPERATIONS.items():
            if operation != "sum":
                self.reduce(operation)
            self.cell(f"all_reduce_coalesced/{operation}", lambda op=op: self.all_reduce_coalesced(op))
            for call in ("reduce_scatter", "reduce_scatter_tensor"):
                self.cell(f"{call}/{operation}", lambda op=op: self.reduce_scatter(op))
        self.cell("all_gather_into_tensor", self.all_gather)
        self.cell("all_gather_coalesced", self.all_gather_coalesced)
        self.cell("all_to_all", self.all_to_all)
        self.cell("all_to_all_single/splits", self.all_to_all_with_splits)

    def main_messages(self):
        self.cell("isend/recv", lambda: self.isend_recv(self.previous))

    def other_messages(self):
        self.cell("send/recv", self.send_recv)
        self.cell("recv/any", lambda: self.isend_recv(None))
        self.cell("batch_isend_irecv", self.batch)

    def all_reduce(self, values, op):
        dist.all_reduce(values, op)
        return values

    def all_reduce_coalesced(self, op):
        tensors = [self.values(), self.own_second()]
        dist.all_reduce_coalesced(tensors, op)
        return torch.cat(tensors)

    def reduce(self, operation):
        def run():
            values = self.values()
            dist.reduce(values, self.size - 1, OPERATIONS[operation])
            return values

        self.cell(f"reduce/{operation}", run, mine=self.rank == self.size - 1)

    def reduce_scatter(self, op):
        return self.all_reduce(self.values(count=self.size * self.count), op).chunk(self.size)[self.rank]

    def broadcast(self):
        values = self.values()
        dist.broadcast(values, self.size // 2)
        return values

    def all_gather(self):
        parts = self.parts()
        dist.all_gather(parts, self.values())
        return torch.cat(parts)

    def all_gather_coalesced(self):
        parts = [[self.zeros(), self.zeros(2 * self.count)] for _ in range(self.size)]
        dist.all_gather_coalesced(parts, [self.values(), self.own_second()])
        return torch.cat([part[0] for part in parts] + [part[1] for part in parts])

    def gather(self):
        parts = self.parts() if self.rank == 0 else None
        dist.gather(self.values(), parts, 0)
        return torch.cat(parts) if parts else None

    def scatter(self):
        scattered = self.zeros()
        parts = [self.values(rank) for rank in range(self.size)] if self.rank == 0 else None
        dist.scatter(scattered, parts, 0)
        return scattered

    def all_to_all(self):
        turned = self.zeros(self.size * self.count)
        dist.all_to_all_single(turned, self.values(count=self.size * self.count))
        return turned

    def all_to_all_with_splits(self):
        def split(source, destination):
            return self.count * ((source + 2 * destination + 1) % 3)

        to = [split(self.rank, peer) for peer in range(self.size)]
        by = [split(peer, self.rank) for peer in range(self.size)]
        turned = self.zeros(sum(by))
        dist.all_to_all_single(turned, self.values(count=sum(to)), by, to)
        return turned

    def isend_recv(self, source):
        received = self.zeros()
        work = dist.isend(self.values(), self.next)
        dist.recv(received, source)
        work.wait()
        return received

    def send_recv(self):
        received = self.zeros()
        sends_first = self.rank % 2 == 0  # a send may wait for its receiver
        if sends_first:
            dist.send(self.values(), self.next)
        dist.recv(received, self.previous)
        if not sends_first:
            dist.send(self.values(), self.next)
        return received

    def batch(self):
        received = self.zeros()
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, self.values(), self.next),
                                            dist.P2POp(dist.irecv, received, self.previous)]):
            work.wait()
        return received


def run_tensors(me, name):
    few = me.size <= FEW_RANKS
    counts = SHORT_COUNTS + [LONG_COUNT] * (name in MUCH_USED or (few and name not in SELDOM_USED))
    for count in counts + [LONGEST_COUNT] * (name in MUCH_USED and few):
        cells = Cells(me, name, count)
        cells.main_collectives()
        if me.size > 1:
            cells.main_messages()
    for count in FEWER_COUNTS + [LONG_COUNT] * (few and name == "float32"):
        cells = Cells(me, name, count)
        cells.other_collectives()
        if me.size > 1:
            cells.other_messages()


def run_objects(me):
    for count in FEWER_COUNTS:
        def cell(call, collective, result, length=count):
            me.start(f"{call} bytes {length}")
            collective()
            if result:
                me.record(f"{call} bytes {length}", b"".join(result))

        own = values_of("uint8", me.rank, count + me.rank).numpy().tobytes()
        everything = [None] * me.size
        cell("all_gather_object", lambda: dist.all_gather_object(everything, own), everything)
        gathered = [None] * me.size if me.rank == 0 else None
        cell("gather_object", lambda: dist.gather_object(own, gathered, 0), gathered)
        objects = [own, own + own]
        cell("broadcast_object_list", lambda: dist.broadcast_object_list(objects, me.size // 2), objects)
        scattered = [None]
        cell("scatter_object_list", lambda: dist.scatter_object_list(scattered, everything, 0), scattered)


def be_rank(rank, size, directory, cell):
    with open(f"{directory}/rank{rank}", "wb") as file:
        me = Rank(rank, size, file, cell)
        me.start("init_process_group")
        dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=size)
        for name in WHOLE + REAL + COMPLEX + REST:
            run_tensors(me, name)
        run_objects(me)
    me.start("barrier")
    dist.barrier()


def main():
    directory, size = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".* will be deprecated")  # the coalesced calls; what failed is to be seen
    # Not over whatever network the name of this host leads to.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # Copies of this process, in which PyTorch is loaded already.
    cells = [mmap.mmap(-1, 100) for _ in range(size)]
    children = {}
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            try:
                be_rank(rank, size, directory, cells[rank])
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"conformance_torch: rank {rank} in {cells[rank][:].decode().strip()}: {error!r}", file=sys.stderr)
                os._exit(1)
        children[pid] = rank
    while children:
        pid, status = os.wait()
        rank, code = children.pop(pid), os.waitstatus_to_exitcode(status)
        if code != 0:
            for other in children:
                os.kill(other, signal.SIGKILL)
            sys.exit(f"conformance_torch: rank {rank} ended with {code} in {cells[rank][:].decode().strip()}")


if __name__ == "__main__":
    main()
