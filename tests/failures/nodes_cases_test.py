#!/usr/bin/env python3
"""Failures of nodes, of the network between them, and of the start of a job on several.

    DLAUNCH_BIN_DIR=build/bin nodes_cases_test.py [Class.test ...]
"""

import os
import signal
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
from staging import TESTS, TRAINER, Above, Failures, case  # noqa: E402

from common import PATIENCE, free_port, is_sanitized, main, wait_until  # noqa: E402
from hosts import Hosts  # noqa: E402
from routed_hosts import RoutedHosts  # noqa: E402

TRAIN = (TRAINER, "none", "0")
LOST = r"node 1 \(host {other}\) was lost: "
DATA = "ipproto tcp sport 32768-60999 dport 32768-60999"  # not the agents' and the store's, one end of which is at 29500


class Nodes(Failures):
    """Two nodes, at two addresses of this machine."""

    def setUp(self):
        super().setUp()
        self.port = free_port()

    def node(self, number, *arguments, nnodes=2, **variables):
        return self.begin(f"--nnodes={nnodes}", f"--node-rank={number}", "--master-addr=127.0.0.1", f"--master-port={self.port}",
                          f"--local-addr=127.0.0.{number + 1}", "--nproc-per-node=2", "--rdzv-id=job5", *arguments, **variables)

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def wait_for_training(self):
        wait_until(lambda: os.path.exists(os.path.join(self.dir, "trained")), "the ranks take steps")

    def trains(self):
        """Both nodes, while they train."""
        nodes = [self.node(number, *TRAIN) for number in range(2)]
        self.wait_for_training()
        return nodes

    def end_screen(self, job, began, **facts):
        return self.screen_of(job, began, **{"host": "127.0.0.1", "other": "127.0.0.2", "port": self.port, **facts})


class Starts(Nodes):
    @case(6, "a typo on node 1",
          cause=r"cannot start '\./trainr': No such file or directory", rank=r"node 1 \(host {other}\)", host=r"host {other}", remedy=Above(r"node 1 \(host {other}\): .*; check the path"))
    def test_06_on_node_1(self):
        first = self.node(0, *TRAIN)
        began = time.time()
        self.node(1, "./trainr").end()
        return self.end_screen(first, began)

    @case(10, "the port is in use",
          cause=r"cannot listen on \S+:{port}: address already in use", rank=None, host=Above(r"by process {owner} \(\S*python\S*"),
          remedy=Above(r"--master-port"))
    def test_10_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            return self.run_to_the_end("--master-addr=127.0.0.1", f"--master-port={self.port}", "true", facts={"port": self.port, "owner": os.getpid()})

    @case(11, "nothing listens at the endpoint",
          cause=r"never answered: connection refused \(the host answers, but nothing listens on that port", rank=r"node 0 at", host=r"127\.0\.0\.1:{port}",
          remedy=r"^check that dlaunch runs as node 0 on 127\.0\.0\.1 .*dlaunch doctor --peer=127\.0\.0\.1:{port}$")
    def test_11_endpoint(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", self.port))  # bound, not listening
            return self.end_screen(self.node(1, "--join-timeout=2", "true"), time.time())

    @case(12, "the endpoint's name is not known",
          cause=r"never answered: (name not known|the name service does not answer)", rank=r"node 0 at", host=r"no-such-host\.invalid:{port}",
          remedy=r"--master-addr.*no-such-host\.invalid")
    def test_12_name(self):
        job = self.begin("--nnodes=2", "--node-rank=1", "--master-addr=no-such-host.invalid", f"--master-port={self.port}", "--join-timeout=2", "true")
        return self.end_screen(job, time.time())


class Clocks(Nodes):
    @case(26, "the workers of node 1 see a clock that is an hour ahead", code=3,
          cause=r"rank 3 .* exited with code 3", rank=r"rank 3 \(local rank 1, node 1, ", host=r"host {other}, pid {pid}\)",
          remedy=r"^it wrote nothing; dlaunch \.\.\. gdb -batch ")
    def test_26_clock(self):
        if is_sanitized():
            self.skipTest("what is preloaded comes before the sanitizer's runtime")
        began = time.time()
        first = self.node(0, TRAINER, "exit", "3")
        self.node(1, TRAINER, "exit", "3", LD_PRELOAD=os.path.join(TESTS, "libclock_ahead.so"), DLAUNCH_TEST_CLOCK_AHEAD="3600")
        screen = self.end_screen(first, began, rank=3)
        self.assertNotRegex(screen.text, r"\b(59|60|61) min|\bh\b", "an age is wrong by an hour")
        return screen


class Strangers(Nodes):
    """Something else listens at the endpoint."""

    def meet(self, answer):
        """A server that gives this answer to the first bytes of a client, or, if it is a greeting, before them."""
        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                self.addCleanup(connection.close)
                if answer is None:
                    continue
                if not answer.startswith(b"SSH"):
                    connection.recv(1)
                connection.sendall(answer)
        server = socket.socket()
        server.bind(("127.0.0.1", self.port))
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()

        def stop():
            server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)
            server.close()
        self.addCleanup(stop)
        return self.end_screen(self.node(1, "--join-timeout=8", "true"), time.time())

    @case(14, "a web server", cause=r"not dlaunch: it begins with 'HTTP/1\.1 400 Bad Request", rank=r"node 0 at", host=r"127\.0\.0\.1:{port}",
          remedy=r"--master-addr and --master-port.*doctor --peer=127\.0\.0\.1:{port}")
    def test_14_http(self):
        return self.meet(b"HTTP/1.1 400 Bad Request\r\n\r\n<!DOCTYPE HTML>")

    @case(14, "an SSH server", cause=r"not dlaunch: it begins with 'SSH-2\.0-OpenSSH_9\.2p1", rank=r"node 0 at", host=r"127\.0\.0\.1:{port}",
          remedy=r"--master-addr and --master-port.*doctor --peer=127\.0\.0\.1:{port}")
    def test_14_ssh(self):
        return self.meet(b"SSH-2.0-OpenSSH_9.2p1\r\n")

    @case(14, "Redis", cause=r"not dlaunch: it begins with '-ERR unknown command", rank=r"node 0 at", host=r"127\.0\.0\.1:{port}",
          remedy=r"--master-addr and --master-port.*doctor --peer=127\.0\.0\.1:{port}")
    def test_14_redis(self):
        return self.meet(b"-ERR unknown command\r\n")

    @case(14, "a server that says nothing", cause=r"what listens there sent nothing for 5 s: probably not dlaunch", rank=r"node 0 at", host=r"127\.0\.0\.1:{port}",
          remedy=r"--master-addr and --master-port.*doctor --peer=127\.0\.0\.1:{port}")
    def test_14_mute(self):
        return self.meet(None)

    @case(14, "a store without a job", cause=r"what listens there ", rank=r"node 0 at", host=r"127\.0\.0\.1:{port}",
          remedy=r"--master-addr and --master-port.*doctor --peer=127\.0\.0\.1:{port}")
    def test_14_store(self):
        self.begin("store", "--host=127.0.0.1", f"--port={self.port}")
        wait_until(self.listens, "the store listens")
        return self.end_screen(self.node(1, "--join-timeout=8", "true"), time.time())


