"""What train_small_net.cpp does, with PyTorch's DistributedDataParallel over gloo; with WORLD_SIZE=1 without it.

    dlaunch --nproc-per-node=2 python3 train_small_net.py STEPS
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.first = nn.Linear(4, hidden)
        self.extra = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 2)

    def forward(self, value):
        value = torch.tanh(self.first(value))
        value = value + torch.relu(self.extra(value))
        return self.last(value)


def numbers(shape, phase):
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(count, dtype=torch.float) * 1.7 + phase).reshape(shape)


def main():
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    net = Net(64)
    with torch.no_grad():
        for i, parameter in enumerate(net.parameters()):
            parameter.copy_(numbers(parameter.shape, 0.5 + i) * 0.1)
    model = net
    if ranks > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(int(sys.argv[1])):
        optimizer.zero_grad()
        data = numbers((64, 4), 100.0 * step).chunk(ranks)[rank]
        loss = model(data).pow(2).mean()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"{loss.item():.9g}")
    if rank == 0:
        for parameter in net.parameters():
            print(f"{parameter.detach().sum().item():.9g}")
    if ranks > 1:
        dist.destroy_process_group()


main()
# The end of the interpreter aborts one process of ten with PyTorch 2.15 ("terminate called without an active exception").
sys.stdout.flush()
os._exit(0)
