#!/usr/bin/env python3
"""What the backend mpi costs over the bare MPI call.

    mpi_bench.py [--ranks=2] [--runs=5] [--operation=all] [--smallest=4] [--largest=4194304] [--factor=32] [--seconds=0.1]

For each MPI that is there: the median of each cell in microseconds. One program makes both calls, in turn and on the same memory:
MPI's blocking one ("bare") and the backend's. Like the backend it has asked for MPI_THREAD_MULTIPLE. Two other programs, in the
same run and without threads, make the blocking calls alone, and non-blocking ones.

What the backend adds to the bare call is marked with ** if it is over the goal of at most 0.3 us and 2 %; with * if only what it
adds to the call of the program without threads is. Between two programs the place of their memory can matter more: with 16 KiB,
which the kernel copies from process to process, 0.2 to 0.7 us (where in physical memory it lies, and what else of the program
shares its caches).
"""

import os
import statistics
import tempfile

from host_bench import BUILD, HERE, commands, measure, parser


def beside_backend():
    """The flags with which the program calls the backend, too."""
    library = os.path.join(BUILD, "lib")
    return ["-DBACKEND", "-I" + os.path.join(os.path.dirname(HERE), "runtime/include"), "-L" + library, "-ldlaunch",
            "-Wl,-rpath," + library]


def is_over(time, bare):
    return time > 1.02 * bare + 0.3


def mark(time, bare, without_threads):
    return "**" if is_over(time, bare) else "*" if is_over(time, without_threads) else ""


def main():
    options = parser(largest=4 << 20, factor=32, seconds=0.1).parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other, \
            tempfile.TemporaryDirectory() as third:
        alone = commands(options.ranks, folder)
        begun = commands(options.ranks, other, ["-DNON_BLOCKING"])
        both = commands(options.ranks, third, beside_backend())
        for name in both:
            if name == "dlaunch" or name not in alone or name not in begun:
                continue
            times = measure({("without threads",): (alone[name], {}), ("non-blocking",): (begun[name], {}),
                             ("bare", "backend"): (both[name], {})}, options)
            print(f"{name}, {options.ranks} ranks, medians of {options.runs} runs, microseconds")
            print(f"{'operation':15}{'bytes':>10}" + "".join(f"{side:>17}" for side in times) + f"{'adds':>12}{'ratio':>8}")
            for cell in times["bare"]:
                if cell[0] == "memcpy":  # the same call in each column
                    continue
                median = {side: statistics.median(times[side][cell]) for side in times}
                bare, backend = median["bare"], median["backend"]
                print(f"{cell[0]:15}{cell[1]:>10}" + "".join(f"{time:17.2f}" for time in median.values())
                      + f"{backend - bare:12.2f}{backend / bare:8.2f}  " + mark(backend, bare, median["without threads"]))


if __name__ == "__main__":
    main()