class Losses(Nodes):
    @case(13, "a cable is pulled", cause=LOST + r"no answer for 5(\.\d)? s \(--node-timeout\): its machine is off or frozen, or the network to it is cut",
          rank=LOST, host=LOST, remedy=r"^dlaunch doctor --peer={other}$")
    def test_13_cable(self):
        hosts = Hosts(self, 2)
        nodes = [self.begin("--nnodes=2", f"--node-rank={i}", f"--master-addr={hosts.addresses[0]}", "--master-port=29500", "--nproc-per-node=2",
                            f"--local-addr={hosts.addresses[i]}", *TRAIN, prefix=hosts.on(i)) for i in range(2)]
        self.wait_for_training()
        began = time.time()
        hosts.pull_cable(1)
        return self.end_screen(nodes[0], began, other=hosts.addresses[1])

    @case(13, "a firewall drops the data alone",
          cause=Above(r"^dlaunch: nothing has moved for [^:]+: .*; no byte .* has been acknowledged for [\d.]+ m?s, \d+ retransmissions: a firewall drops them"),
          rank=Above(r"rank [0-3] \({host}\) .* rank [0-3] \({other}\)|rank [0-3] \({other}\) .* rank [0-3] \({host}\)"), host=Above(r"\({host}\)"),
          remedy=Above(r"^dlaunch: the network between them: dlaunch doctor --peer=({host} on host {other}|{other} on host {host})$"))
    def test_13_data_ports(self):
        hosts = RoutedHosts(self, 2)
        nodes = [self.begin("--nnodes=2", f"--node-rank={i}", f"--master-addr={hosts.address(0)}", "--master-port=29500", "--nproc-per-node=2",
                            "--hang-note=3", f"--local-addr={hosts.address(i)}", *TRAIN, prefix=hosts.on(i)) for i in range(2)]
        self.wait_for_training()
        began = time.time()
        hosts.drop_between(0, 1, DATA)
        return self.screen_at(nodes[0], r"^dlaunch: the network between them: .*\n", began, host=hosts.address(0), other=hosts.address(1))

    @case(19, "the agent of node 1 is stopped", cause=LOST + r"no answer for 5(\.\d)? s \(--node-timeout\): its machine is off or frozen", rank=LOST, host=LOST,
          remedy=r"^dlaunch doctor --peer={other}$")
    def test_19_agent(self):
        return self.stop_agent(1)[0]

    @case(19, "... on its own screen, when it goes on",
          cause=r"node 1 \(host {other}\) was lost: its dlaunch did not run for [\d.]+ s \(stopped, or the machine was\)", rank=r"node 1 ", host=r"host {other}",
          remedy=r"^find what stopped dlaunch or the machine on host {other}; .* raise --node-timeout \(it is 5 s\)$")
    def test_19_own_screen(self):
        return self.stop_agent(1)[1]

    @case(19, "the agent of node 0 is stopped", cause=r"node 0 \(host {host}\) was lost: its dlaunch did not run for [\d.]+ s", rank=r"node 0 ",
          host=r"host {host}", remedy=r"^find what stopped dlaunch or the machine on host {host}; ")
    def test_19_leader(self):
        return self.stop_agent(0)[0]

    def stop_agent(self, number):
        """Both screens of a job of which an agent is stopped until the other one has given it up."""
        nodes = self.trains()
        began = time.time()
        nodes[number].process.send_signal(signal.SIGSTOP)
        nodes[1 - number].end()
        nodes[number].process.send_signal(signal.SIGCONT)
        return [self.end_screen(node, began) for node in nodes]

    @case(20, "the agent of node 1 is killed", cause=LOST + r"its dlaunch ended without notice: it was killed, or its machine restarted", rank=LOST, host=LOST,
          remedy=r"^look at the terminal of dlaunch on {other}, and at dmesg and journalctl there$")
    def test_20_killed(self):
        nodes = self.trains()
        began = time.time()
        nodes[1].process.kill()
        return self.end_screen(nodes[0], began)


