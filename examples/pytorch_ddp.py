#!/usr/bin/env python3
"""An ordinary PyTorch program: data-parallel training with DistributedDataParallel on the CPU.

    dlaunch --nproc-per-node=2 examples/pytorch_ddp.py
    torchrun --nproc-per-node=2 examples/pytorch_ddp.py

There is nothing of dlaunch in it. It fits a small network to a made-up function, shows the loss going down, and
checks at the end that all workers hold the same parameters, to the last bit.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 4
SAMPLES = 2048
BATCH_PER_WORKER = 32


def make_data():
    """Points of the plane and a smooth function of them; the same on every worker, since the seed is."""
    generator = torch.Generator().manual_seed(1)
    points = torch.rand(SAMPLES, 2, generator=generator) * 2 - 1
    values = torch.sin(3 * points[:, :1]) * points[:, 1:]
    return TensorDataset(points, values)


def train_epoch(model, loader, optimizer):
    """Returns the mean loss over this worker's samples."""
    total = 0.0
    for points, values in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(points), values)
        loss.backward()  # DistributedDataParallel averages the gradients over the workers here
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def mean_over_workers(value):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor)
    return tensor.div_(dist.get_world_size())


def parameters_of_all_workers(model):
    """One flat tensor for each worker."""
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    copies = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(copies, flat)
    return copies, flat


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)  # different on purpose: DistributedDataParallel starts everybody from rank 0's parameters
    network = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    data = make_data()
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=BATCH_PER_WORKER, sampler=sampler)

    losses = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        losses.append(mean_over_workers(train_epoch(model, loader, optimizer)))
        if rank == 0:
            print(f"epoch {epoch + 1}/{EPOCHS}: loss {losses[-1].item():.4f}", flush=True)

    copies, flat = parameters_of_all_workers(model)
    same = all(torch.equal(flat, copy) for copy in copies)
    first, last = losses[0].item(), losses[-1].item()

    # The group ends while `losses`, `copies` and `flat` still live. A thread of the group may hold a collective's
    # tensors a little longer than the collective takes; were it the last to let go, it would wait for the interpreter's
    # lock, and the main thread, which has the lock, for the thread: PyTorch 1.13 then hangs at its end, whoever
    # launched it.
    dist.destroy_process_group()
    del model  # it holds the group too
    if not same or last >= first:
        sys.exit(f"rank {rank}: " + ("the loss did not go down" if same else "the workers' parameters differ"))
    if rank == 0:
        print(f"world size {world_size}: same parameters everywhere, loss {first:.4f} -> {last:.4f}", flush=True)


if __name__ == "__main__":
    main()
