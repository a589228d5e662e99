#!/usr/bin/env python3
"""dlaunch trace: the operations of running jobs, and of dumps, as one trace.

    DLAUNCH_BIN_DIR=build/bin trace_test.py [Class.test ...]
"""

import json
import os
import subprocess

from common import DLAUNCH, PATIENCE, main
from hang_test import STRAGGLER, Hang


class Trace(Hang):
    def trace(self, *arguments):
        return subprocess.run([DLAUNCH, "trace", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def stuck(self):
        """A job in which ranks 0 and 1 wait for rank 2 in the fourth all_reduce; its dump."""
        self.start("--nproc-per-node=3", STRAGGLER, "absent")
        waits = lambda worker: worker["flight"]["pg_status"]["1"]["last_enqueued_collective"] == 4
        return self.dump_where(lambda d: all("flight" in w and w["flight"]["pg_status"] for w in d["workers"]) and
                               [waits(worker) for worker in d["workers"]] == [True, True, False], "two ranks wait")

    def check(self, text):
        events = json.loads(text)["traceEvents"]
        sums = [event for event in events if event.get("name") == "all_reduce"]
        ended = [(event["pid"], event["args"]["sequence"]) for event in sums if event["ph"] == "X"]
        self.assertEqual(sorted(ended), [(rank, number) for rank in range(3) for number in (1, 2, 3)])
        begun = [(event["pid"], event["args"]["sequence"]) for event in sums if event["ph"] == "B"]
        self.assertEqual(sorted(begun), [(0, 4), (1, 4)])
        host = os.uname().nodename
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(names, {f"rank {rank} on {host}" for rank in range(3)})

    def test_of_a_job_and_of_its_dump(self):
        dump = self.stuck()
        done = self.trace(self.id)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.check(done.stdout)

        file = os.path.join(self.dir, "dump.json")
        with open(file, "w", encoding="utf-8") as out:
            json.dump(dump, out)
        written = os.path.join(self.dir, "trace.json")
        done = self.trace(f"--output={written}", file, self.id)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, rf"^{written} has \d+ operations; open it in Perfetto \(ui.perfetto.dev\) or chrome://tracing\n$")
        with open(written, encoding="utf-8") as text:
            self.check(text.read())

    def test_mistakes(self):
        def refused(*arguments):
            done = self.trace(*arguments)
            self.assertEqual((done.returncode != 0, done.stdout), (True, ""))
            return done.stderr
        self.assertRegex(refused("no-such-job"), "^dlaunch: no job 'no-such-job' runs on this machine; ")
        self.assertRegex(refused(), "^dlaunch: trace takes a job, or files of dlaunch dump --json; ")
        file = os.path.join(self.dir, "x.json")
        with open(file, "w", encoding="utf-8") as out:
            out.write("{")
        self.assertRegex(refused(file), f"^dlaunch: {file} is no output of dlaunch dump --json: ")
        with open(file, "w", encoding="utf-8") as out:
            json.dump({"job": "a", "host": "h", "workers": []}, out)
        self.assertRegex(refused(file), "^dlaunch: no rank has recorded anything: the program does not use libdlaunch\n$")
        other = os.path.join(self.dir, "y.json")
        with open(other, "w", encoding="utf-8") as out:
            json.dump({"job": "b", "host": "h", "workers": []}, out)
        self.assertRegex(refused(file, other), f"^dlaunch: {file} is of job a, but {other} of job b\n$")


if __name__ == "__main__":
    main()