class Refusals(Nodes):
    """What node 0 says in the end of a node that it has refused."""

    @case(22, "another --nnodes",
          cause=r"node 1 of 2 did not join .* refused meanwhile: host {other} \(this job has --nnodes=2, not --nnodes=3\)", rank=r"node 1 of 2", host=r"host {other}",
          remedy=r"^start host {other} with --nnodes=2, or all others with --nnodes=3$")
    def test_22_nnodes(self):
        first = self.node(0, "--join-timeout=4", *TRAIN)
        self.node(1, "--join-timeout=4", *TRAIN, nnodes=3).end()
        return self.end_screen(first, None)

    @case(22, "another --rdzv-id",
          cause=r"did not join .* refused meanwhile: host {other} \(this is job 'job5', not 'job6'\)", rank=r"node 1 of 2", host=r"host {other}",
          remedy=r"^start host {other} with --rdzv-id=job5, ")
    def test_22_job(self):
        endpoint = f"--rdzv-endpoint=127.0.0.1:{self.port}"
        c10d = ["--nnodes=2", "--rdzv-backend=c10d", endpoint, "--join-timeout=4"]
        first = self.begin(*c10d, "--node-rank=0", "--rdzv-id=job5", "--local-addr=127.0.0.1", *TRAIN)
        self.begin(*c10d, "--node-rank=1", "--rdzv-id=job6", "--local-addr=127.0.0.2", *TRAIN).end()
        return self.end_screen(first, None)

    @case(22, "another secret",
          cause=r"did not join .* refused meanwhile: .*secret", rank=r"node 1 of 2", host=r"127\.0\.0\.\d", remedy=r"^give this job's secret \(--token-file, DLAUNCH_TOKEN\) to dlaunch on host 127\.0\.0\.\d$")
    def test_22_secret(self):
        first = self.node(0, "--join-timeout=4", *TRAIN, DLAUNCH_TOKEN="one" * 10)
        self.node(1, "--join-timeout=4", *TRAIN, DLAUNCH_TOKEN="two" * 10).end()
        return self.end_screen(first, None)

    @case(22, "the same --node-rank twice",
          cause=r"node 2 of 3 did not join .* refused meanwhile: host {other} \(--node-rank=1 is taken by host {other}\)", rank=r"node 2 of 3", host=r"host {other}",
          remedy=r"^start host {other} with another --node-rank; no node has 2 yet$")
    def test_22_node_rank(self):
        first = self.node(0, "--join-timeout=4", *TRAIN, nnodes=3)
        second, third = (self.node(1, "--join-timeout=4", *TRAIN, nnodes=3) for _ in range(2))
        for other in (second, third):
            other.end()
        return self.end_screen(first, None)

    @case(22, "--node-rank=0 twice on one host",
          cause=r"cannot listen on \S+:{port}: address already in use", rank=Above(r"if that is node 0 of this job"), host=Above(r"by process {owner} \(dlaunch"),
          remedy=Above(r"another --node-rank"))
    def test_22_node_0_twice(self):
        first = self.node(0, "--join-timeout=20", *TRAIN)
        wait_until(lambda: self.listens(), "node 0 listens")
        return self.end_screen(self.node(0, *TRAIN), time.time(), owner=first.process.pid)


if __name__ == "__main__":
    main()
