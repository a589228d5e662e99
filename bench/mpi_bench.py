#!/usr/bin/env python3
"""What the backend mpi costs over the bare MPI call: both programs under the same mpirun, in one run.

    mpi_bench.py [--ranks=2] [--runs=5] [--operation=all] [--smallest=4] [--largest=4194304] [--factor=32] [--seconds=0.1]

For each MPI that is there: the median of each cell in microseconds, bare (blocking), bare and non-blocking, as the backend must
call MPI to have deadlines, and through the backend; and what the backend adds to the non-blocking call.
"""

import argparse
import os
import statistics
import tempfile

from host_bench import BUILD, commands, run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--operation", default="all")
    parser.add_argument("--smallest", default="4")
    parser.add_argument("--largest", default=str(4 << 20))
    parser.add_argument("--factor", default="32")
    parser.add_argument("--seconds", default="0.1")
    options = parser.parse_args()
    arguments = [options.operation, options.smallest, options.largest, options.factor, options.seconds]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        begun = commands(options.ranks, other, ["-DNON_BLOCKING"])
        for name, command in commands(options.ranks, folder).items():
            if name == "dlaunch":
                continue
            sides = {"bare": (command, {}), "non-blocking": (begun[name], {}),
                     "backend": ([*command[:-1], os.path.join(BUILD, "bin/host_dlaunch")], {"HOST_BENCH_BACKEND": "mpi"})}
            times = {side: {} for side in sides}
            for _ in range(options.runs):
                for side, (program, environment) in sides.items():
                    for cell, time in run(program, arguments, environment).items():
                        times[side].setdefault(cell, []).append(time)
            print(f"{name}, {options.ranks} ranks, medians of {options.runs} runs, microseconds")
            print(f"{'operation':15}{'bytes':>10}" + "".join(f"{side:>14}" for side in sides) + f"{'adds':>12}{'ratio':>8}")
            for cell in times["bare"]:
                medians = [statistics.median(times[side][cell]) for side in sides]
                print(f"{cell[0]:15}{cell[1]:>10}" + "".join(f"{median:14.2f}" for median in medians)
                      + f"{medians[2] - medians[1]:12.2f}{medians[2] / medians[1]:8.2f}")


if __name__ == "__main__":
    main()
