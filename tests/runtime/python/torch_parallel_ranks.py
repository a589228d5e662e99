"""A rank of torch_parallel_test.py: PyTorch's ways to train in parallel, with backend gloo and then with dlaunch.

    torch_parallel_ranks.py SCENARIO FOLDER
"""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

STEPS = 4


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(16, 60), nn.Tanh(), nn.Linear(60, 48), nn.Tanh(), nn.Linear(48, 8))


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(8, 16, generator=generator), torch.randn(8, 8, generator=generator)


def train(module, optimizer, steps=STEPS):
    losses = []
    for step in range(steps):
        inputs, targets = batch(step, dist.get_rank())
        loss = nn.functional.mse_loss(module(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def everywhere(tensors):
    """Those of a replica: they must be equal on all ranks, bit by bit."""
    flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
    all_of_them = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, flat)
    assert all(torch.equal(flat, other) for other in all_of_them)
    return [flat]


def sharded():
    from torch.distributed.fsdp import fully_shard

    made = model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in made:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(made, mesh=mesh)


def full(module):
    return [parameter.full_tensor().detach() for parameter in module.parameters()]


def fsdp2(_folder):
    made = sharded()
    losses = train(made, torch.optim.Adam(made.parameters(), lr=0.01))
    return losses + everywhere(full(made))


def dtensor(_folder):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    whole = torch.randn(6, 4 * size + 1, generator=torch.Generator().manual_seed(3))
    rows, columns = distribute_tensor(whole, mesh, [Shard(0)]), distribute_tensor(whole, mesh, [Shard(1)])
    results = [rows.full_tensor(), columns.redistribute(mesh, [Shard(0)]).to_local(), rows.redistribute(mesh, [Replicate()]).to_local()]
    assert torch.equal(results[0], whole) and torch.equal(results[2], whole)
    parts = DTensor.from_local(whole + dist.get_rank(), mesh, [Partial()])
    results += [parts.redistribute(mesh, [Shard(1)]).to_local(), parts.full_tensor(), (rows @ columns.T).full_tensor(), rows.sum().full_tensor()]
    made = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    output = made(batch(0, 0)[0])
    output.pow(2).mean().backward()
    gradients = [parameter.grad.full_tensor() if isinstance(parameter.grad, DTensor) else parameter.grad for parameter in made.parameters()]
    return results + [output] + everywhere(gradients)


def checkpoint(folder):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    made = sharded()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    train(made, optimizer)
    weights, moments = get_state_dict(made, optimizer)
    folder = os.path.join(folder, dist.get_backend())
    dcp.save({"weights": weights, "moments": moments}, checkpoint_id=folder)
    other = sharded()
    fresh = torch.optim.Adam(other.parameters(), lr=0.01)
    weights, moments = get_state_dict(other, fresh)
    state = {"weights": weights, "moments": moments}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(other, fresh, model_state_dict=state["weights"], optim_state_dict=state["moments"])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(full(made), full(other)))
    return train(other, fresh) + everywhere(full(other))


def stage_of(rank):
    torch.manual_seed(rank)
    return nn.Sequential(nn.Linear(16, 16), nn.Tanh())


def pipeline_data():
    """Inputs and targets."""
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(5)), torch.ones(8, 16)


def pipelining(_folder):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    rank, size = dist.get_rank(), dist.get_world_size()
    results = []
    for schedule_class in (ScheduleGPipe, Schedule1F1B):
        part = stage_of(rank)
        stage = PipelineStage(part, rank, size, torch.device("cpu"))
        losses = []
        schedule = schedule_class(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        inputs, targets = pipeline_data()
        optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
        for _ in range(STEPS):
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(inputs)
            elif rank == size - 1:
                schedule.step(target=targets, losses=losses)
            else:
                schedule.step()
            optimizer.step()
        results += [loss.detach() for loss in losses] + [parameter.detach().clone() for parameter in part.parameters()]
    return results


def one_after_the_other(rank, size):
    """What pipelining() returns, of one process that has all stages."""
    stages = nn.Sequential(*(stage_of(each) for each in range(size)))
    optimizer = torch.optim.SGD(stages.parameters(), lr=0.1)
    inputs, targets = pipeline_data()
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses = [nn.functional.mse_loss(stages(part), target) for part, target in zip(inputs.chunk(4), targets.chunk(4))]
        (sum(losses) / len(losses)).backward()
        optimizer.step()
    results = [loss.detach() for loss in losses if rank == size - 1] + [parameter.detach() for parameter in stages[rank].parameters()]
    return results * 2  # each schedule gives the same


def join(_folder):
    """Rank r has r batches more than rank 0."""
    from torch.distributed.algorithms.join import Join

    made = nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.SGD(made.parameters(), lr=0.05)
    with Join([made]):
        losses = train(made, optimizer, STEPS + dist.get_rank())
    return losses + everywhere(made.parameters())


def zero(_folder):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    made = nn.parallel.DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(made.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    losses = train(made, optimizer)
    optimizer.consolidate_state_dict(to=0)
    results = losses + everywhere(made.parameters())
    if dist.get_rank() == 0:
        state = optimizer.state_dict()["state"]
        results += [state[number]["exp_avg"] for number in sorted(state)]
    return results


def main(name, folder):
    scenario = {each.__name__: each for each in (fsdp2, dtensor, checkpoint, pipelining, join, zero)}[name]
    results = {}
    for backend in ("gloo", "dlaunch"):
        dist.init_process_group(backend, timeout=timedelta(seconds=60))
        results[backend] = scenario(folder)
        rank, size = dist.get_rank(), dist.get_world_size()
        dist.destroy_process_group()
    if scenario is pipelining:
        alone = one_after_the_other(rank, size)
        assert len(alone) == len(results["dlaunch"])
        for ours, theirs in zip(results["dlaunch"], alone):
            torch.testing.assert_close(ours, theirs)
    assert len(results["gloo"]) == len(results["dlaunch"]) > 0
    for ours, theirs in zip(results["dlaunch"], results["gloo"]):
        torch.testing.assert_close(ours, theirs)
    equal = sum(torch.equal(ours, theirs) for ours, theirs in zip(results["dlaunch"], results["gloo"]))
    print(f"rank {rank}: {name} as with gloo, {equal} of {len(results['gloo'])} bit by bit", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
