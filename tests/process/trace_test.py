#!/usr/bin/env python3
"""dlaunch trace: the operations of running jobs, and of dumps, as one trace.

    DLAUNCH_BIN_DIR=build/bin trace_test.py [Class.test ...]
"""

import glob
import json
import os
import signal
import subprocess
import unittest

from common import BIN, DLAUNCH, PATIENCE, environment, free_port, is_sanitized, main, wait_until
from hang_test import STRAGGLER, Hang


class Trace(Hang):
    def trace(self, *arguments):
        return subprocess.run([DLAUNCH, "trace", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def stuck(self):
        """A job in which ranks 0 and 1 wait for rank 2 in the fourth all_reduce; its dump."""
        self.start("--nproc-per-node=3", STRAGGLER, "absent")
        return self.dump_where(self.is_stuck, "two ranks wait")

    @classmethod
    def is_stuck(cls, dump):
        waits = lambda worker: worker["flight"]["pg_status"]["1"]["last_enqueued_collective"] == 4
        return (all("flight" in w and w["flight"]["pg_status"] for w in dump["workers"]) and
                [waits(worker) for worker in dump["workers"]] == [True, True, False] and cls.have_done(dump, 3))

    def check(self, text, ended_last=False):
        """`ended_last`: a rank that was killed is known to the others, so the last operation may have failed there."""
        events = json.loads(text)["traceEvents"]
        sums = [event for event in events if event.get("name") == "all_reduce"]
        ended = [(event["pid"], event["args"]["sequence"]) for event in sums if event["ph"] == "X"]
        whole = [(rank, number) for rank in range(3) for number in (1, 2, 3)]
        last = [(0, 4), (1, 4)]
        begun = [(event["pid"], event["args"]["sequence"]) for event in sums if event["ph"] == "B"]
        if ended_last:
            self.assertEqual(sorted(ended + begun), sorted(whole + last))
        else:
            self.assertEqual((sorted(ended), sorted(begun)), (whole, last))
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

    def test_of_a_job_that_has_failed(self):
        job = self.start("--nproc-per-node=3", f"--log-dir={self.dir}/logs", "--redirects=3", STRAGGLER, "absent")
        dump = self.dump_where(self.is_stuck, "two ranks wait")
        os.kill(dump["workers"][2]["pid"], signal.SIGKILL)
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        job_folder, = glob.glob(f"{self.dir}/logs/{self.id}_*")
        for folder in (f"{self.dir}/logs", job_folder, f"{job_folder}/attempt_0/records"):
            done = self.trace(folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.check(done.stdout, ended_last=True)
        done = self.dump("--json=-", who=job_folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        kept = json.loads(done.stdout)
        self.assertEqual([worker["pid"] for worker in kept["workers"]], [worker["pid"] for worker in dump["workers"]])
        self.assertEqual({worker["state"] for worker in kept["workers"]}, {"ended"})
        self.assertRegex(self.dump(who=job_folder).stdout, rf"^job {self.id} \(agent {job.pid}\), node 0 of 1 on host \S+, round 0, ended after ")

    def test_a_job_that_has_succeeded_keeps_no_records(self):
        job = self.start("--nproc-per-node=2", f"--log-dir={self.dir}/logs", "--redirects=3", STRAGGLER, "none")
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 0)
        done = self.trace(f"{self.dir}/logs")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, f"^dlaunch: {self.dir}/logs has no records of a round; only a round that did not succeed leaves records, ")

    def test_each_attempt_is_in_it(self):
        job = self.start("--nproc-per-node=2", f"--log-dir={self.dir}/logs", "--redirects=3", "--max-restarts=1", STRAGGLER, "crash")
        dump = self.dump_where(lambda d: d["round"] == 1 and self.have_done(d, 1), "the second attempt works")
        self.assertEqual(dump["round"], 1)
        job.terminate()
        job.communicate(timeout=PATIENCE)
        attempts = sorted(glob.glob(f"{self.dir}/logs/{self.id}_*/attempt_*/records/node.json"))
        self.assertEqual([path.split("/")[-3] for path in attempts], ["attempt_0", "attempt_1"])
        first = len(self.operations(self.trace(os.path.dirname(attempts[0])).stdout))
        second = len(self.operations(self.trace(os.path.dirname(attempts[1])).stdout))
        self.assertEqual(len(self.operations(self.trace(f"{self.dir}/logs").stdout)), first + second)
        self.assertGreater(min(first, second), 0)

    @unittest.skipIf(is_sanitized(), "what is preloaded comes before the sanitizer's runtime")
    def test_clocks_of_two_hosts_agree(self):
        """Node 1 has another steady clock (a time namespace) and another wall clock (preloaded) than node 0."""
        ahead = 3600
        namespace = ["unshare", "--time", "--monotonic=100000", "--fork", "--kill-child"]
        if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("needs the right to make a time namespace")
        port = free_port()
        files = []
        for rank in range(2):
            node = [DLAUNCH, f"--rdzv-id={self.id}", "--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=2", "--node-timeout=2",
                    "--master-addr=127.0.0.1", f"--master-port={port}", STRAGGLER, "absent"]
            preloaded = ["env", f"LD_PRELOAD={os.path.dirname(BIN)}/tests/libclock_ahead.so", f"DLAUNCH_TEST_CLOCK_AHEAD={ahead}"]
            variables = {"DLAUNCH_TRACE": os.path.join(self.dir, "own.json")}
            self.start_program([*([*namespace, *preloaded] if rank == 1 else []), *node], **variables)
        for rank in range(2):
            agent = self.agent_of(rank)
            dump = self.dump_where(lambda d: d["clock"] and d["clock"]["error_ns"] < 10**8 and self.have_done(d, 3), "three sums are done", who=agent)
            files.append(os.path.join(self.dir, f"node{rank}.json"))
            with open(files[-1], "w", encoding="utf-8") as out:
                # Two hosts have two names.
                json.dump({**dump, "host": f"host{rank}"}, out)
        written = os.path.join(self.dir, "trace.json")
        done = self.trace(f"--output={written}", *files)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^\S+ has \d+ operations, all by one clock within \d+ us; open it in ")
        with open(written, encoding="utf-8") as text:
            trace = json.load(text)
        error_us = trace["otherData"]["clock_error_ns"] / 1000
        self.assert_collectives_meet(trace["traceEvents"], 2 * error_us)
        # So are the files of DLAUNCH_TRACE; their error is that of the worker's start.
        own = []
        for rank in range(4):
            with open(os.path.join(self.dir, f"own.rank{rank}.json"), encoding="utf-8") as text:
                own += json.load(text)
        labels = [event["args"]["labels"] for event in own if event["name"] == "process_labels"]
        self.assertEqual(len(labels), 4)
        errors = [int(label.removeprefix("the job's clock, within ").removesuffix(" us")) for label in labels]
        self.assert_collectives_meet(own, 2 * max(errors))

    def start_program(self, arguments, **variables):
        job = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, env={**environment(), **variables}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.finish, job)

    def agent_of(self, node):
        found = []

        def find():
            done = subprocess.run([DLAUNCH, "status", "--json", self.id], capture_output=True, text=True, timeout=PATIENCE, check=False)
            agents = [json.loads(line) for line in done.stdout.splitlines()]
            found[:] = [str(agent["agent"]) for agent in agents if agent["node_rank"] == node and agent["workers"]]
            return found

        wait_until(find, f"node {node} runs")
        return found[0]

    def assert_collectives_meet(self, events, tolerance_us):
        """No rank leaves an all_reduce before all have entered it."""
        calls = {}
        for event in events:
            if event["name"] == "all_reduce" and event["ph"] == "X" and event["args"]["sequence"] <= 3:
                calls.setdefault(event["args"]["sequence"], {})[event["pid"]] = (event["ts"], event["ts"] + event["dur"])
        self.assertEqual({number: sorted(ranks) for number, ranks in calls.items()}, {number: [0, 1, 2, 3] for number in (1, 2, 3)})
        for ranks in calls.values():
            self.assertGreaterEqual(min(end for _, end in ranks.values()) + tolerance_us, max(begin for begin, _ in ranks.values()))

    @staticmethod
    def operations(text):
        return [event for event in json.loads(text)["traceEvents"] if event["ph"] in "BX"]

    def test_mistakes(self):
        def refused(*arguments):
            done = self.trace(*arguments)
            self.assertEqual((done.returncode != 0, done.stdout), (True, ""))
            return done.stderr
        self.assertRegex(refused("no-such-job"), "^dlaunch: no job 'no-such-job' runs on this machine; ")
        self.assertRegex(refused(), "^dlaunch: trace takes a job, files of dlaunch dump --json, or a log directory; ")
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
