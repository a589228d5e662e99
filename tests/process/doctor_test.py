#!/usr/bin/env python3
"""dlaunch doctor --peer: real hosts with real sshd, and a router between them that spoils their network.

    DLAUNCH_BIN_DIR=build/bin doctor_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import re
import shutil
import subprocess

from common import DLAUNCH, PATIENCE, environment, main
from routed_hosts import RoutedHosts
from ssh_case import Ssh


class Doctor(Ssh):
    """Three hosts, each on a network of its own; a router connects them. dlaunch runs on the first."""

    @staticmethod
    def address(i):
        return RoutedHosts.address(i)

    def make_network(self):
        self.hosts = RoutedHosts(self, 3)
        self.names = self.hosts.names

    def doctor(self, *arguments, peers=(1,), dlaunch=DLAUNCH):
        return subprocess.run(["ip", "netns", "exec", self.names[0], dlaunch, "doctor", "--peer=" + ",".join(self.address(i) for i in peers),
                               self.ssh, *arguments], cwd=self.dir, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def here(self):
        return os.uname().nodename

    def bad_lines(self, done):
        """Of the network; without those about this machine, whatever it is."""
        return [line for line in done.stdout.splitlines() if line.startswith("BAD") and "10.213." in line]

    def rows(self, done):
        """The table: by the two hosts, the other cells."""
        text = done.stdout.partition("\n\n")[2]
        found = {}
        for line in text.splitlines()[1:]:
            cells = re.split(r"  +", line)
            found[cells[0], cells[1]] = cells[2:]
        return found


class Healthy(Doctor):
    def test_all_pairs_both_ways(self):
        done = self.doctor(peers=(1, 2))
        self.assertEqual((self.bad_lines(done), done.stderr), ([], ""), done.stdout)
        all_hosts = [self.here(), self.address(1), self.address(2)]
        self.assertIn(f"ok    {', '.join(all_hosts)} reach each other in both directions\n", done.stdout)
        rows = self.rows(done)
        self.assertEqual(set(rows), {(a, b) for a in all_hosts for b in all_hosts if a != b})
        for ports, packets, latency, bandwidth, clock in rows.values():
            self.assertEqual((ports, packets), ("open", "1500"))
            self.assertRegex(latency, r"^[0-9.]+ ms$")
            self.assertRegex(bandwidth, r"^[0-9.]+ [GM]B/s$")
            self.assertRegex(clock, r"^[+-]?[0-9.]+ ms$")
        self.assertEqual(done.returncode, 1 if "\nBAD" in done.stdout else 0)
        self.nothing_remains()

    def test_json_has_the_same(self):
        done = self.doctor("--json")
        report = json.loads(done.stdout)
        self.assertEqual([host["name"] for host in report["hosts"]], [self.here(), self.address(1)])
        self.assertEqual([(link["from"], link["to"]) for link in report["links"]], [(self.here(), self.address(1)), (self.address(1), self.here())])
        for link in report["links"]:
            self.assertEqual((link["job_port"], link["data_port"], link["mtu"], link["large_packets_pass"], link["broke_off"]), ("open", "open", 1500, True, ""))
            self.assertGreater(link["bytes_per_second"], 0)
            self.assertGreater(link["latency_ns"], 0)
            # All hosts here have one clock.
            self.assertLessEqual(abs(link["clock_ahead_ns"]), link["clock_error_ns"] + 1)
        self.assertTrue({"grade": "ok", "text": f"{self.here()}, {self.address(1)} reach each other in both directions", "to_do": ""} in report["findings"])


class Firewall(Doctor):
    def setUp(self):
        super().setUp()
        # With a range of two the kernel gives 40001 to who listens, and 40000 to who connects.
        self.hosts.set_on(0, "net/ipv4/ip_local_port_range", "40000 40001")

    def one_bad_line(self, done, pattern):
        self.assertEqual(done.returncode, 1, done.stderr)
        (line,) = self.bad_lines(done)
        self.assertRegex(line, pattern)

    def test_connections_are_dropped_in_one_direction(self):
        for port in (29500, 40001):
            self.hosts.drop_between(1, 0, f"ipproto tcp dport {port}")
        done = self.doctor()
        self.one_bad_line(done, rf"^BAD   {self.address(1)} cannot connect to {self.here()} \(no answer for 3 s\), but {self.here()} can connect to "
                          rf"{self.address(1)}: a firewall .* connections from {self.address(1)}: allow them$")
        self.assertEqual([self.rows(done)[way][0] for way in ((self.here(), self.address(1)), (self.address(1), self.here()))], ["open", "closed"])

    def test_only_the_jobs_port_is_open(self):
        self.hosts.drop_between(1, 0, "ipproto tcp dport 40001")
        self.one_bad_line(self.doctor(), rf"^BAD   {self.address(1)} reaches only the usual port of jobs on {self.here()}, no other: no answer for 3 s: workers listen")

    def test_the_jobs_port_is_closed(self):
        self.hosts.drop_between(1, 0, "ipproto tcp dport 29500")
        self.one_bad_line(self.doctor(), rf"^BAD   {self.address(1)} does not reach the usual port of jobs, 29500, on {self.here()}: no answer for 3 s: allow that port")

    def test_nothing_passes_between_two_others(self):
        self.hosts.drop_between(2, 1)
        done = self.doctor(peers=(1, 2))
        self.one_bad_line(done, rf"^BAD   {self.address(1)} and {self.address(2)} cannot connect to each other: no answer for 3 s: check addresses")
        self.assertEqual(sorted(cells[0] for cells in self.rows(done).values()), ["closed"] * 2 + ["open"] * 4)


class Packets(Doctor):
    def test_the_way_carries_less_than_the_interfaces_say_and_nobody_reports_it(self):
        a, b = self.address(1), self.address(2)
        self.hosts.set_on(1, "net/ipv4/tcp_mtu_probing", "0")
        self.hosts.lower_mtu(1, 2, 1400)
        self.hosts.drop("iif lo ipproto icmp")
        done = self.doctor(peers=(1, 2))
        self.assertEqual(done.returncode, 1, done.stderr)
        (line,) = self.bad_lines(done)
        self.assertRegex(line, rf"^BAD   packets of 1500 bytes from {a} to {b} are lost, packets of 1400 arrive: set the MTU of {a}'s interface .* mtu 1400\)")
        self.assertEqual([self.rows(done)[way][1] for way in ((a, b), (b, a))], ["1500 lost", "1500"])

    def test_a_router_that_reports_it_is_no_fault(self):
        self.hosts.lower_mtu(0, 1, 1400)
        done = self.doctor()
        self.assertEqual(self.bad_lines(done), [])
        self.assertEqual([cells[1] for cells in self.rows(done).values()], ["1400", "1500"])
        self.assertRegex(done.stdout, rf"(?m)^note  packets from {self.here()} to {self.address(1)} have up to 1400 bytes, back 1500: set the same MTU on both$")


class Start(Doctor):
    def not_started(self, done, i, why):
        self.assertEqual(done.returncode, 1, done.stderr)
        (line,) = self.bad_lines(done)
        self.assertRegex(line, rf"^BAD   dlaunch cannot be started on {self.address(i)}: {why}")

    def test_a_host_without_sshd_is_named_and_the_others_are_checked(self):
        self.finish(self.daemons[2])
        done = self.doctor(peers=(1, 2))
        self.not_started(done, 2, r"no ssh server listens there \(connection refused\); start sshd there")
        self.assertEqual(sorted(self.rows(done)), sorted([(self.here(), self.address(1)), (self.address(1), self.here())]))

    def test_a_host_that_does_not_answer(self):
        self.hosts.drop(f"to {self.address(1)}")
        self.ssh += " -o ConnectTimeout=1"
        self.not_started(self.doctor(), 1, r"it does not answer \(timed out\); check that it is up")

    def copy_of_dlaunch(self):
        folder = os.path.join(self.top, "bin")
        os.mkdir(folder)
        return shutil.copy(DLAUNCH, folder)

    def test_no_dlaunch_there(self):
        dlaunch = self.copy_of_dlaunch()
        self.restart_sshd(1, before=f"mount -t tmpfs none '{os.path.dirname(dlaunch)}'")
        self.not_started(self.doctor(dlaunch=dlaunch), 1, f"there is no dlaunch at {dlaunch}; install it")

    def test_another_version_there(self):
        dlaunch = self.copy_of_dlaunch()
        version = subprocess.run([DLAUNCH, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        # Short texts are within the instructions of a program, in pieces.
        begin = version.rpartition(".")[0] + "."
        other = version.replace(begin, begin.replace("2", "3"))
        self.assertNotEqual(version, other)
        with open(DLAUNCH, "rb") as program, open(self.path("other"), "wb") as file:
            file.write(program.read().replace(begin.encode(), other[:len(begin)].encode()))
        os.chmod(self.path("other"), 0o755)
        self.restart_sshd(1, before=f"mount --bind '{self.path('other')}' '{dlaunch}'")
        done = self.doctor(dlaunch=dlaunch)
        (line,) = self.bad_lines(done)
        of_host = {self.here(): version, self.address(1): other}
        for host, its_version in of_host.items():
            self.assertRegex(line, rf"{re.escape(its_version)} \(agents' protocol \d+\) on {host}")
        self.assertRegex(line, "^BAD   the hosts have different versions of dlaunch: .*: install one version on all of them$")

    def test_a_login_shell_that_talks(self):
        self.restart_sshd(1, more='ForceCommand sh -c "echo welcome; echo warning >&2; exec $SSH_ORIGINAL_COMMAND"')
        done = self.doctor()
        self.assertEqual((self.bad_lines(done), done.stderr), ([], ""))


if __name__ == "__main__":
    main()
