#!/usr/bin/env python3
"""A step of data-parallel training: LibTorch with our DistributedDataParallel next to PyTorch's over gloo, turn by turn.

    bench/ddp_bench.py [--ranks=2,4] [--turns=5] [--steps=10] [--python=/usr/bin/python3] [--build=build] [--batch=32] [--device=cpu]
                       [--rate=5gbit] [--layers=5] [--bucket-mb=25]

25.2 million parameters in 5, 20 or 80 layers, batch 32 a rank, one thread a rank. With --device=cuda the ranks share the first GPU, and
the gradients are reduced over gloo on both sides: there the processors are free while the GPU computes. With --rate each rank is on a
host of its own (network namespaces, as root), whose link sends no faster: there the processors are free while the link sends. Printed
are medians over the turns: a step, a step that reduces nothing, the reductions alone, what they add to a step, and our step by
Python's. Build with -DDLAUNCH_BENCH=ON and LibTorch: that of the Python, or the products take other times.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def width_of(layers):
    """As in ddp_ranks.cpp."""
    return math.isqrt(2240 * 2240 * 5 // layers)


def run_as_rank(chosen):
    import torch  # only here: the Python that drives may have none
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    width = width_of(chosen.layers)
    net = nn.Sequential(*(layer for _ in range(chosen.layers) for layer in (nn.Linear(width, width), nn.ReLU()))).to(chosen.device)
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=chosen.bucket_mb)
    data = torch.randn(chosen.batch, width).to(chosen.device)
    gradients = [torch.zeros_like(parameter) for parameter in net.parameters()]

    def step():
        model.zero_grad()
        model(data).mean().backward()

    def step_without():
        with model.no_sync():
            step()

    def reductions():
        for gradient in gradients:
            dist.all_reduce(gradient)

    def milliseconds(call):
        dist.barrier()
        begin = time.perf_counter()
        call()
        if data.is_cuda:
            torch.cuda.synchronize()
        length = torch.tensor([1e3 * (time.perf_counter() - begin)], dtype=torch.float64)
        dist.all_reduce(length, dist.ReduceOp.MAX)
        return length.item()

    for _ in range(3):
        step()
    times = [[milliseconds(call) for call in (step, step_without, reductions)] for _ in range(chosen.worker)]
    if dist.get_rank() == 0:
        print(*(f"{statistics.median(column):.3f}" for column in zip(*times)))
    dist.destroy_process_group()


class Machine:
    """Starts the ranks on this host."""

    def __init__(self, programs):
        self.launcher = os.path.join(programs, "dlaunch")

    def close(self):
        pass

    def run(self, ranks, *command):
        return times_in(subprocess.run([self.launcher, f"--nproc-per-node={ranks}", *command], stdout=subprocess.PIPE, text=True,
                                       check=True).stdout)


class Links(Machine):
    """Starts each rank on a host of its own."""

    def __init__(self, programs, rate):
        super().__init__(programs)
        self.rate = rate
        self.hosts = None
        self.port = 20000

    def run(self, ranks, *command):
        self.use(ranks)
        self.port += 1
        nodes = [subprocess.Popen([*self.hosts.on(i), self.launcher, f"--nnodes={ranks}", f"--node-rank={i}", "--nproc-per-node=1",
                                   f"--master-addr={self.hosts.addresses[0]}", f"--master-port={self.port}", *command],
                                  stdout=subprocess.PIPE, text=True, env=os.environ | {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"})
                 for i in range(ranks)]
        shown = [node.communicate()[0] for node in nodes]
        if failed := [node.returncode for node in nodes if node.returncode != 0]:
            sys.exit(f"a node ended with {failed[0]}")
        return times_in(shown[0])

    def use(self, ranks):
        if self.hosts and len(self.hosts.names) == ranks:
            return
        sys.path.insert(0, os.path.join(HERE, "..", "tests", "process"))
        from hosts import Hosts
        from hosts_bench import Test, slow_down

        self.close()
        self.test = Test()
        self.hosts = Hosts(self.test, ranks)
        slow_down(self.hosts, self.rate, 0)

    def close(self):
        if self.hosts:
            self.test.doCleanups()


def times_in(shown):
    lines = [line.rsplit("]: ", 1)[-1] for line in shown.splitlines()]  # PyTorch 2.9's gloo writes lines before it
    return [float(number) for number in lines[-1].split()]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", default="2,4")
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--python", default="/usr/bin/python3")
    options.add_argument("--build", default=os.path.join(HERE, "../build"))
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--rate")
    options.add_argument("--layers", type=int, choices=(5, 20, 80), default=5)
    options.add_argument("--bucket-mb", type=int, default=25)
    options.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.worker:
        return run_as_rank(chosen)
    programs = os.path.join(chosen.build, "bin")
    program = os.path.join(programs, "ddp_ranks")
    form = (str(chosen.batch), chosen.device, str(chosen.layers), str(chosen.bucket_mb))
    machine = Links(programs, chosen.rate) if chosen.rate else Machine(programs)
    try:
        compare(chosen, machine, program, form)
    finally:
        machine.close()
    return 0


def compare(chosen, machine, program, form):
    for ranks in (int(number) for number in chosen.ranks.split(",")):
        sides = {
            "dlaunch, views": lambda: machine.run(ranks, program, str(chosen.steps), "views", *form),
            "dlaunch, copies": lambda: machine.run(ranks, program, str(chosen.steps), "copies", *form),
            "PyTorch, gloo": lambda: machine.run(ranks, chosen.python, os.path.abspath(__file__), f"--worker={chosen.steps}",
                                                 f"--batch={chosen.batch}", f"--device={chosen.device}", f"--layers={chosen.layers}",
                                                 f"--bucket-mb={chosen.bucket_mb}"),
        }
        times = {side: [] for side in sides}
        for _ in range(chosen.turns):
            for side, turn in sides.items():
                times[side].append(turn())
        print(f"{ranks} ranks            step ms   without   alone   adds  of alone  by PyTorch's")
        peer = statistics.median(step for step, _, _ in times["PyTorch, gloo"])
        for side, turns in times.items():
            step, without, alone = (statistics.median(column) for column in zip(*turns))
            adds = step - without
            print(f"{side:18} {step:9.1f} {without:9.1f} {alone:7.1f} {adds:6.1f} {adds / alone:9.2f} {step / peer:13.2f}")


if __name__ == "__main__":
    sys.exit(main())
