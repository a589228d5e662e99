"""A rank of torch_test.py: what a PyTorch program does with backend dlaunch, beside gloo in the same process.

    torch_ranks.py compare | ddp | memory | killed | late | unfinished | observed | again FILE
"""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
WHOLE = (torch.int8, torch.uint8, torch.int32, torch.int64)
OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
BITS = {"band": dist.ReduceOp.BAND, "bor": dist.ReduceOp.BOR, "bxor": dist.ReduceOp.BXOR}
COUNTS = (0, 1, 7, 1000)
IS_NATIVE = bool(os.environ.get("EXPECTS_NATIVE"))  # the test has built the backend in C++
TAKES_ANY_BACKEND = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 14)


def values(rank, count, dtype):
    return ((torch.arange(count) * 7 + rank * 3) % 5 + 1).to(dtype)


def close(name, ours, theirs):
    for one, other in zip(ours, theirs):
        if dtype_is_exact(one.dtype):
            assert torch.equal(one, other), f"{name}: {one} and gloo's {other}"
        else:
            torch.testing.assert_close(one, other, msg=lambda text: f"{name}: {text}")


def dtype_is_exact(dtype):
    return not (dtype.is_floating_point or dtype.is_complex)


def reductions(group, rank, size, dtype, op, count):
    total = values(rank, count, dtype)
    dist.all_reduce(total, op, group=group)
    yield total
    total = values(rank, count, dtype)
    work = dist.all_reduce(total, op, group=group, async_op=True)
    assert work.wait() and work.is_completed()
    yield total
    root = values(rank, count, dtype)
    dist.reduce(root, size - 1, op, group=group)
    if rank == size - 1:
        yield root
    output = torch.zeros(count, dtype=dtype)
    dist.reduce_scatter(output, list(values(rank, count * size, dtype).chunk(size)) if count else [output.clone()] * size, op,
                        group=group)
    yield output
    several = [values(rank, count, dtype), values(rank, count + 3, dtype)]
    dist.all_reduce_coalesced(several, op, group=group)
    yield from several


def movements(group, rank, size, dtype, count):
    tensor = values(rank, count, dtype)
    dist.broadcast(tensor, size - 1, group=group)
    yield tensor
    parts = [torch.zeros(count, dtype=dtype) for _ in range(size)]
    dist.all_gather(parts, values(rank, count, dtype), group=group)
    yield from parts
    whole = torch.zeros(count * size, dtype=dtype)
    dist.all_gather_into_tensor(whole, values(rank, count, dtype), group=group)
    yield whole
    parts = [torch.zeros(count, dtype=dtype) for _ in range(size)]
    dist.gather(values(rank, count, dtype), parts if rank == 0 else None, dst=0, group=group)
    yield from parts
    output = torch.zeros(count, dtype=dtype)
    dist.scatter(output, [values(i, count, dtype) for i in range(size)] if rank == 0 else None, src=0, group=group)
    yield output
    exchanged = torch.zeros(count * size, dtype=dtype)
    dist.all_to_all_single(exchanged, values(rank, count * size, dtype), group=group)
    yield exchanged
    rows = torch.zeros(sum(i + 1 for i in range(size)), count, dtype=dtype)
    given = values(rank, size * (rank + 1) * count, dtype).view(size * (rank + 1), count)
    dist.all_to_all_single(rows, given, [i + 1 for i in range(size)], [rank + 1] * size, group=group)
    yield rows
    ring = torch.zeros(count, dtype=dtype)
    requests = [dist.isend(values(rank, count, dtype), (rank + 1) % size, group=group, tag=5),
                dist.irecv(ring, (rank - 1) % size, group=group, tag=5)]
    for request in requests:
        request.wait()
    yield ring
    ring = torch.zeros(count, dtype=dtype)
    batch = [dist.P2POp(dist.isend, values(rank, count, dtype), (rank + 1) % size, group),
             dist.P2POp(dist.irecv, ring, (rank - 1) % size, group)]
    for request in dist.batch_isend_irecv(batch):
        request.wait()
    yield ring


def objects(group, rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank}, group=group)
    listed = [f"from {rank}", rank]
    dist.broadcast_object_list(listed, src=1, group=group)
    received = [None]
    dist.scatter_object_list(received, [[i] for i in range(size)] if rank == 0 else None, src=0, group=group)
    return gathered, listed, received


