#!/usr/bin/env python3
"""One command, several hosts: dlaunch over a real ssh to real sshd, each in a network of its own.

    DLAUNCH_BIN_DIR=build/bin ssh_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import termios

from common import BIN, DLAUNCH, PATIENCE, command_line, main, summary, wait_until
from hosts_case import DUMP, FAMILY
from ssh_case import NETWORK, Ssh

FAMILY_THAT_SPEAKS = "echo rank $RANK >&2\n" + FAMILY



class OverSsh(Ssh):
    @staticmethod
    def without_waiting(err):
        """On a busy machine a node may be waited for."""
        return "".join(line for line in err.splitlines(True) if not line.startswith("dlaunch: waiting for "))

    def test_one_command_starts_all(self):
        done = self.run_job("--nproc-per-node=2", os.path.join(BIN, "rank_sum"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 6", done.stdout)), [str(rank) for rank in range(6)])
        self.assertEqual(len(re.findall("sum of ranks = 15", done.stdout)), 6)
        done = self.run_job("sh", "-c", "echo $RANK $(ip -4 -o addr show scope global | grep -o 'inet [0-9.]*')")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{i} inet {self.address(i)}" for i in range(3)], done.stderr)
        # The port is reached from outside, and the job has no secret.
        self.assertRegex(self.without_waiting(done.stderr), r"\Adlaunch: no secret: .*; set a secret with --token-file=FILE on every node\n\Z")

    def test_the_first_host_may_be_elsewhere(self):
        done = self.run_job("sh", "-c", "[ $RANK = 1 ] && exit 5; exec sleep 1000", hosts=f"{self.address(2)},root@{self.address(1)}")
        self.one_failure(done, rf"^dlaunch: failed: rank 1 \(local rank 0, node 1, host {self.address(1)}, pid \d+\) exited with code 5;", 5)
        self.nothing_remains()

    def test_arguments_and_variables_arrive_as_they_are(self):
        odd = ["", "a b", "it's", "\"$HOME\" `id` \\ \\n", "two\nlines", "*", "~", "-x", "!"]
        self.write("dump.py", DUMP)
        done = self.run_job("-x", "ODD", "dump.py", *odd, ODD="it's\n$x ", NCCL_DEBUG="WARN", OTHER="here")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(3):
            arguments, variables, directory, standard_input = json.loads(self.read(f"dump.{rank}"))
            self.assertEqual((arguments, directory, standard_input), (odd, self.dir, "/dev/null"))
            self.assertEqual((variables["ODD"], variables["NCCL_DEBUG"]), ("it's\n$x ", "WARN"))
            self.assertEqual(variables.get("OTHER"), "here" if rank == 0 else None)

    def test_a_failure_anywhere_ends_all_and_is_reported_once(self):
        done = self.run_job("--report=end.json", "sh", "-c", "[ $RANK = 2 ] && { echo boom >&2; exit 255; }; exec sleep 1000")
        self.one_failure(done, rf"^dlaunch: failed: rank 2 \(local rank 0, node 2, host {self.address(2)}, pid \d+\) exited with code 255", 255)
        self.assertEqual(done.stderr.count("  | boom"), 1)
        self.assertEqual(json.loads(self.read("end.json"))["cause"]["host"], self.address(2))
        self.nothing_remains()

    def test_ctrl_c_reaches_every_host(self):
        job = self.start("sh", "-c", "trap 'echo > end.$RANK; exit 0' INT TERM; echo rank $RANK >&2; while :; do sleep 0.01; done")
        self.wait_for_lines(job, [f"rank {rank}" for rank in range(3)])
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130, err)
        self.assertTrue(all(os.path.exists(self.path(f"end.{rank}")) for rank in range(3)), err)
        self.assertRegex(summary(err), "^dlaunch: stopped: node .* was stopped by SIGINT$")
        self.nothing_remains()

    def test_kill_9_leaves_nothing_on_any_host(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY)
        self.pids(9)
        job.kill()
        self.nothing_remains()

    def cut(self, job, i, rank, processes):
        """The connection to a host, once all runs; what its rank wrote has come to us, so dlaunch knows that it is up."""
        self.pids(processes)
        self.wait_for_lines(job, [f"rank {rank}"])
        os.kill(self.ssh_to(i), signal.SIGKILL)

    def test_a_cut_connection_stops_that_host_and_the_job(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY_THAT_SPEAKS)
        self.cut(job, 1, rank=1, processes=9)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         rf"^dlaunch: failed: node 1 \(host {self.address(1)}\) was lost: ")
        self.nothing_remains()

    def test_a_host_that_loses_its_agent_ends_the_job(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY)
        self.pids(9)
        agents = []
        def is_one():
            agents[:] = [pid for pid in self.processes_of_the_job() if "--node-rank=2" in command_line(pid)]
            return len(agents) == 1
        wait_until(is_one, "its helpers are not there yet, or have names of their own")
        os.kill(agents[0], signal.SIGKILL)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         rf"^dlaunch: failed: node 2 \(host {self.address(2)}\) was lost: ")
        self.nothing_remains()

    def test_losing_node_zero_elsewhere_ends_the_job(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY_THAT_SPEAKS, hosts=f"{self.address(1)},{self.address(2)}")
        self.cut(job, 1, rank=0, processes=6)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         rf"^dlaunch: failed: node 0 \(host {self.address(1)}\) was lost: its dlaunch was killed, or the connection")
        self.nothing_remains()

    def test_no_sshd(self):
        self.finish(self.daemons[2])
        self.one_failure(self.run_job("sh", "-c", FAMILY),
                         rf"^dlaunch: failed: cannot start on host {self.address(2)} \(node 2\): no ssh server listens there \(connection refused\); start sshd")
        self.nothing_remains()

    def test_no_such_host(self):
        done = self.run_job("sh", "-c", FAMILY, hosts=f"{self.address(0)},{self.address(1)},no-such-host.invalid")
        self.one_failure(done, r"^dlaunch: failed: cannot start on host no-such-host.invalid \(node 2\): there is no host with this name; check")
        self.nothing_remains()

    def test_an_address_without_a_server(self):
        done = self.run_job("sh", "-c", FAMILY, hosts=f"{self.address(0)},{NETWORK}.77")
        self.one_failure(done, rf"^dlaunch: failed: cannot start on host {NETWORK}.77 \(node 1\): it (cannot be reached|does not answer).*; check")
        self.nothing_remains()

    def test_a_refused_key(self):
        self.restart_sshd(1, key="other_key")
        self.one_failure(self.run_job("sh", "-c", FAMILY),
                         rf"^dlaunch: failed: cannot start on host {self.address(1)} \(node 1\): its ssh server refused the key; 'ssh {self.address(1)} true' must")
        self.nothing_remains()

    def test_a_host_key_that_is_not_known(self):
        with open(os.path.join(self.top, "known_hosts"), "w", encoding="utf-8"):
            pass
        self.one_failure(self.run_job("true"), r"its ssh host key is not known here; connect once by hand")

    def test_no_dlaunch_there(self):
        folder = os.path.join(self.top, "bin")
        os.mkdir(folder)
        dlaunch = shutil.copy(DLAUNCH, folder)
        self.restart_sshd(2, before=f"mount -t tmpfs none '{folder}'")
        self.one_failure(self.run_job("true", dlaunch=dlaunch),
                         rf"^dlaunch: failed: cannot start on host {self.address(2)} \(node 2\): there is no dlaunch at {dlaunch}; install it")
        self.nothing_remains()

    def test_no_such_directory_there(self):
        self.restart_sshd(1, before=f"mount -t tmpfs none '{self.dir}'")
        self.dir = self.path("here")
        os.mkdir(self.dir)
        self.one_failure(self.run_job("true"),
                         rf"^dlaunch: failed: cannot start on host {self.address(1)} \(node 1\): there is no directory {self.dir}; start dlaunch in one")

    def test_a_shared_connection_is_not_waited_for(self):
        with open(os.path.join(self.top, "ssh_config"), "a", encoding="utf-8") as config:
            config.write(f"  ControlMaster auto\n  ControlPath {self.top}/%h\n  ControlPersist 600\n")
        for i in (1, 2):
            self.addCleanup(subprocess.run, ["ssh", "-F", os.path.join(self.top, "ssh_config"), "-O", "exit", self.address(i)], capture_output=True, check=False)
        for _ in range(2):
            done = self.run_job("sh", "-c", "echo $RANK")
            self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["0", "1", "2"]), done.stderr)

    def test_a_login_shell_that_talks(self):
        self.restart_sshd(1, more='ForceCommand sh -c "echo welcome; echo warning >&2; exec $SSH_ORIGINAL_COMMAND"')
        done = self.run_job("sh", "-c", "echo $RANK", DLAUNCH_TOKEN="s3cret")
        self.assertEqual((done.returncode, sorted(done.stdout.split()), self.without_waiting(done.stderr)), (0, ["0", "1", "2"], ""))


class OverATree(Ssh):
    """Seven hosts: the first starts the second and the fifth, which start two each."""

    COUNT = 7
    STARTERS = {1: 0, 2: 1, 3: 1, 4: 0, 5: 4, 6: 4}  # of each host the one that starts it

    def start(self, *arguments, **others):
        return super().start("--tree-width=2", *arguments, **others)

    def starters(self, done, but=()):
        """Of each rank the address from which its host was reached."""
        seen = dict(line.split() for line in done.stdout.splitlines())
        expected = {str(i): self.address(starter) for i, starter in {**self.STARTERS, **dict(but)}.items()}
        self.assertEqual(seen, {"0": "-", **expected}, done.stderr)

    SHOW = ("sh", "-c", "set -- ${SSH_CONNECTION:--}; echo $RANK $1")

    def test_hosts_start_hosts(self):
        done = self.run_job(*self.SHOW)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.starters(done)
        done = self.run_job(os.path.join(BIN, "rank_sum"))
        self.assertEqual((done.returncode, len(re.findall("sum of ranks = 21", done.stdout))), (0, 7), done.stderr)
        self.nothing_remains()

    def test_output_of_all_arrives_whole(self):
        lines = 20000
        done = self.run_job("sh", "-c", f"seq -f \"rank $RANK line %g of a long text\" {lines}; seq -f \"rank $RANK error %g\" {lines} >&2")
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        for rank in range(7):
            for word, text, end in (("line", done.stdout, " of a long text"), ("error", done.stderr, "")):
                found = [int(number) for number in re.findall(rf"^rank {rank} {word} (\d+){end}$", text, re.MULTILINE)]
                self.assertEqual(found, list(range(1, lines + 1)), f"rank {rank}, {word}")

    def test_a_reader_that_stops_does_not_hold_back_the_other_stream(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", "[ $RANK = 6 ] && yes 'a line of output'; while [ ! -e speak ]; do sleep 0.05; done; "
                         "echo rank $RANK >&2; exec sleep 1000")
        def is_blocked():
            """Nothing moves any more from the rank that writes to our pipe."""
            writers = [pid for pid in self.processes_of_the_job() if command_line(pid)[:1] == ["yes"]]
            return bool(writers) and struct.unpack("i", fcntl.ioctl(job.stdout, termios.FIONREAD, bytes(4)))[0] > 60000 \
                and all(self.status_of(pid) == "S" for pid in writers for _ in range(100))
        wait_until(is_blocked, "the pipes are full")
        self.write("speak", "")
        self.wait_for_lines(job, [f"rank {rank}" for rank in range(6)])
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, err)
        self.assertEqual(set(out.splitlines()[:-1]), {"a line of output"})
        self.nothing_remains()

    @staticmethod
    def status_of(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0]

    def test_a_failure_at_the_end_of_the_tree_is_reported_once(self):
        done = self.run_job("sh", "-c", "[ $RANK = 6 ] && { echo boom >&2; exit 3; }; exec sleep 1000")
        self.one_failure(done, rf"^dlaunch: failed: rank 6 \(local rank 0, node 6, host {self.address(6)}, pid \d+\) exited with code 3", 3)
        self.assertEqual(done.stderr.count("  | boom"), 1)
        self.nothing_remains()

    def test_ctrl_c_reaches_every_host(self):
        job = self.start("sh", "-c", "trap 'echo > end.$RANK; exit 0' INT TERM; echo rank $RANK >&2; while :; do sleep 0.05; done")
        self.wait_for_lines(job, [f"rank {rank}" for rank in range(7)])
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130, err)
        self.assertTrue(all(os.path.exists(self.path(f"end.{rank}")) for rank in range(7)), err)
        self.nothing_remains()

    def test_kill_9_leaves_nothing_on_any_host(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY)
        self.pids(21)
        job.kill()
        self.nothing_remains()

    def test_the_loss_of_a_host_in_the_middle_names_it(self):
        job = self.start("--stop-timeout=0.5", "sh", "-c", FAMILY_THAT_SPEAKS)
        self.pids(21)
        self.wait_for_lines(job, [f"rank {rank}" for rank in range(7)])
        there = subprocess.run(["ip", "netns", "pids", self.names[4]], capture_output=True, text=True, check=True).stdout.split()
        for pid in there:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         rf"^dlaunch: failed: node 4 \(host {self.address(4)}\) was lost: ")
        self.nothing_remains()

    def test_a_host_in_the_middle_that_cannot_be_reached_is_named(self):
        self.finish(self.daemons[4])
        self.one_failure(self.run_job("sh", "-c", FAMILY),
                         rf"^dlaunch: failed: cannot start on host {self.address(4)} \(node 4\): no ssh server listens there")
        self.nothing_remains()

    def test_a_host_at_the_end_that_cannot_be_reached_is_named(self):
        self.finish(self.daemons[6])
        done = self.run_job("sh", "-c", FAMILY)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(summary(done.stderr), rf"^dlaunch: failed: cannot start on host {self.address(6)} \(node 6\): no ssh server listens there")
        self.nothing_remains()

    def test_what_a_host_cannot_start_this_machine_starts(self):
        with open(os.path.join(self.top, "client_key.pub"), encoding="utf-8") as key, \
             open(os.path.join(self.top, "only_first.pub"), "w", encoding="utf-8") as allowed:
            allowed.write(f'from="{self.address(0)}" {key.read()}')
        for i in (2, 3, 6):
            self.restart_sshd(i, key="only_first")
        done = self.run_job(*self.SHOW)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.starters(done, but={2: 0, 3: 0, 6: 0})
        self.assertEqual(len(re.findall(r"^dlaunch: host \S+ cannot start on host \S+ \(node \d\): its ssh server refused the key; .*"
                                        r"; this machine connects to such hosts itself \(--tree-width=0: to all\)$", done.stderr, re.MULTILINE)),
                         1, done.stderr)
        self.nothing_remains()


if __name__ == "__main__":
    main()
