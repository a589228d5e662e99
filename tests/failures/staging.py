"""A failure that is staged, and its last screen: does it say the cause, the rank or node, the host, and what to try?

A row of the table is a method of a class derived from Failures, with @case: how the failure is staged, and what the screen
must then say, as regular expressions in which {name} stands for a fact of that very run: a pid, a host, a port.
"""

import functools
import os
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "process"))

from common import BIN, PATIENCE, remedy, summary, wait_until  # noqa: E402
from launch_case import Launch  # noqa: E402

TESTS = os.path.join(os.path.dirname(BIN), "tests")
TRAINER = os.path.join(TESTS, "trainer")
HOST = socket.gethostname()
POINTS = ("cause", "rank", "host", "remedy")
LINES_OF_A_SCREEN = 24
# dlaunch's own words about a rank of node 0.
RANK = r"rank {rank} \(local rank {rank}, node 0, "
PLACE = r"host {host}, pid {pid}\)"


class Above(str):
    """A pattern that may be anywhere on the screen. Others are looked for in the line that says how the job ended, and the
    remedy in what follows "try:"."""


@dataclass
class Row:
    number: int
    title: str
    patterns: dict  # by point; None: there is nothing of the kind to say, which counts as said
    code: int       # the exit code


@dataclass
class Screen:
    text: str
    code: int         # None: the job goes on
    facts: dict
    seconds: float    # from the fault to the last message; None: not known

    def __post_init__(self):
        self.text = "".join(self.text.splitlines(keepends=True)[-LINES_OF_A_SCREEN:])

    def place_of(self, point, pattern):
        if isinstance(pattern, Above):
            return self.text
        return remedy(self.text) if point == "remedy" else summary(self.text)

    def says(self, point, pattern):
        expected = re.sub(r"\{([a-z_]+)\}", lambda fact: re.escape(str(self.facts[fact.group(1)])), pattern)
        return re.search(expected, self.place_of(point, pattern), re.MULTILINE) is not None


def case(number, title, *, cause, rank, host, remedy, code=1):  # pylint: disable=redefined-outer-name
    row = Row(number, title, {"cause": cause, "rank": rank, "host": host, "remedy": remedy}, code)

    def decorate(stage):
        @functools.wraps(stage)
        def test(self):
            self.judge(row, stage(self))
        test.row = row
        return test
    return decorate


class Watched:
    """A dlaunch whose lines are read as they come."""

    def __init__(self, process):
        self.process = process
        self.lines = []  # with the time of each, in seconds since 1970
        self.readers = [threading.Thread(target=self.read_lines), threading.Thread(target=process.stdout.read)]
        for reader in self.readers:
            reader.start()

    def read_lines(self):
        for line in self.process.stderr:
            self.lines.append((time.time(), line))

    def text(self):
        return "".join(line for _, line in self.lines)

    def wait_for(self, pattern):
        def is_there():
            found = re.search(pattern, self.text(), re.MULTILINE)
            if not found and not self.readers[0].is_alive():
                raise AssertionError(f"the job has ended without {pattern}: {self.text()}")
            return found
        wait_until(is_there, f"dlaunch writes {pattern}: {self.text()}")

    def end(self):
        self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)
        return self.process.returncode

    def finish(self):
        if self.process.poll() is None:
            self.process.kill()
        self.end()


class Failures(Launch):
    judged = []  # (row, screen, the points that the screen has), for the table

    def begin(self, *arguments, prefix=(), **variables):
        job = Watched(self.start(*arguments, prefix=prefix, **variables))
        self.addCleanup(job.finish)
        return job

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return path

    def screen_of(self, job, began=None, **facts):
        """The screen once the job has ended. `began`: the fault's moment, if no worker has recorded it."""
        return self.make_screen(job, job.end(), began, facts)

    def screen_at(self, job, pattern, began=None, **facts):
        """The screen of a job that goes on, once it shows this."""
        job.wait_for(pattern)
        return self.make_screen(job, None, began, facts)

    def make_screen(self, job, code, began, facts):
        fault = os.path.join(self.dir, "fault")
        if began is None and os.path.exists(fault):
            with open(fault, encoding="utf-8") as file:
                began = int(file.read()) / 1e9
        lines = list(job.lines)
        seconds = lines[-1][0] - began if began and lines else None
        known = {"host": HOST, "dir": self.dir, **facts}
        if "rank" in known:
            known.setdefault("pid", self.pid_of(known["rank"]))
        return Screen("".join(line for _, line in lines), code, known, seconds)

    def pid_of(self, rank):
        try:
            with open(os.path.join(self.dir, f"pid.{rank}"), encoding="utf-8") as file:
                return int(file.read())
        except FileNotFoundError:
            return 0

    def run_to_the_end(self, *arguments, prefix=(), rank=None, facts=None, **variables):
        began = time.time()
        job = self.begin(*arguments, prefix=prefix, **variables)
        known = {**(facts or {}), **({} if rank is None else {"rank": rank})}
        job.end()
        has_moment = os.path.exists(os.path.join(self.dir, "fault"))
        return self.screen_of(job, None if has_moment else began, **known)

    def train(self, fault, rank, detail="", workers=4, options=(), prefix=()):
        """Four ranks of a training loop, one of them with a fault."""
        return self.run_to_the_end(f"--nproc-per-node={workers}", *options, TRAINER, fault, str(rank), detail, prefix=prefix, rank=rank)

    def judge(self, row, screen):
        said = {point: pattern is None or screen.says(point, pattern) for point, pattern in row.patterns.items()}
        Failures.judged.append((row, screen, said))
        missing = [f"{point} ({row.patterns[point]})" for point in POINTS if not said[point]]
        self.assertEqual(missing, [], f"exit code {screen.code}, facts {screen.facts}, the screen:\n{screen.text}")
        if screen.code is not None:
            self.assertEqual(screen.code, row.code, screen.text)