def compare():
    """Each call of the default group gives what gloo's gives."""
    dist.init_process_group("dlaunch", timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    cells = 0
    for dtype in FLOATS + WHOLE:
        for count in COUNTS:
            for name, op in {**OPS, **(BITS if dtype in WHOLE else {})}.items():
                close(f"{name} {dtype} {count}", list(reductions(None, rank, size, dtype, op, count)),
                      list(reductions(gloo, rank, size, dtype, op, count)))
                cells += 1
    for dtype in FLOATS + WHOLE + (torch.bool,):
        for count in COUNTS[1:]:
            close(f"moved {dtype} {count}", list(movements(None, rank, size, dtype, count)),
                  list(movements(gloo, rank, size, dtype, count)))
            cells += 1
    assert objects(None, rank, size) == objects(gloo, rank, size)
    beyond_gloo(rank, size)
    groups(rank, size)
    dist.destroy_process_group()
    print(f"compared {cells}", flush=True)


def beyond_gloo(rank, size):
    """What gloo rejects: more dtypes, means, gaps, empty parts; and what it has besides."""
    for dtype in (torch.int16, torch.uint16, torch.uint64, torch.complex64):
        total = values(rank, 5, dtype)
        dist.all_reduce(total)
        want = sum(values(i, 5, torch.complex64 if dtype.is_complex else torch.int64) for i in range(size))
        assert torch.equal(total.to(want.dtype), want), (dtype, total)
    mean = values(rank, 9, torch.float32)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    torch.testing.assert_close(mean, sum(values(i, 9, torch.float32) for i in range(size)) / size)
    for dtype, greatest in ((torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)):
        eight_bit = values(rank, 6, torch.float32).to(dtype)
        dist.broadcast(eight_bit, 0)
        assert torch.equal(eight_bit.float(), values(0, 6, torch.float32))
        dist.all_reduce(eight_bit, dist.ReduceOp.MAX)
        assert torch.equal(eight_bit.float(), values(0, 6, torch.float32))
        total = torch.full((3,), greatest).to(dtype)
        dist.all_reduce(total)  # which saturates, as NCCL's
        assert torch.equal(total.float(), torch.full((3,), greatest)), total
    for async_op in (False, True):
        gaps = values(rank, 12, torch.float32).view(3, 4).t()
        work = dist.all_reduce(gaps, async_op=async_op)
        if async_op:
            assert torch.equal(work.get_future().wait()[0], gaps)
        assert torch.equal(gaps, sum(values(i, 12, torch.float32).view(3, 4).t() for i in range(size)))
    parts = [torch.zeros(4, 3).t() for _ in range(size)]
    dist.all_gather(parts, values(rank, 12, torch.float32).view(3, 4))
    assert all(torch.equal(parts[i], values(i, 12, torch.float32).view(3, 4)) for i in range(size))
    with torch.inference_mode():
        total = torch.ones(3)
        dist.all_reduce(total)
        assert total[0] == size
    sparse = torch.sparse_coo_tensor([[rank]], [float(rank + 1)], (size,))
    dist.all_reduce(sparse)
    assert torch.equal(sparse.to_dense(), torch.arange(1, size + 1).float())
    # Nobody holds the Work or the tensor: the operation's memory must live until its end.
    for _ in range(50):
        dist.all_reduce(torch.ones(100_000), async_op=True)
    dist.barrier()
    if rank == 0:
        received = torch.zeros(1)
        sources = sorted(dist.recv(received) for _ in range(size - 1))
        assert sources == list(range(1, size)), sources
    else:
        dist.send(torch.ones(1), 0)
    with dist._coalescing_manager() as together:
        first, second = torch.ones(3), torch.ones(4)
        dist.all_reduce(first)
        dist.all_reduce(second)
    assert first[0] == size and second[0] == size, together
    monitored_barrier(dist.group.WORLD, 30)


def monitored_barrier(group, seconds):
    # Before 2.14 the free function takes gloo's groups alone.
    if TAKES_ANY_BACKEND:
        dist.monitored_barrier(group, timedelta(seconds=seconds))
    else:
        group.monitored_barrier(timedelta(seconds=seconds))


def abilities():
    """What PyTorch asks of a backend before it calls it."""
    world = dist.group.WORLD
    for asked in (world, world._get_backend(torch.device("cpu"))) if TAKES_ANY_BACKEND else (world,):
        for name in dir(asked):
            if name.lstrip("_").startswith("supports_"):
                getattr(asked, name)


def groups(rank, size):
    abilities()
    last = dist.new_group([size - 2, size - 1])
    if rank >= size - 2:
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=last)
        assert total.item() == 2 * size - 3
        dist.broadcast(total, size - 1, group=last)
    if TAKES_ANY_BACKEND:  # before, a group is split if it has a GPU
        part = dist.split_group(split_ranks=[[0], list(range(1, size))])
        total = torch.ones(1)
        dist.all_reduce(total, group=part)
        assert total.item() == (1 if rank == 0 else size - 1)
    mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    total = torch.ones(1)
    dist.all_reduce(total, group=mesh.get_group("dp"))
    assert total.item() == size
    count = dist.group.WORLD._get_sequence_number_for_group()
    dist.barrier()
    assert dist.group.WORLD._get_sequence_number_for_group() == count + 1


