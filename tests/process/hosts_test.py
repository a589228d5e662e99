#!/usr/bin/env python3
"""One command, several hosts, without ssh: names of this machine, or a script as the remote shell.

    DLAUNCH_BIN_DIR=build/bin hosts_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import pty
import re
import signal
import subprocess

from common import PATIENCE, free_port, main, most_memory_of, summary, wait_until
from hosts_case import DUMP, FAMILY, Hosts


def everything(master):
    """The output to a terminal that no process has open any more."""
    text = b""
    while True:
        try:
            piece = os.read(master, 10000)
        except OSError:  # EIO is its end
            return text
        if not piece:
            return text
        text += piece


class OwnMachine(Hosts):
    """Without ssh: the hosts are names of this machine, or the way there is a script."""

    RSH = "#!/bin/sh\n# A remote shell that stays where it is: HOST COMMAND\nshift\nexec \"$@\"\n"

    def rsh(self, text=RSH):
        return "--ssh=" + self.write("rsh", text, 0o755)

    def elsewhere(self, *arguments, **variables):
        """Two hosts that are none of this machine's names; the script brings us there."""
        return self.run_job("--hosts=198.51.100.1,198.51.100.2", "--master-addr=127.0.0.1", *arguments, **variables)

    def test_names_of_this_machine_need_no_remote_shell(self):
        done = self.run_job("--hosts=localhost,127.0.0.2:3", "--ssh=false", "sh", "-c", "echo $RANK of $WORLD_SIZE on $GROUP_RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 of 4 on 0", "1 of 4 on 1", "2 of 4 on 1", "3 of 4 on 1"])
        self.assertEqual(done.stderr, "")

    def test_many_hosts(self):
        done = self.run_job("--hosts=127.0.0.[1-80]", "sh", "-c", "echo $RANK")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(map(int, done.stdout.split())), list(range(80)))

    def test_too_few_descriptors_for_the_hosts_are_an_error_before_anything_is_started(self):
        done = self.run_job("--hosts=127.0.0.[1-80]", "sh", "-c", "echo > started.$RANK", prefix=("prlimit", "--nofile=200:200"))
        self.one_line(done, 1, "dlaunch: cannot start a job on 80 hosts: ")
        self.assertIn(" open files are needed, but only 200 are allowed; raise the hard limit", done.stderr)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_file_of_hosts(self):
        self.write("hosts", "# two\n127.0.0.1 slots=2\n127.0.0.2:1\n\n127.0.0.3\n127.0.0.3\n")
        script = ("sh", "-c", "echo $RANK $LOCAL_WORLD_SIZE")
        done = self.run_job("--hostfile=hosts", *script)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 2", "1 2", "2 1", "3 2", "4 2"], done.stderr)
        done = self.run_job("--nnodes=2", "--nproc-per-node=1", *script, DLAUNCH_HOSTFILE="hosts")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 1", "1 1"], done.stderr)
        self.write("hosts", "a\nb slot=2\n")
        self.one_line(self.run_job("--hostfile=hosts", "true"), 2, "dlaunch: hosts, line 2: 'slot=2' is not understood")
        self.one_line(self.run_job("--hostfile=missing", "true"), 2, "dlaunch: --hostfile: cannot read missing: No such file")

    def one_line(self, done, code, text):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_arguments_variables_and_directory_arrive_as_they_are(self):
        odd = ["", " ", "a b", "it's", "\"", "$HOME", "`id`", "$(id)", "\\", "\\n", "two\nlines", "*", "~", "#x", "-x", "--", "!", "ü\x01"]
        self.dir = os.path.join(self.dir, "a 'directory' $x")
        os.mkdir(self.dir)
        self.write("dump.py", DUMP)
        done = self.elsewhere(self.rsh().replace("--ssh=", "--ssh='").replace("'directory'", "'\\''directory'\\''") + "'",
                              "-x", "MINE", "-x", "NEW=a=b c", "--export=ODD", "dump.py", *odd,
                              MINE="1", ODD="it's\n$x ", NCCL_DEBUG="WARN", DLAUNCH_ROLE="trainer", PET_NNODES="2")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(2):
            arguments, variables, directory, standard_input = json.loads(self.read(f"dump.{rank}"))
            self.assertEqual(arguments, odd)
            self.assertEqual(directory, self.dir)
            self.assertEqual(standard_input, "/dev/null")
            expected = {"MINE": "1", "NEW": "a=b c", "ODD": "it's\n$x ", "NCCL_DEBUG": "WARN", "ROLE_NAME": "trainer"}
            self.assertEqual({name: variables.get(name) for name in expected}, expected)

    def test_variables_that_hold_for_this_host_do_not_go_along(self):
        clean = self.RSH.replace("exec", "exec env -i HOME=/")
        done = self.elsewhere(self.rsh(clean), "sh", "-c", "env > env.$RANK", CUDA_VISIBLE_DEVICES="1", NCCL_DEBUG="WARN", OTHER="x",
                              DLAUNCH_HOSTS="198.51.100.1,198.51.100.2", LD_LIBRARY_PATH="/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {line.partition("=")[0] for line in self.read("env.1").splitlines()}
        self.assertLessEqual({"PATH", "NCCL_DEBUG", "LD_LIBRARY_PATH", "RANK"}, names)
        self.assertEqual(names & {"CUDA_VISIBLE_DEVICES", "OTHER", "DLAUNCH_HOSTS"}, set())

    def test_an_export_is_for_one_machine_too(self):
        done = self.run_job("-x", "A=1", "--export", "B=two words", "sh", "-c", "echo $A $B")
        self.assertEqual(done.stdout, "1 two words\n", done.stderr)

    def test_output_of_the_remote_shell_is_hidden(self):
        noisy = "#!/bin/sh\necho welcome; echo warning >&2\nshift\nexec \"$@\"\n"
        done = self.elsewhere(self.rsh(noisy), "sh", "-c", "echo out $RANK; echo err $RANK >&2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["out 0", "out 1"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["err 0", "err 1"])

    def test_output_that_comes_after_node_zeros_end_is_not_lost(self):
        """The way to the second host is slow: nothing comes before the process for the first one has ended, and was waited for."""
        slow = ("#!/bin/sh\nhost=$1; shift\n[ $host = 198.51.100.1 ] && { echo $$ > first; exec \"$@\"; }\n"
                "\"$@\" > late.out 2> late.err; code=$?\nwhile kill -0 $(cat first) 2> /dev/null; do sleep 0.01; done\n"
                "cat late.out; cat late.err >&2; exit $code\n")
        for code in (0, 1):
            done = self.elsewhere(self.rsh(slow), "sh", "-c", f"echo of $RANK; : > here.{code}.$RANK; "
                                  f"until [ -e here.{code}.$((1 - RANK)) ]; do sleep 0.01; done; exit {code}")
            self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (code, ["of 0", "of 1"]), done.stderr)
            self.assertNotIn("cannot start", done.stderr)

    def test_a_way_that_fails_is_quoted(self):
        done = self.elsewhere(self.rsh("#!/bin/sh\n[ $1 = 198.51.100.2 ] && { echo no way >&2; exit 4; }\nshift\nexec \"$@\"\n"), "true")
        self.one_failure(done, r"^dlaunch: failed: cannot start on host 198.51.100.2 \(node 1\): \S+/rsh exited with code 4; its last line: no way$")
        done = self.run_job("--hosts=198.51.100.1", "--ssh=/no/such/ssh", "true")
        self.one_line(done, 1, "cannot start '/no/such/ssh': No such file or directory; install it")
        self.nothing_remains()

    def test_a_missing_program_is_reported_once(self):
        self.one_failure(self.elsewhere(self.rsh(), "./missing"),
                         r"^dlaunch: failed: cannot start on host 198.51.100.[12] \(node [01]\): cannot start './missing': No such file")
        self.nothing_remains()

    def test_a_mistake_that_only_a_host_can_see_is_one_of_the_command_line(self):
        done = self.elsewhere(self.rsh(), "--virtual-local-rank", "--nproc-per-node=2", "-x", "CUDA_VISIBLE_DEVICES=4", "true")
        self.one_failure(done, "CUDA_VISIBLE_DEVICES names 1 GPU", 2)

    def test_a_port_in_use_is_node_zeros_trouble(self):
        port = f"--master-port={free_port()}"
        first = self.start("--hosts=127.0.0.1,127.0.0.2", port, "--stop-timeout=0.5", "sh", "-c", FAMILY)
        self.pids(6)
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", port, "true")
        self.one_failure(done, r"cannot start on host 127.0.0.1 \(node 0\): cannot listen .*in use by process \d+ \(.*\); choose a free port with --master-port")
        first.kill()
        self.nothing_remains()

    # More than a pipe and the first dlaunch take, less than what makes a worker wait.
    SPEAK = "yes 0123456789 | head -n 80000"
    LINES = 3 * 80000

    def test_a_reader_that_stops_does_not_keep_the_job(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=0.2", "--report=end.json", "sh", "-c", self.SPEAK)
        self.assertEqual(job.wait(PATIENCE), 0)
        dropped = json.loads(self.read("end.json"))["dropped"]
        self.assertEqual(list(dropped), ["stdout"])
        whole = job.stdout.read().splitlines().count("0123456789")
        # A line that was cut just before its end looks whole, and counts as dropped.
        self.assertIn(whole + dropped["stdout"]["lines"] - self.LINES, range(4))
        self.assertRegex(job.stderr.read(), rf"(?m)^dlaunch: dropped {dropped['stdout']['lines']} lines .*its reader took nothing for 200 ms \(--output-timeout\)\n$")
        self.nothing_remains()

    def test_a_reader_that_stops_in_front_of_the_agents_last_words(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=0.2", "--report=end.json", "sh", "-c", f"({self.SPEAK}) >&2; exit 7")
        self.assertEqual(job.wait(PATIENCE), 7)
        report = json.loads(self.read("end.json"))
        self.assertEqual((report["exit_code"], list(report["dropped"])), (7, ["stderr"]))
        self.nothing_remains()

    def test_after_two_interrupts_no_reader_is_waited_for(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=1000", "sh", "-c", "trap '' INT; echo > up.$RANK; yes")
        wait_until(lambda: all(os.path.exists(self.path(f"up.{rank}")) for rank in range(3)), "all run")
        job.send_signal(signal.SIGINT)
        self.wait_for_lines(job, ["dlaunch: passing SIGINT on to the workers; they have 30 s to end (a second signal kills them)"])
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(PATIENCE), 130)
        self.nothing_remains()

    def test_a_slow_reader_gets_all(self):
        job = self.start("--hosts=127.0.0.[1-3]", "--output-timeout=1000", "sh", "-c", self.SPEAK + "; echo > spoken.$RANK")
        wait_until(lambda: all(os.path.exists(self.path(f"spoken.{rank}")) for rank in range(3)), "all have spoken")
        self.assertEqual(job.stdout.read().count("\n"), self.LINES)
        self.assertEqual(job.wait(PATIENCE), 0)

    def test_one_report_for_the_job(self):
        script = "[ $RANK = 2 ] && { echo boom >&2; exit 7; }; exec sleep 1000"
        done = self.run_job("--hosts=127.0.0.[1-4]", "--report=end.json", "sh", "-c", script)
        self.one_failure(done, r"^dlaunch: failed: rank 2 \(local rank 0, node 2, host 127.0.0.3, pid \d+\) exited with code 7; not restarted", 7)
        self.assertEqual(done.stderr.count("  | boom"), 1, done.stderr)
        report = json.loads(self.read("end.json"))
        self.assertEqual((report["exit_code"], report["cause"]["rank"], report["node_rank"]), (7, 2, 0))
        self.assertEqual([node["host"] for node in report["nodes"]], [f"127.0.0.{n}" for n in range(1, 5)])
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", "--report=end.json", "true")
        self.assertEqual((done.returncode, json.loads(self.read("end.json"))["failed"]), (0, False))
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", "--report=end.json", "./missing")
        self.assertIn("cannot start './missing'", json.loads(self.read("end.json"))["cause"]["text"])

    def test_all_restart_together(self):
        script = (": > seen.$RANK.$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 0 ] && exec sleep 1000; "
                  "while [ ! -e seen.0.0 ]; do sleep 0.005; done; exit 6")
        done = self.run_job("--hosts=127.0.0.1,127.0.0.2", "--max-restarts=1", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall("restart 1 of 1", done.stderr)), 1, done.stderr)

    def test_on_a_terminal_lines_have_their_ranks(self):
        for variables, prefix in (({"NO_COLOR": "1"}, r"\[rank %d\]: "), ({"NO_COLOR": ""}, "\x1b\\[[0-9;]+m\\[rank %d\\]: \x1b\\[0m")):
            master, slave = pty.openpty()
            job = self.start("--hosts=127.0.0.1,127.0.0.2", "sh", "-c", "echo here", stdout=slave, **variables)
            os.close(slave)
            _, err = job.communicate(timeout=PATIENCE)
            shown = everything(master).decode()
            os.close(master)
            self.assertEqual(job.returncode, 0, err)
            for rank in range(2):
                self.assertRegex(shown, prefix % rank + "here\r\n")

    def test_much_output_comes_whole_and_in_bounded_memory(self):
        line = "x" * 200
        quiet = self.start("--hosts=127.0.0.[1-3]", "true")
        self.assertEqual(quiet.stdout.read(), "")
        err = quiet.stderr.read()
        without_output = most_memory_of(quiet)
        self.assertEqual(quiet.returncode, 0, err)
        script = f"i=0; while [ $i -lt 100 ]; do echo $RANK {line}; i=$((i+1)); done; yes $RANK {line} | head -n 250000"
        job = self.start("--hosts=127.0.0.[1-3]", "sh", "-c", script)
        counts = {}
        for text in job.stdout:
            counts[text] = counts.get(text, 0) + 1
        err = job.stderr.read()
        with_output = most_memory_of(job)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual(counts, {f"{rank} {line}\n": 250100 for rank in range(3)})
        self.assertLess(with_output - without_output, 64 * 1024, "KiB more than without output: far less than the 150 MB that were written")

    def test_signals_reach_every_host(self):
        job = self.start("--hosts=127.0.0.[1-3]", "sh", "-c", "trap 'echo > usr1.$RANK' USR1; trap 'echo > end.$RANK; exit 0' INT TERM; "
                         "echo $$ > pid.$RANK; while :; do sleep 0.01; done")
        self.pids(3)
        job.send_signal(signal.SIGUSR1)
        wait_until(lambda: all(os.path.exists(self.path(f"usr1.{rank}")) for rank in range(3)), "all got SIGUSR1")
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 130, err)
        self.assertTrue(all(os.path.exists(self.path(f"end.{rank}")) for rank in range(3)), err)
        self.assertRegex(summary(err), r"^dlaunch: stopped: node \d \(host 127.0.0.\d\) was stopped by SIGINT$")
        self.nothing_remains()

    def test_a_second_signal_ends_it_at_once(self):
        job = self.start("--hosts=127.0.0.[1-2]", "sh", "-c", FAMILY)
        self.pids(6)
        job.send_signal(signal.SIGTERM)
        self.assertIn("passing SIGTERM on", job.stderr.readline())
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 143)
        self.nothing_remains()

    def test_a_signal_while_it_starts_ends_it(self):
        job = self.start("--hosts=198.51.100.1,198.51.100.2", self.rsh("#!/bin/sh\necho $$ > pid.$1\nexec sleep 1000\n"), "true")
        self.pids(2)
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=PATIENCE)
        self.one_failure(subprocess.CompletedProcess((), job.returncode, out, err),
                         r"^dlaunch: stopped: node 0 \(host 198.51.100.1\) was stopped by SIGTERM$", 143)
        self.nothing_remains()

    def test_a_host_that_never_answers_is_given_up(self):
        silent = self.rsh("#!/bin/sh\n[ $1 = 198.51.100.2 ] && exec sleep 1000\nshift\nexec \"$@\"\n")
        done = self.elsewhere(silent, "--join-timeout=3", "true")  # enough for the host that does answer
        # Node 0 and we have the same time; whoever is first.
        self.one_failure(done, r"^dlaunch: failed: cannot start on host 198.51.100.2 \(node 1\): (it did not start within 3 s|it did not answer)")
        self.nothing_remains()

    def test_kill_9_leaves_nothing_anywhere(self):
        for _ in range(3):
            job = self.start("--hosts=127.0.0.[1-2]", "--stop-timeout=0.5", "sh", "-c", FAMILY)
            self.pids(6)
            job.kill()
            self.nothing_remains()
            for name in os.listdir(self.dir):
                os.unlink(self.path(name))

    def test_a_dry_run_starts_nothing(self):
        done = self.run_job("--hosts=localhost,198.51.100.1", "--master-addr=m", "--dry-run", "--nproc-per-node=2", "sh", "-c", "echo > started")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"node 1, 198.51.100.1:\n  command: ssh -o BatchMode=yes .* 198.51.100.1 /bin/sh\n")
        self.assertRegex(done.stdout, r"    exec \S+/dlaunch --lifeline=\S+ .*--node-rank=1 .*-- sh -c 'echo > started'\n")
        for rank in range(4):
            self.assertIn(f"  rank {rank}:\n    command: sh -c 'echo > started'\n", done.stdout)
        self.assertRegex(done.stdout, r"\n  job hosts-\w+: node 1 of 2 \(198\.51\.100\.1\), 2 workers, store at m:\d+\n")
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    main()
