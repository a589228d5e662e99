#!/usr/bin/env python3
"""What the backend mpi costs over the bare MPI call: both programs under the same mpirun, in one run.

    mpi_bench.py [--ranks=2] [--runs=5] [--operation=all] [--smallest=4] [--largest=4194304] [--factor=32] [--seconds=0.1]

For each MPI that is there: the median of each cell in microseconds, bare (blocking), bare in a program that asks for
MPI_THREAD_MULTIPLE, as the backend does, bare and non-blocking, and through the backend; and what the backend adds to the bare
call: marked with * if that is over the goal of at most 0.3 us and 2 %, with ** if it is so over the call with threads, too.
"""

import os
import statistics
import tempfile

from host_bench import BUILD, commands, measure, parser


def main():
    options = parser(largest=4 << 20, factor=32, seconds=0.1).parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other, \
            tempfile.TemporaryDirectory() as third:
        begun = commands(options.ranks, other, ["-DNON_BLOCKING"])
        threads = commands(options.ranks, third, ["-DSEVERAL_THREADS"])
        for name, command in commands(options.ranks, folder).items():
            if name == "dlaunch":
                continue
            sides = {"bare": (command, {}), "with threads": (threads[name], {}), "non-blocking": (begun[name], {}),
                     "backend": ([*command[:-1], os.path.join(BUILD, "bin/host_dlaunch")], {"HOST_BENCH_BACKEND": "mpi"})}
            times = measure(sides, options)
            print(f"{name}, {options.ranks} ranks, medians of {options.runs} runs, microseconds")
            print(f"{'operation':15}{'bytes':>10}" + "".join(f"{side:>14}" for side in sides) + f"{'adds':>12}{'ratio':>8}")
            for cell in times["bare"]:
                medians = [statistics.median(times[side][cell]) for side in sides]
                print(f"{cell[0]:15}{cell[1]:>10}" + "".join(f"{median:14.2f}" for median in medians)
                      + f"{medians[-1] - medians[0]:12.2f}{medians[-1] / medians[0]:8.2f}"
                      + "  " + "*" * sum(medians[-1] > 1.02 * median + 0.3 for median in medians[:2]))


if __name__ == "__main__":
    main()