def ddp():
    """The losses of data-parallel training equal gloo's, and the parameters are equal on all ranks."""
    dist.init_process_group("dlaunch", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    curves = []
    for backend in ("dlaunch", "gloo"):
        group = dist.new_group(backend=backend)
        torch.manual_seed(7)
        model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(rank)
        losses = []
        for _ in range(20):
            inputs = torch.randn(8, 20, generator=generator)
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
        flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        everywhere = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
        dist.all_gather(everywhere, flat, group=group)
        assert all(torch.equal(everywhere[0], other) for other in everywhere)
    torch.testing.assert_close(torch.tensor(curves[0]), torch.tensor(curves[1]))
    assert curves[0][-1] < curves[0][0]
    dist.destroy_process_group()
    print("losses agree", flush=True)


def memory():
    """Tensors that the ranks of the host read in place; FSDP2 asks for them."""
    import gc

    dist.init_process_group("dlaunch", timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    cpu = torch.device("cpu")
    if not (IS_NATIVE or TAKES_ANY_BACKEND):  # a group in Python has no backend that a program could ask for memory
        fails(lambda: dist.group.WORLD._get_backend(cpu), "No backend")
        dist.destroy_process_group()
        print("no backend", flush=True)
        return
    backend = dist.group.WORLD._get_backend(cpu)
    assert backend.supports_tensor_alloc(cpu) and not backend.supports_tensor_alloc(torch.device("cuda:0"))
    if not IS_NATIVE:
        assert not backend.supports_tensor_alloc(-1)  # PyTorch's C++ would need allocate_tensor() in C++
    tensor = backend.allocate_tensor(100_000, dtype=torch.float32, device=cpu)
    assert tensor.shape == (100_000,) and not tensor.any()
    tensor += rank + 1
    view = tensor[10:20]
    dist.all_reduce(tensor)
    assert (tensor == size * (size + 1) / 2).all()
    del tensor
    gc.collect()
    assert (view == size * (size + 1) / 2).all()  # still there
    assert backend.allocate_tensor(0, dtype=torch.int64, device=cpu).numel() == 0
    fails(lambda: backend.allocate_tensor(1, dtype=torch.int64, device=torch.device("meta")), "on the CPU")
    if TAKES_ANY_BACKEND:
        shards(backend)
    if IS_NATIVE:
        buckets()
    dist.destroy_process_group()
    print("in place", flush=True)


def mapping_of(address):
    """The file behind a place of this process's memory."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            bounds, *_, name = line.split(maxsplit=5)
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            if low <= address < high:
                return name.strip()
    return ""


def buckets():
    """Those of DistributedDataParallel are in the memory that the ranks of the host read in place."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    seen = []

    def hook(group, bucket):
        seen.append(mapping_of(bucket.buffer().data_ptr()))
        return allreduce_hook(group, bucket)

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(500, 500))
    model.register_comm_hook(dist.group.WORLD, hook)
    for _ in range(3):
        model(torch.ones(2, 500)).sum().backward()
    assert len(seen) >= 3 and all("memfd:" in name for name in seen), seen


def shards(backend):
    """Gradients of FSDP2 are the same with its buffers in such memory and elsewhere."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    asked = []
    if not IS_NATIVE:
        allocate = backend.allocate_tensor
        backend.allocate_tensor = lambda *arguments, **more: asked.append(arguments) or allocate(*arguments, **more)
    gradients = []
    for in_place in (False, True):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64))
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        model.set_allocate_memory_from_process_group_for_comm(in_place)
        inputs = torch.randn(8, 64, generator=torch.Generator().manual_seed(dist.get_rank()))
        model(inputs).pow(2).sum().backward()
        gradients.append([parameter.grad.to_local().clone() for parameter in model.parameters()])
        assert IS_NATIVE or bool(asked) == in_place
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)


def killed():
    """Rank 1 is killed: the others get a RuntimeError that names it, long before the timeout."""
    dist.init_process_group("dlaunch", timeout=timedelta(seconds=100))
    rank = dist.get_rank()
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        while True:
            dist.all_reduce(torch.ones(10))
    except RuntimeError as error:
        assert isinstance(error, dist.DistNetworkError) and "peer 1 on " in str(error), error
        print(f"rank {rank} after {time.monotonic() - began:.3f} s: {error}", flush=True)
    future = None
    try:
        future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
        future.wait()
    except RuntimeError as error:
        print(f"rank {rank} again: {error}", flush=True)
    world = dist.group.WORLD
    if TAKES_ANY_BACKEND or not IS_NATIVE:  # before, Python cannot ask a backend in C++
        asked = world._get_backend(torch.device("cpu")) if IS_NATIVE else world
        assert asked.get_error() != torch._C._distributed_c10d.ErrorType.SUCCESS
    print(f"rank {rank} has seen it", flush=True)
    os._exit(0)


def fails(call, *words):
    try:
        call()
    except RuntimeError as error:
        assert all(word in str(error) for word in words), (words, error)
        return
    raise AssertionError(f"no error with {words}")


def late():
    """A Work before and after its end; a wait with a limit of its own; a rank that does not come; abort()."""
    dist.init_process_group("dlaunch", timeout=timedelta(seconds=60))
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    unattended, aborted = dist.new_group(), dist.new_group()
    total = torch.ones(3)
    if rank == 1:
        store.wait(["the work was seen unfinished"])
    work = dist.all_reduce(total, async_op=True)
    if rank == 0:
        assert not work.is_completed()
        fails(lambda: work.wait(timedelta(milliseconds=50)), "50 ms")
        assert not work.is_completed()
        store.set("the work was seen unfinished", "1")
    assert work.wait() and work.is_completed() and total.tolist() == [2.0] * 3
    if rank == 0:
        fails(lambda: monitored_barrier(unattended, 1), "Rank 1 failed to pass monitoredBarrier in 1000 ms")
        dist.all_reduce(total, group=aborted, async_op=True)
        aborted.abort()
        fails(lambda: dist.all_reduce(total, group=aborted), "abort")
    else:
        # The first one may still find what rank 0 has sent.
        fails(lambda: [dist.all_reduce(total, group=aborted) for _ in range(2)], "rank 0", "abort")
    dist.barrier()  # the other groups work
    print("late", flush=True)
    dist.destroy_process_group()


def unfinished():
    """Rank 0 fails while an operation is under way: its process ends, although the operation does not."""
    dist.init_process_group("dlaunch", timeout=timedelta(seconds=60))
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        raise ValueError(f"an error of the program's, completed: {work.is_completed()}")
    dist.distributed_c10d._get_default_store().wait(["never"])


def observed():
    """The short way of the backend in C++ is not taken if something observes or replaces operations."""
    import torch.distributed._functional_collectives as functional
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.profiler import ProfilerActivity, profile

    dist.init_process_group("dlaunch", timeout=timedelta(seconds=60))
    size = dist.get_world_size()
    total = torch.ones(4)
    with CommDebugMode() as counted:
        dist.all_reduce(total)
    assert counted.get_total_counts() == 1 and total.tolist() == [size] * 4
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        dist.all_reduce(total)
        dist.barrier()
    assert {"c10d::allreduce_", "c10d::barrier"} <= {event.key for event in profiled.key_averages()}
    with FakeTensorMode():
        dist.all_reduce(torch.ones(4))  # of no memory: no rank may send it

    @torch.compile(backend="eager")
    def compiled(tensor):
        return functional.all_reduce(tensor, "sum", dist.group.WORLD) + 1

    assert compiled(torch.ones(3)).tolist() == [size + 1] * 3
    dist.destroy_process_group()
    print("observed", flush=True)


def again():
    """destroy_process_group and init_process_group once more, and a store that is not TCP's."""
    for _ in range(2):
        dist.init_process_group("dlaunch", timeout=timedelta(seconds=60))
        dist.barrier()
        dist.destroy_process_group()
    store = dist.FileStore(sys.argv[2], int(os.environ["WORLD_SIZE"]))
    dist.init_process_group("dlaunch", store=store, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == dist.get_world_size()
    dist.destroy_process_group()
    print("again", flush=True)


{"compare": compare, "ddp": ddp, "memory": memory, "killed": killed, "again": again, "late": late, "unfinished": unfinished, "observed": observed}[sys.argv[1]]()
