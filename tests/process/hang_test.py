#!/usr/bin/env python3
"""Jobs whose ranks wait for each other in vain: who is missing, dlaunch dump, and --hang-timeout.

    DLAUNCH_BIN_DIR=build/bin hang_test.py [Class.test ...]
"""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import uuid

from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, alive, environment, free_port, is_sanitized, main, offers_torch, remedy, summary, wait_until

STRAGGLER = os.path.join(os.path.dirname(BIN), "tests", "straggler")
LIMIT = 4  # of --hang-timeout: much longer than a busy machine lets a sum wait, or a rank come to the first one


class Hang(unittest.TestCase):
    def setUp(self):
        self.id = f"hang-{uuid.uuid4().hex[:12]}"
        self.dir = tempfile.mkdtemp(prefix="dlaunch_hang_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def start(self, *arguments, **variables):
        job = subprocess.Popen([DLAUNCH, f"--rdzv-id={self.id}", *arguments], stdin=subprocess.DEVNULL, env={**environment(), **variables},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.finish, job)
        return job

    @staticmethod
    def finish(job):
        if job.poll() is None:
            job.kill()
        job.communicate()

    def run_job(self, *arguments):
        job = self.start(*arguments)
        out, err = job.communicate(timeout=PATIENCE)
        return job.returncode, out, err

    def wait_for_line(self, job, pattern):
        """On a busy machine there may be notes before: some rank may come late to the first sums."""
        deadline = threading.Timer(PATIENCE, job.kill)
        deadline.start()
        self.addCleanup(deadline.cancel)
        lines = []
        while not lines or not re.search(pattern, lines[-1]):
            lines.append(job.stderr.readline())
            self.assertTrue(lines[-1], f"no line like {pattern}: {lines}")

    def report(self, name="end.json"):
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return json.load(file)

    def events(self):
        with open(os.path.join(self.dir, "events"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def dump(self, *arguments, who=None):
        return subprocess.run([DLAUNCH, "dump", *arguments, who or self.id], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)

    def dump_where(self, condition, what, who=None):
        """The job's dump, once the condition holds for it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            done = self.dump("--json=-", "--no-stacks", who=who)
            if done.returncode == 0 and condition(dump := json.loads(done.stdout)):
                return dump
            self.assertLess(time.monotonic(), deadline, f"{what}: {done.stdout[:2000]}{done.stderr}")

    @staticmethod
    def have_done(dump, count):
        """All ranks have done so many collectives of the default group."""
        status = [worker.get("flight", {}).get("pg_status", {}).get("1", {}) for worker in dump["workers"]]
        return min(one.get("last_completed_collective", 0) for one in status) >= count


NEVER_CAME = r"rank 2 never entered all_reduce #4 of group default; the other 2 have waited [\d.]+ m?s"


def without_place(text):
    """The text of a hang without "(local rank 2, node 0, host b)", which stands behind the missing rank's first mention."""
    return re.sub(r"(rank \d+) \(local rank \d+, node \d+, host [^)]*\)", r"\1", text)


class Note(Hang):
    def test_it_comes_by_itself_and_again_when_the_user_stops_the_job(self):
        job = self.start("--nproc-per-node=3", "--hang-note=1", f"--events={self.dir}/events", STRAGGLER, "absent")
        note = (r"dlaunch: nothing has moved for [^:]+: rank 2 \(local rank 2, node 0, host \S+, pid \d+\)" + NEVER_CAME.removeprefix("rank 2") +
                r"; rank 2 (is running|sleeps in the kernel( \(\w+\))?)$")
        self.wait_for_line(job, rf"^{note}")
        self.assertEqual(job.stderr.readline(), f"dlaunch: the stacks: dlaunch dump {self.id} on each host; --hang-timeout ends such a job\n")
        stack = r"dlaunch: the main thread of rank 2 is in\n(dlaunch:   #.*\n)*dlaunch:   #\d+ main in straggler\+\w+\n"
        if not is_sanitized():
            self.wait_for_line(job, r"^dlaunch:   #\d+ main in straggler\+")
        self.assertIsNone(job.poll())
        job.terminate()
        err = job.communicate(timeout=PATIENCE)[1]
        if not is_sanitized():
            self.assertRegex(err, stack)
        self.assertRegex(err, rf"(?m)^{note}")
        self.assertRegex(summary(err), r"^dlaunch: stopped: node 0 \(host \S+\) was stopped by SIGTERM$")
        stalls = [event for event in self.events() if event["event"] == "stalled"]
        self.assertEqual(stalls[-1]["rank"], 2)
        self.assertIn(f"dlaunch: {stalls[-1]['text']}\n", err)

    def test_a_rank_that_is_stopped_is_said_to_be(self):
        job = self.start("--nproc-per-node=3", "--hang-note=1", STRAGGLER, "stopped")
        self.wait_for_line(job, "^dlaunch: nothing has moved for [^:]+: rank 2 .*; rank 2 is stopped$")

    def test_a_key_that_no_rank_sets_is_named(self):
        job = self.start("--nproc-per-node=3", "--hang-note=1", STRAGGLER, "key")
        self.wait_for_line(job, r"^dlaunch: nothing has moved for [^:]+: rank 2 .*; rank 2 waits for the key 'never/set' of a store$")
        job = self.start("--nproc-per-node=3", "--hang-note=1", "--hang-timeout=1", STRAGGLER, "keys")
        self.wait_for_line(job, r"^dlaunch: nothing has moved for [^:]+: ranks 0, 1 and 2 wait for the key 'never/set' of a store, for [\d.]+ m?s$")
        self.assertIsNone(job.poll(), "such a wait has a timeout of its own")

    def test_a_rank_that_never_comes_to_the_first_world(self):
        job = self.start("--nproc-per-node=3", "--hang-note=1", "--hang-timeout=1", STRAGGLER, "first")
        self.wait_for_line(job, r"^dlaunch: nothing has moved for [^:]+: ranks 0 and 1 have been in init_process_group for [\d.]+ m?s; "
                           r"rank 2 \(local rank 2, node 0, host \S+, pid \d+\) has not come; rank 2 (is running|sleeps in the kernel( \(\w+\))?)$")
        self.assertRegex(self.dump("--no-stacks").stdout, r"ranks 0 and 1 have been in init_process_group for [\d.]+ m?s; rank 2 has not come\n")
        self.assertIsNone(job.poll(), "a program may take its time to read its data")


    def test_a_call_that_is_not_answered_is_named(self):
        job = self.start("--nproc-per-node=3", "--hang-note=1", "--hang-timeout=1", STRAGGLER, "call")
        waits = "rank 0 waits for the answer of worker worker2 to 'never_return'"
        self.wait_for_line(job, rf"^dlaunch: nothing has moved for [^:]+: {waits}, for [\d.]+ m?s.*; rank 2 runs 'never_return' for worker worker0$")
        dump = self.dump("--no-stacks").stdout
        self.assertRegex(dump, rf"(?m)^{waits}, for ")
        self.assertRegex(dump, r"\nremote calls of rank 0 \(worker worker0\): 1 made, 0 failed, 0 arrived; .*\n"
                               r"  to worker worker2: 'never_return', sent, [\d.]+ m?s\n")
        self.assertRegex(dump, r"\nremote calls of rank 2 \(worker worker2\): 0 made, 0 failed, 1 arrived; .*\n"
                               r"  for worker worker0: 'never_return', running, [\d.]+ m?s\n")
        self.assertIsNone(job.poll(), "such a wait has a timeout of its own")


class Watch(Hang):
    def expect_restart(self, how, sentence):
        code, out, err = self.run_job("--nproc-per-node=3", "--max-restarts=3", f"--hang-timeout={LIMIT}",
                                      f"--report={self.dir}/end.json", STRAGGLER, how)
        self.assertEqual((code, out), (0, "all sums are right\n"), err)
        cause = self.report()["restarts"][0]["cause"]
        self.assertEqual((cause["kind"], cause["rank"], cause["local_rank"], cause["node_rank"]), ("hang", 2, 2, 0))
        self.assertRegex(without_place(cause["text"]), rf"^nothing has moved for {LIMIT} s \(--hang-timeout\): {sentence}")
        self.assertRegex(err, rf"dlaunch: restarting all 3 workers \(restart 1 of 3\) because nothing has moved for {LIMIT} s")

    def test_a_rank_that_never_enters(self):
        self.expect_restart("absent", NEVER_CAME)
        spent = self.report()["time"]
        kinds = spent["rank_seconds"]
        self.assertAlmostEqual(sum(kinds.values()), spent["ranks"] * spent["wall"], delta=1e-3)
        self.assertTrue(kinds["waiting_for_late_ranks"] > 2 * LIMIT * 0.9 and kinds["computing"] > LIMIT * 0.9, "two ranks waited for the third")
        restart, = spent["restarts"]
        self.assertTrue(restart["detect"] == LIMIT and restart["stop"] > 0, restart)

    def test_a_rank_that_is_stopped(self):
        self.expect_restart("stopped", NEVER_CAME + "; rank 2 is stopped")

    def test_a_rank_that_waits_for_a_message(self):
        self.expect_restart("waiting", NEVER_CAME + "; rank 2 is in recv from rank 0")

    def expect_restart_of_the_stuck(self, how, sentence):
        code, out, err = self.run_job("--nproc-per-node=3", "--max-restarts=3", f"--hang-timeout={LIMIT}",
                                      f"--report={self.dir}/end.json", STRAGGLER, how)
        self.assertEqual((code, out), (0, "all sums are right\n"), err)
        cause = self.report()["restarts"][0]["cause"]
        self.assertEqual(cause["kind"], "hang")
        self.assertRegex(without_place(cause["text"]), rf"^nothing has moved for {LIMIT} s \(--hang-timeout\): "
                                        + sentence)

    def expect_restart_of_who_want_messages(self, how):
        self.expect_restart_of_the_stuck(how, r"ranks 0, 1 and 2 have been in recv of group default for [\d.]+ m?s: "
                                         "0 from rank 1, 1 from rank 2, 2 from rank 0")

    def test_ranks_that_wait_for_each_others_messages(self):
        self.expect_restart_of_who_want_messages("messages")

    def test_ranks_that_wait_by_futures(self):
        self.expect_restart_of_who_want_messages("future")

    def test_ranks_that_wait_for_callbacks(self):
        self.expect_restart_of_who_want_messages("callback")

    def test_ranks_that_wait_by_asking(self):
        self.expect_restart_of_who_want_messages("poll")

    def test_ranks_that_wait_by_short_waits(self):
        self.expect_restart_of_who_want_messages("tries")

    def test_a_rank_that_does_not_come_to_a_monitored_barrier(self):
        self.expect_restart_of_the_stuck("barrier", r"ranks 0 and 1 have been in monitored_barrier of group default for [\d.]+ m?s; "
                                         "rank 2 has not come")

    def test_a_rank_that_does_not_come_to_make_a_group(self):
        self.expect_restart_of_the_stuck("group", r"ranks 0 and 1 have been in new_group of group default for [\d.]+ m?s; "
                                         "rank 2 has not come")

    def test_a_rank_that_does_not_come_to_make_subgroups(self):
        self.expect_restart_of_the_stuck("subgroups", r"ranks 0 and 1 have been in new_subgroups of group default for [\d.]+ m?s; "
                                         "rank 2 has not come")

    def test_a_rank_that_does_not_come_to_a_second_world(self):
        self.expect_restart("world", r"ranks 0 and 1 have been in init_process_group for [\d.]+ m?s; rank 2 has not come")

    def test_without_a_restart_the_job_ends_and_names_the_rank(self):
        code, _, err = self.run_job("--nproc-per-node=3", f"--hang-timeout={LIMIT}", f"--report={self.dir}/end.json",
                                    f"--events={self.dir}/events", STRAGGLER, "absent")
        self.assertEqual(code, 1)
        self.assertRegex(summary(err),
                         rf"^dlaunch: failed: nothing has moved for {LIMIT} s \(--hang-timeout\): "
                         rf"rank 2 \(local rank 2, node 0, host .*\){NEVER_CAME.removeprefix('rank 2')}; not restarted: --max-restarts is 0")
        self.assertRegex(remedy(err), "^without --hang-timeout, run 'dlaunch dump [^ ]+' on host [^ ]+ while it hangs: .* rank 2$")
        report = self.report()
        self.assertEqual((report["cause"]["kind"], report["cause"]["rank"]), ("hang", 2))
        self.assertRegex(report["collectives"][0], f"^{NEVER_CAME}(; rank 2 is in recv from rank 0)?$")
        self.assertEqual([event["rank"] for event in self.events() if event["event"] == "hung"], [2])

    def test_ranks_of_another_node_are_named(self):
        port = free_port()
        nodes = [["--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=2", "--master-addr=127.0.0.1",
                  f"--master-port={port}", "--max-restarts=3", f"--hang-timeout={LIMIT}",
                  f"--report={self.dir}/end{rank}.json"] for rank in range(2)]
        jobs = [self.start(*node, STRAGGLER, "absent") for node in nodes]
        for job in jobs:
            _, err = job.communicate(timeout=PATIENCE)
            self.assertEqual(job.returncode, 0, err)
        for rank in range(2):
            report = self.report(f"end{rank}.json")
            cause = report["restarts"][0]["cause"]
            self.assertEqual((report["time"]["ranks"], report["job_time"]["ranks"]), (2, 4))
            self.assertEqual((cause["kind"], cause["rank"], cause["node_rank"]), ("hang", 3, 1))
            self.assertRegex(without_place(cause["text"]), r"rank 3 never entered all_reduce #4 of group default; the other 3 have waited")


class AtAFailure(Hang):
    # The leak checker suspends ending processes to inspect them.
    WHERE = NEVER_CAME + ("(; ranks? [01](,? and [01])? (is|are) stopped)*" if is_sanitized() else "") + "; rank 2 was killed by SIGKILL"

    def kill_the_straggler(self, *arguments):
        job = self.start("--nproc-per-node=3", f"--report={self.dir}/end.json", *arguments, STRAGGLER, "absent")
        # Rank 2 may still receive the message of a rank that has already continued.
        dump = self.dump_where(lambda d: any(re.fullmatch(NEVER_CAME, text) for text in d["findings"]), "two ranks wait")
        os.kill(dump["workers"][2]["pid"], signal.SIGKILL)
        out, err = job.communicate(timeout=PATIENCE)
        return job.returncode, out, err

    def test_a_killed_rank_and_its_waiting_peers(self):
        code, _, err = self.kill_the_straggler()
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertEqual(len(self.report()["collectives"]), 1)
        self.assertRegex(self.report()["collectives"][0], f"^{self.WHERE}$")
        self.assertRegex(err, f"dlaunch: last known position of the ranks:\n  {self.WHERE}\n")

    def test_it_is_reported_before_a_restart(self):
        code, out, err = self.kill_the_straggler("--max-restarts=1")
        self.assertEqual((code, out), (0, "all sums are right\n"), err)
        self.assertRegex(err, f"dlaunch: {self.WHERE}\ndlaunch: restarting all 3 workers")

    def test_a_rank_that_left_early(self):
        code, _, err = self.run_job("--nproc-per-node=3", f"--report={self.dir}/end.json", STRAGGLER, "gone")
        self.assertEqual(code, 1, err)
        self.assertRegex(self.report()["collectives"][0], "^ranks? .*2 never entered all_reduce #4 of group default; ")

    def test_a_program_that_records_nothing_is_not_mentioned(self):
        code, _, err = self.run_job("--nproc-per-node=2", "--hang-timeout=1", f"--report={self.dir}/end.json", "sh", "-c", "exit 3")
        self.assertEqual(code, 3)
        self.assertEqual(self.report()["collectives"], [])
        self.assertNotIn("last known position of the ranks", err)


class Pages(Hang):
    def folders_of(self, job):
        """The paths of the two workers' pages, once they run."""
        paths = [job.stdout.readline().strip() for _ in range(2)]
        self.assertEqual(sorted(os.path.basename(path) for path in paths), ["0_0.page", "0_1.page"])
        return {os.path.dirname(path) for path in paths}

    def test_nothing_of_them_is_left(self):
        os.environ["TMPDIR"] = self.dir
        self.addCleanup(os.environ.pop, "TMPDIR")
        for end in (signal.SIGTERM, signal.SIGKILL):
            job = self.start("--nproc-per-node=2", "sh", "-c",
                             ": > $DLAUNCH_WORKER_PAGE; echo $DLAUNCH_WORKER_PAGE; exec sleep 1000")
            (folder,) = self.folders_of(job)
            if os.access("/dev/shm", os.W_OK):
                self.assertTrue(folder.startswith("/dev/shm/"), folder)
            job.send_signal(end)
            job.wait(PATIENCE)
            wait_until(lambda: not os.path.exists(folder), f"{folder} is removed")

    def test_a_round_leaves_none_to_the_next(self):
        code, out, err = self.run_job("--nproc-per-node=1", "--max-restarts=1", "sh", "-c",
                                      ': > $DLAUNCH_WORKER_PAGE; ls $(dirname $DLAUNCH_WORKER_PAGE); exit $((1 - TORCHELASTIC_RESTART_COUNT))')
        self.assertEqual(code, 0, err)
        self.assertEqual([name for name in out.split() if name.endswith(".page")], ["0_0.page", "1_0.page"])


class Dump(Hang):
    def stuck(self, how="absent", sign=""):
        job = self.start("--nproc-per-node=3", STRAGGLER, how)
        dump = self.dump_where(lambda d: any(re.match(NEVER_CAME, text) and sign in text for text in d["findings"]) and
                               self.have_done(d, 3), "two ranks wait")
        return job, dump

    def test_positions_of_ranks(self):
        job, dump = self.stuck()
        self.assertEqual((dump["job"], dump["agent"], dump["world_size"], dump["node_rank"]), (self.id, job.pid, 3, 0))
        self.assertEqual(len(dump["findings"]), 1)
        self.assertRegex(dump["findings"][0], f"^{NEVER_CAME}$")
        self.assertEqual([worker["rank"] for worker in dump["workers"]], [0, 1, 2])
        table = (r"\n0 +\d+ +running +\S+ m?s ago +default +all_reduce #4, \S+ m?s +3\n"
                 r"1 +\d+ +running +\S+ m?s ago +default +all_reduce #4, \S+ m?s +3\n"
                 r"2 +\d+ +running +\S+ m?s ago +default +- +3\n")
        wait_until(lambda: re.search(table, self.dump("--no-stacks").stdout), "the table says where they are")
        self.assertRegex(self.dump("--no-stacks").stdout, f"\n{NEVER_CAME}\n")

    def test_the_latest_operations_have_the_fields_names(self):
        _, dump = self.stuck()
        flight = dump["workers"][0]["flight"]
        self.assertEqual(flight["pg_config"], {"default": {"name": "default", "desc": "gloo", "ranks": "[0, 1, 2]"}})
        self.assertEqual(flight["pg_status"], {"1": {"last_enqueued_collective": 4, "last_started_collective": 4,
                                                     "last_completed_collective": 3}})
        entries = [entry for entry in flight["entries"] if not entry["is_p2p"]]
        self.assertEqual([entry["collective_seq_id"] for entry in entries], [1, 2, 3, 4])
        self.assertEqual([entry["state"] for entry in entries], ["completed"] * 3 + ["started"])
        entry = entries[0]
        self.assertEqual((entry["profiling_name"], entry["process_group"], entry["pg_id"], entry["record_id"], entry["is_p2p"],
                          entry["input_sizes"], entry["output_sizes"], entry["input_dtypes"], entry["retired"]),
                         ("gloo:all_reduce", ["default", "gloo"], 1, 0, False, [[1]], [[1]], ["Long"], True))
        self.assertLess(abs(entry["time_created_ns"] / 1e9 - time.time()), 2 * PATIENCE)
        self.assertLess(entry["time_created_ns"], entry["time_discovered_completed_ns"])
        self.assertIsNone(entries[3]["time_discovered_completed_ns"])

    def test_the_records_as_files_that_torchfrtrace_reads(self):
        self.stuck()
        folder = os.path.join(self.dir, "a", "flight")
        done = self.dump(f"--flight={folder}")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, f"{folder} has the records of ranks 0, 1, 2; analyse them with: torchfrtrace {folder}\n", ""))
        self.assertEqual(sorted(os.listdir(folder)), [f"dlaunch_rank_{rank}" for rank in range(3)])
        for rank in range(3):
            with open(os.path.join(folder, f"dlaunch_rank_{rank}"), "rb") as file:
                flight = pickle.load(file)
            self.assertEqual((flight["version"], flight["rank"], flight["world_size"]), ("2.10", rank, 3))
            self.assertEqual(flight["pg_config"], {"default": {"name": "default", "desc": "gloo", "ranks": "[0, 1, 2]"}})
            self.assertEqual({entry["process_group"][0] for entry in flight["entries"]}, {"default"})
            self.assertEqual([(entry["profiling_name"], entry["collective_seq_id"], entry["state"]) for entry in flight["entries"]],
                             [("gloo:all_reduce", number, "completed") for number in (1, 2, 3)]
                             + ([] if rank == 2 else [("gloo:all_reduce", 4, "started")]))
            self.assertLess(abs(flight["entries"][0]["time_created_ns"] / 1e9 - time.time()), 2 * PATIENCE)

    def test_pytorchs_torchfrtrace_names_the_missing_rank(self):
        if not offers_torch(self, (2, 15), "knows no other backend than NCCL in its records"):
            return
        self.stuck()
        folder = os.path.join(self.dir, "flight")
        self.assertEqual(self.dump(f"--flight={folder}").returncode, 0)
        done = subprocess.run([TORCH_PYTHON, "-m", "torch.distributed.flight_recorder.fr_trace", folder], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stdout + done.stderr
        self.assertIn("Not all ranks joining collective, sequence number: 4", said)
        self.assertIn("missing ranks: {2}", said)
        self.assertIn("collective: gloo:all_reduce", said)
        self.assertNotIn("sequence number: 3", said)

    def test_a_trace_has_the_collective_that_never_ends(self):
        self.start("--nproc-per-node=3", "sh", "-c", f"DLAUNCH_TRACE={self.dir}/trace.json exec {STRAGGLER} absent")
        dump = self.dump_where(lambda d: any(re.match(NEVER_CAME, text) for text in d["findings"]), "two ranks wait")

        def events(rank):
            with open(os.path.join(self.dir, f"trace.rank{rank}.json"), encoding="utf-8") as file:
                return json.load(file)

        def has_begun(rank):
            try:
                return any(event["ph"] == "B" for event in events(rank))
            except ValueError:  # it is just being written
                return False
        # A rank enters an operation in its page first, which the dump shows, and then in its trace.
        wait_until(lambda: has_begun(0) and has_begun(1), "the traces have the operation")
        for rank in range(3):
            names = [event["args"]["name"] for event in events(rank) if event["name"] == "process_name"]
            self.assertEqual(names, [f"rank {rank} on {dump['host']}"])
            self.assertEqual({event["pid"] for event in events(rank)}, {rank})
            unfinished = [event for event in events(rank) if event["ph"] == "B"]
            self.assertEqual([(event["name"], event["args"]["sequence"]) for event in unfinished], [] if rank == 2 else [("all_reduce", 4)])
            for event in unfinished:
                self.assertLess(abs(event["ts"] / 1e6 - time.time()), 2 * PATIENCE)
        os.kill(dump["workers"][0]["pid"], signal.SIGKILL)
        wait_until(lambda: not alive(dump["workers"][0]["pid"]), "rank 0 is dead")
        self.assertEqual([event["args"]["sequence"] for event in events(0) if event["ph"] == "B"], [4])

    def test_no_records_are_no_files(self):
        self.start("sleep", "1000")
        self.dump_where(lambda d: d["workers"] and d["workers"][0]["pid"], "it runs")
        done = self.dump(f"--flight={self.dir}/flight")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "dlaunch: no rank here has recorded anything: the program does not use libdlaunch\n"))

    def test_ranks_of_other_nodes_as_reported_to_the_leader(self):
        port = free_port()
        node = ["--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={port}", "--hang-timeout=24"]
        jobs = [self.start(*node, f"--node-rank={rank}", STRAGGLER, "absent") for rank in range(2)]
        for job in jobs:
            self.dump_where(lambda d: any(re.match("rank 3 never entered all_reduce #4 of group default; ", text)
                                          for text in d["job_findings"]), "the leader has been told", who=str(job.pid))

    def test_a_message_that_is_waited_for(self):
        self.start("--nproc-per-node=3", STRAGGLER, "waiting")
        # Two messages came before the one that never comes.
        dump = self.dump_where(lambda d: len(d["workers"]) == 3 and any(
            entry.get("p2p_seq_id") == 3 for entry in d["workers"][2].get("flight", {}).get("entries", [])), "the last rank receives")
        entry = dump["workers"][2]["flight"]["entries"][-1]
        self.assertEqual((entry["profiling_name"], entry["state"], entry["p2p_seq_id"]), ("gloo:recv 2<-0", "started", 3))

    def expect_in(self, how, name):
        self.start("--nproc-per-node=3", STRAGGLER, how)
        row = rf"\n1 +\d+ +running +\S+ m?s ago +default +{name}, \S+ m?s +3\n"
        wait_until(lambda: re.search(row, self.dump("--no-stacks").stdout), f"rank 1 waits in {name}")

    def test_a_monitored_barrier_that_is_waited_in(self):
        self.expect_in("barrier", "monitored_barrier")

    def test_a_group_that_is_being_made(self):
        self.expect_in("group", "new_group")

    def test_a_stopped_process_is_reported(self):
        _, dump = self.stuck("stopped", "is stopped")
        self.assertEqual(dump["workers"][2]["state"], "stopped")
        self.assertRegex(dump["findings"][0], f"^{NEVER_CAME}; rank 2 is stopped$")

    def test_threads_and_stacks(self):
        _, dump = self.stuck()
        done = self.dump(f"--json={self.dir}/dump.json")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        with open(os.path.join(self.dir, "dump.json"), encoding="utf-8") as file:
            workers = json.load(file)["workers"]
        for worker, before in zip(workers, dump["workers"]):
            self.assertEqual(worker["pid"], before["pid"])
            self.assertEqual(worker["threads"][0]["tid"], worker["pid"])
            self.assertEqual(worker["threads"][0]["name"], "straggler")
            if shutil.which("gdb"):
                self.assertEqual(worker["debugger"], "gdb")
                self.assertTrue(worker["stacks"])
        text = self.dump().stdout
        own = r"  gdb:\n    Thread 1 \([^\n]*\n    #0 [^\n]*\n(?:    [^\n]*\n)*" if shutil.which("gdb") else ""
        self.assertRegex(text, rf"\nrank 1, process {workers[1]['pid']}\n{own}  thread {workers[1]['pid']} \(straggler\): [A-Za-z]")
        self.assertNotRegex(text, r"\[New LWP|\[Inferior|libthread_db")
        # The debugger has let them go again.
        self.dump_where(lambda d: [w["state"] for w in d["workers"]] == ["running"] * 3, "all run on")

    def test_a_missing_debugger_is_reported(self):
        self.start("sleep", "1000")
        self.dump_where(lambda d: d["workers"] and d["workers"][0]["pid"], "it runs")
        done = subprocess.run([DLAUNCH, "dump", self.id], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
                              check=False, env={**environment(), "PATH": self.dir})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("\nno stacks: gdb is not installed (apt install gdb, or dnf install gdb)\n"), done.stdout)

    def test_workers_that_record_nothing(self):
        self.start("--nproc-per-node=2", "sleep", "1000")
        dump = self.dump_where(lambda d: len(d["workers"]) == 2 and all(w["pid"] for w in d["workers"]), "both run")
        self.assertEqual(dump["findings"], [])
        self.assertNotIn("flight", dump["workers"][0])
        self.assertRegex(self.dump("--no-stacks").stdout, r"\n0 +\d+ +running .* nothing is recorded")

    def test_mistakes(self):
        done = self.dump(who="no-such-job")
        self.assertEqual(done.returncode, 1)
        # Agents that are stopped just now, another test's, are named too.
        self.assertRegex(done.stderr, r"^dlaunch: no job 'no-such-job' runs on this machine; dlaunch status lists the running jobs"
                                      r"(; agent \d+ does not answer, so its job is unknown)*\n$")
        done = subprocess.run([DLAUNCH, "dump"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2)
        self.start("sleep", "1000")
        self.dump_where(lambda d: d["workers"] and d["workers"][0]["pid"], "it runs")
        done = self.dump("--no-stacks", "--json=/no/such/folder/file")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write /no/such/folder/file", done.stderr)


if __name__ == "__main__":
    main()
