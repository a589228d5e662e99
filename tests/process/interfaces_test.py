#!/usr/bin/env python3
"""Hosts with several networks, with IPv6 only, with names that mislead: which interfaces a job's data take.

    DLAUNCH_BIN_DIR=build/bin interfaces_test.py [Class.test ...]

The hosts are network namespaces, and what went where is what the kernel has counted.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

from common import BIN, DLAUNCH, PATIENCE, environment, main
from hosts import IPV4, IPV6, Hosts

WORKER = os.path.join(os.path.dirname(BIN), "tests", "all_reduce_worker")
CROSSING_WORKER = os.path.join(os.path.dirname(BIN), "tests", "crossing_worker")
FLOATS = 4_000_000
BYTES = 4 * FLOATS  # what each of two ranks sends to add them up once, at the least


class Interfaces(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dlaunch_interfaces_test.")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.tmp = os.path.join(self.dir, "tmp")  # a leader's mark there is named after job and endpoint: as other tests' leaders'
        os.mkdir(self.tmp)

    def run_on(self, hosts, commands, **variables):
        """Runs the i-th command on host i, all at once; returns the output and exit code of each."""
        processes = []
        for i, command in enumerate(commands):
            processes.append(subprocess.Popen([*hosts.on(i), *command], cwd=self.dir, env={**environment(), "TMPDIR": self.tmp, **variables}, text=True,
                                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        said = []
        try:
            for process in processes:
                said.append(process.communicate(timeout=PATIENCE)[0])
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return said, [process.returncode for process in processes]

    def job(self, hosts, master, *worker, **variables):
        """One worker on each host, each with an agent; the fixed kind of job."""
        count = len(hosts.names)
        return self.run_on(hosts, [
            [DLAUNCH, "--nproc-per-node=1", f"--nnodes={count}", f"--node-rank={i}", f"--master-addr={master}", "--master-port=29500",
             WORKER, *map(str, worker)] for i in range(count)], **variables)

    def with_name(self, name, addresses, command):
        """The command, with these addresses for the name in the system's hosts file."""
        handle, path = tempfile.mkstemp(dir=self.dir)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address in addresses))
        return ["unshare", "--mount", "sh", "-c", f'mount --bind {path} /etc/hosts && exec "$@"', "sh", *command]

    def succeeds(self, outcome, ranks=None):
        said, codes = outcome
        self.assertEqual(codes, [0] * len(codes), "\n".join(said))
        ranks = ranks or len(said)
        for rank in range(ranks):
            self.assertIn(f"rank {rank} of {ranks}: right", said[rank * len(said) // ranks])

    def test_several_interfaces_share_the_data(self):
        for variable in ("DLAUNCH_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            with self.subTest(variable):
                hosts = Hosts(self, 2, IPV4)
                self.succeeds(self.job(hosts, hosts.address(0), FLOATS, 3, **{variable: "eth0,eth1"}))
                for i in range(2):
                    sent = [hosts.bytes_sent(i, network) for network in range(2)]
                    self.assertGreater(min(sent), 0.45 * 3 * BYTES)
                    self.assertLess(max(sent), 0.55 * sum(sent))
                hosts.remove()

    def test_short_operations_take_turns(self):
        hosts = Hosts(self, 3, IPV4)
        self.succeeds(self.job(hosts, hosts.address(0), 2000, 400, DLAUNCH_SOCKET_IFNAME="eth0,eth1"))
        for i in range(3):
            for network in range(2):
                self.assertGreater(hosts.bytes_sent(i, network), 200 * 8000)

    def test_one_network_of_each_kind(self):
        hosts = Hosts(self, 2, (IPV4[0], IPV6[1]))
        self.succeeds(self.job(hosts, hosts.address(0), FLOATS, DLAUNCH_SOCKET_IFNAME="eth0,eth1"))
        for network in range(2):
            self.assertGreater(hosts.bytes_sent(0, network), 0.45 * BYTES)

    def test_the_ranks_of_a_host_share_memory(self):
        """Between two hosts pass as many bytes as with one rank on each."""
        hosts = Hosts(self, 2)
        self.succeeds(self.run_on(hosts, [
            [DLAUNCH, "--nproc-per-node=3", "--nnodes=2", f"--node-rank={i}", f"--master-addr={hosts.addresses[0]}", "--master-port=29500",
             WORKER, str(FLOATS), "3"] for i in range(2)]), ranks=6)
        for i in range(2):
            self.assertGreater(hosts.bytes_sent(i, 0), 3 * BYTES)
            self.assertLess(hosts.bytes_sent(i, 0), 1.1 * 3 * BYTES)

    def test_each_collective_sends_what_one_rank_a_host_would(self):
        """In MiB, from the host of the root and from the other one, if a rank's largest tensor is 1 MiB."""
        times = 4
        all_to_all = 3 * 0.5  # half of each rank's
        for collective, expected in {"all_reduce": (1, 1), "broadcast": (1, 0), "reduce": (0, 1), "all_gather": (0.5, 0.5),
                                     "reduce_scatter": (0.5, 0.5), "all_to_all": (all_to_all, all_to_all), "gather": (0, 0.5),
                                     "scatter": (0.5, 0)}.items():
            with self.subTest(collective):
                hosts = Hosts(self, 2)
                said, codes = self.run_on(hosts, [
                    [DLAUNCH, "--nproc-per-node=3", "--nnodes=2", f"--node-rank={i}", f"--master-addr={hosts.addresses[0]}", "--master-port=29500",
                     CROSSING_WORKER, collective, str(times)] for i in range(2)])
                sent = [hosts.bytes_sent(i, 0) / times / 2 ** 20 for i in range(2)]
                hosts.remove()
                self.assertEqual(codes, [0, 0], "\n".join(said))
                for i in range(2):
                    self.assertAlmostEqual(sent[i], expected[i], delta=0.05)

    def test_without_names_it_is_the_interface_that_reaches_the_master(self):
        for master in range(2):
            with self.subTest(network=master):
                hosts = Hosts(self, 2, IPV4)
                self.succeeds(self.job(hosts, hosts.address(0, master), FLOATS))
                for i in range(2):
                    self.assertGreater(hosts.bytes_sent(i, master), BYTES)
                    self.assertLess(hosts.bytes_sent(i, 1 - master), 0.01 * BYTES)
                hosts.remove()

    def test_hosts_with_ipv6_only(self):
        hosts = Hosts(self, 2, IPV6[:1])
        self.succeeds(self.job(hosts, hosts.address(0), FLOATS))
        for i in range(2):
            self.assertGreater(hosts.bytes_sent(i, 0), BYTES)

    def test_a_tcp_method_with_ipv6_only(self):
        hosts = Hosts(self, 2, IPV6[:1])
        method = f"tcp://[{hosts.address(0)}]:29500"
        self.succeeds(self.run_on(hosts, [[WORKER, str(FLOATS), "1", method, str(i), "2"] for i in range(2)]))
        for i in range(2):
            self.assertGreater(hosts.bytes_sent(i, 0), BYTES)

    def test_an_elastic_job_with_ipv6_only(self):
        hosts = Hosts(self, 2, IPV6[:1])
        said, codes = self.run_on(hosts, [
            [DLAUNCH, "--nproc-per-node=1", "--nnodes=2", f"--rdzv-endpoint=[{hosts.address(0)}]:29400", WORKER, str(FLOATS)] for _ in range(2)])
        self.assertEqual(codes, [0, 0], "\n".join(said))
        for i in range(2):
            self.assertGreater(hosts.bytes_sent(i, 0), BYTES)

    def test_a_host_whose_own_name_means_its_loopback_interface(self):
        """As Debian's /etc/hosts has it; of its networks the others are on the second one. With agents, and without."""
        agent = ([DLAUNCH, "--nproc-per-node=1", "--nnodes=2", f"--node-rank={i}", "--master-addr=first", "--master-port=29500"] for i in range(2))
        alone = (["env", f"RANK={i}", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=first", "MASTER_PORT=29500"] for i in range(2))
        for starters in (agent, alone):
            hosts = Hosts(self, 2, IPV4)
            self.succeeds(self.run_on(hosts, [
                self.with_name("first", [address], [*start, WORKER, str(FLOATS)])
                for start, address in zip(starters, ("127.0.1.1", hosts.address(0, 1)))]))
            for i in range(2):
                self.assertGreater(hosts.bytes_sent(i, 1), BYTES)
                self.assertLess(hosts.bytes_sent(i, 0), 0.01 * BYTES)
            hosts.remove()

    def test_all_take_the_same_family(self):
        """The first host has IPv4 and IPv6, the second one IPv4 only; the master's name has both."""
        hosts = Hosts(self, 2, IPV4[:1])
        ipv6 = "fd00:213:8::1"
        subprocess.run(["ip", "-n", hosts.names[0], "addr", "add", f"{ipv6}/64", "dev", "eth0", "nodad"], check=True)
        self.succeeds(self.run_on(hosts, [
            self.with_name("first", [ipv6, hosts.address(0)],
                           [DLAUNCH, "--nproc-per-node=1", "--nnodes=2", f"--node-rank={i}", "--master-addr=first", "--master-port=29500",
                            WORKER, str(FLOATS)]) for i in range(2)]))

    def test_a_file_between_hosts(self):
        """Without a master, the first rank tells the others their addresses."""
        hosts = Hosts(self, 2, IPV4)
        method = "file://" + os.path.join(self.dir, "meet")
        self.succeeds(self.run_on(hosts, [
            ["unshare", "--uts", "sh", "-c", f'hostname host{i} && exec "$@"', "sh", WORKER, str(FLOATS), "1", method, str(i), "2"] for i in range(2)]))
        for i in range(2):
            self.assertGreater(hosts.bytes_sent(i, 0), BYTES)

    def refuses(self, names, why):
        """Two nodes with these interfaces: neither connects, and one reports why."""
        hosts = Hosts(self, 2, IPV4)
        said, codes = self.run_on(hosts, [
            ["env", f"DLAUNCH_SOCKET_IFNAME={own}", DLAUNCH, "--nproc-per-node=1", "--nnodes=2", f"--node-rank={i}",
             f"--master-addr={hosts.address(0)}", "--master-port=29500", WORKER, "10"] for i, own in enumerate(names)])
        self.assertEqual(codes, [1, 1], "\n".join(said))
        self.assertIn(why, "".join(said))

    def test_a_misspelt_interface_is_named(self):
        self.refuses(("eth0", "ether0"), "cannot use the network interface 'ether0': this machine has no interface of that name; it has eth0, eth1")

    def test_another_number_of_interfaces_is_named(self):
        self.refuses(("eth0,eth1", "eth0"), "it uses 1 network interface, rank 0 uses 2")


if __name__ == "__main__":
    main()
