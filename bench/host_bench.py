#!/usr/bin/env python3
"""Collectives on one host: ours over shared memory next to Open MPI's and MPICH's, in one run.

    host_bench.py [--ranks=2] [--runs=5] [--operation=all] [--smallest=4] [--largest=67108864] [--factor=4] [--shared] [--tcp]
                  [--without=MPICH]

Compiles host_mpi.cpp with each MPI's wrapper, then runs the three programs in turn, as often as --runs says, and prints the
median of each cell in microseconds, and our time by that of the faster MPI. --shared adds ours with tensors from
allocate_shared(), --tcp ours without shared memory. --without leaves an MPI out: with more ranks than cores a call of MPICH takes
some 16 ms.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("DLAUNCH_BUILD_DIR", os.path.join(os.path.dirname(HERE), "build"))


def commands(ranks, folder, flags=()):
    """Name -> command without the program's arguments; those whose MPI is not there are left out.

    flags: the compiler's, behind the source.
    """
    found = {}
    for name, wrapper, start in (
            ("Open MPI", "mpicxx.openmpi",
             ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]),
            ("MPICH", "mpicxx.mpich", ["mpiexec.hydra", "-np", str(ranks)])):
        program = os.path.join(folder, wrapper)
        try:
            subprocess.run([wrapper, "-O2", "-std=c++20", os.path.join(HERE, "host_mpi.cpp"), *flags, "-o", program], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"without {name}: {error}", file=sys.stderr)
            continue
        found[name] = start + [program]
    dlaunch = [os.path.join(BUILD, "bin/dlaunch"), f"--nproc-per-node={ranks}", os.path.join(BUILD, "bin/host_dlaunch")]
    found["dlaunch"] = dlaunch
    return found


def run(command, arguments, environment, libraries):
    """(operation, bytes) -> microseconds, of each of so many libraries that the program measures."""
    done = subprocess.run(command + arguments, stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, **environment})
    cells = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) == 2 + libraries:
            cells[words[0], int(words[1])] = [float(word) for word in words[2:]]
    return cells


def parser(largest, factor, seconds):
    """The options of a comparison, with what is usual for it."""
    made = argparse.ArgumentParser()
    made.add_argument("--ranks", type=int, default=2)
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--operation", default="all")
    made.add_argument("--smallest", default="4")
    made.add_argument("--largest", default=str(largest))
    made.add_argument("--factor", default=str(factor))
    made.add_argument("--seconds", default=str(seconds))
    return made


def measure(sides, options):
    """The sides, names -> (command, environment), in turn, as often as the options say. Name -> cell -> times.

    names: of the libraries that the program measures, in its order.
    """
    arguments = [options.operation, options.smallest, options.largest, options.factor, options.seconds]
    times = {name: {} for names in sides for name in names}
    for _ in range(options.runs):
        for names, (command, environment) in sides.items():
            for cell, of_all in run(command, arguments, environment, len(names)).items():
                for name, time in zip(names, of_all):
                    times[name].setdefault(cell, []).append(time)
    return times


def main():
    words = parser(largest=64 << 20, factor=4, seconds=0.2)
    words.add_argument("--shared", action="store_true")
    words.add_argument("--tcp", action="store_true")
    words.add_argument("--without", choices=("MPICH", "Open MPI"), help="an MPI that is not measured")
    options = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sides = {name: (command, {}) for name, command in commands(options.ranks, folder).items()
                 if name != options.without}
        if options.shared:
            sides["dlaunch in place"] = (sides["dlaunch"][0], {"HOST_BENCH_SHARED": "1"})
        if options.tcp:
            sides["dlaunch over TCP"] = (sides["dlaunch"][0], {"DLAUNCH_SHM": "0"})
        times = measure({(name,): side for name, side in sides.items()}, options)
    print(f"{options.ranks} ranks, medians of {options.runs} runs, microseconds")
    print(f"{'operation':15}{'bytes':>10}" + "".join(f"{name:>18}" for name in sides) + f"{'by faster MPI':>15}")
    for cell in times["dlaunch"]:
        medians = {name: statistics.median(times[name][cell]) for name in sides if cell in times[name]}
        peers = [time for name, time in medians.items() if "dlaunch" not in name]
        ratio = f"{medians['dlaunch'] / min(peers):15.2f}" if peers else ""
        print(f"{cell[0]:15}{cell[1]:>10}" + "".join(f"{medians.get(name, float('nan')):18.2f}" for name in sides) + ratio)


if __name__ == "__main__":
    main()
