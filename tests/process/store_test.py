#!/usr/bin/env python3
"""`dlaunch store` as a person and as a script use it: real processes, real sockets, real signals.

    DLAUNCH_BIN_DIR=build/bin store_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import json
import os
import resource
import signal
import socket
import struct
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from common import DLAUNCH, PATIENCE, free_port, is_sanitized, main, wait_until

GREETING = b"\x00\xce\xf7\x85\x3c"


def environment():
    return {key: value for key, value in os.environ.items() if not key.startswith("MASTER_")}


class StoreCommand(unittest.TestCase):
    def serve(self, *options, limits=None):
        """Returns the server's process and port. `limits`: what it may use, by resource."""
        def limit():
            for what, most in (limits or {}).items():
                resource.setrlimit(what, (most, most))
        server = subprocess.Popen([DLAUNCH, "store", "--port=0", *options], env=environment(), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)
        self.addCleanup(self.finish, server)
        line = server.stdout.readline()
        self.assertRegex(line, r"^listening on \S+:\d+\n$", line or server.stderr.read() if not line else line)
        return server, int(line.rpartition(":")[2])

    @staticmethod
    def finish(server):
        if server.poll() is None:
            server.kill()
        server.communicate()

    def ask(self, port, *words, given=None):
        return subprocess.run([DLAUNCH, "store", words[0], f"--endpoint=127.0.0.1:{port}", *words[1:]], env=environment(),
                              input=given, stdin=subprocess.DEVNULL if given is None else None, capture_output=True,
                              timeout=PATIENCE, check=False)

    def answer(self, port, *words, given=None):
        done = self.ask(port, *words, given=given)
        self.assertEqual((done.returncode, done.stderr), (0, b""), words)
        return done.stdout

    def complaint(self, port, *words, code=1):
        done = self.ask(port, *words)
        self.assertEqual((done.returncode, done.stdout), (code, b""), words)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        return lines[0]

    @staticmethod
    def status(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=PATIENCE) as page:
            return json.load(page)


class Questions(StoreCommand):
    def test_every_command(self):
        _, port = self.serve()
        self.assertEqual(self.answer(port, "set", "a", "1"), b"")
        self.assertEqual(self.answer(port, "get", "a"), b"1\n")
        self.assertEqual(self.answer(port, "get", "a", "--raw"), b"1")
        self.assertEqual(self.answer(port, "add", "a", "41"), b"42\n")
        self.assertEqual(self.answer(port, "append", "a", "0"), b"")
        self.assertEqual(self.answer(port, "get", "a"), b"420\n")
        self.assertEqual(self.answer(port, "compare-set", "a", "420", "x"), b"x\n")
        self.assertEqual(self.answer(port, "compare-set", "a", "wrong", "y"), b"x\n")
        self.assertEqual(self.answer(port, "set", "b c", ""), b"")
        self.assertEqual(self.answer(port, "keys"), b"a\nb c\n")
        self.assertEqual(self.answer(port, "num-keys"), b"2\n")
        self.assertEqual(self.answer(port, "check", "a", "b c"), b"")
        self.assertEqual(self.answer(port, "wait", "a", "b c"), b"")
        self.assertEqual(self.answer(port, "delete", "a"), b"")
        self.assertEqual(self.answer(port, "set", "--prefix=p", "k", "v"), b"")
        self.assertEqual(self.answer(port, "get", "p/k"), b"v\n")

    def test_values_are_any_bytes(self):
        _, port = self.serve()
        value = bytes(range(256)) * 4096
        self.answer(port, "set", "bin", "-", given=value)
        self.assertEqual(self.answer(port, "get", "bin", "--raw"), value)

    def test_a_missing_key_is_reported_in_one_line(self):
        _, port = self.serve()
        where = f"dlaunch: store 127.0.0.1:{port}"
        self.assertEqual(self.complaint(port, "get", "x"), f"{where} has no key 'x'; --timeout=S waits for it")
        self.assertEqual(self.complaint(port, "get", "x", "--timeout=0.05"), f"{where}: waited 50 ms for key 'x'")
        self.assertEqual(self.complaint(port, "wait", "x", "y", "--timeout=0.05"), f"{where}: waited 50 ms for keys 'x', 'y'")
        self.assertEqual(self.complaint(port, "delete", "x"), f"{where} has no key 'x'")
        self.answer(port, "set", "x", "1")
        self.assertEqual(self.complaint(port, "check", "x", "y"), f"{where} lacks some of keys 'x', 'y'")
        self.assertEqual(self.complaint(port, "add", "x", "1.5", code=2),
                         "dlaunch: add: '1.5' is not a number; see dlaunch --help")

    def test_one_process_waits_for_what_another_sets(self):
        _, port = self.serve()
        waiter = subprocess.Popen([DLAUNCH, "store", "get", "late", "--timeout=50", f"--endpoint=127.0.0.1:{port}"],
                                  env=environment(), stdout=subprocess.PIPE)
        self.addCleanup(waiter.kill)
        deadline = time.monotonic() + PATIENCE
        while self.status(port)["waiting"] == 0:
            self.assertLess(time.monotonic(), deadline, "nobody waits")
        self.answer(port, "set", "late", "here")
        self.assertEqual(waiter.communicate(timeout=PATIENCE)[0], b"here\n")

    def test_a_server_that_is_not_there_is_named(self):
        with socket.socket() as probe:  # bound, not listening: no other process gets the port
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            self.assertEqual(self.complaint(port, "keys"),
                             f"dlaunch: cannot connect to store 127.0.0.1:{port}: connection refused (tried for 5 s)")

    def test_the_server_of_a_job_answers_its_workers(self):
        done = subprocess.run([DLAUNCH, "--nproc-per-node=2", "sh", "-c",
                               f"{DLAUNCH} store set key.$RANK $RANK && {DLAUNCH} store get --timeout=30 key.$((1 - RANK))"],
                              env=environment(), capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split()), [b"0", b"1"])


class Serving(StoreCommand):
    def test_stops_on_a_signal_and_prints_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server, _ = self.serve()
            server.send_signal(number)
            out, err = server.communicate(timeout=PATIENCE)
            self.assertEqual((server.returncode, out, err), (0, "", ""))

    def test_a_port_in_use_is_named(self):
        server, port = self.serve()
        done = subprocess.run([DLAUNCH, "store", f"--port={port}"], env=environment(), capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, rf"^dlaunch: cannot listen on 127\.0\.0\.1:{port}: address already in use by process {server.pid} \(dlaunch\); choose another --port")

    def test_status_lines_come_at_intervals(self):
        server, port = self.serve("--status-interval=0.05")
        self.answer(port, "set", "a", "1")
        while True:  # ends at the latest when the test's own limit does
            line = server.stderr.readline()
            self.assertRegex(line, r"^dlaunch store: \d+ connections, \d+ keys, \d+ bytes, \d+ waiting, \d+ requests in the last 50 ms\n$")
            if ", 1 keys, " in line:
                return

    def test_pages(self):
        _, port = self.serve()
        self.answer(port, "set", "a", "1")

        def page(path):
            return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE)
        with page("/healthz") as answer:
            self.assertEqual(answer.read(), b"ok\n")
        with page("/status") as answer:
            self.assertEqual(answer.headers["Content-Type"], "application/json")
            self.assertEqual(json.load(answer)["requests"]["set"], 1)
        with page("/metrics") as answer:
            self.assertIn(b'dlaunch_store_requests_total{kind="set"} 1\n', answer.read())
        with self.assertRaises(urllib.error.HTTPError) as refused:
            page("/nothing")
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()

    def test_random_clients_do_not_disturb(self):
        server, port = self.serve("--max-value=1K")
        silent = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(50)]
        half = socket.create_connection(("127.0.0.1", port), PATIENCE)
        half.sendall(GREETING + b"\x01" + struct.pack("<Q", 3) + b"/k")  # a SET cut short
        for garbage in (b"\xff\xfe garbage", GREETING + b"\x01" + struct.pack("<Q", 2**63), b"\x16\x03\x01 tls?",
                        GREETING + b"\x01" + struct.pack("<Q", 2) + b"/k" + struct.pack("<Q", 2048)):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as stranger:
                stranger.settimeout(PATIENCE)
                stranger.sendall(garbage)
                try:
                    self.assertEqual(stranger.recv(1), b"", "rejected")
                except ConnectionResetError:
                    pass
        self.answer(port, "set", "good", "v")
        self.assertEqual(self.answer(port, "get", "good"), b"v\n")
        for one in silent + [half]:
            one.close()
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=PATIENCE)
        self.assertEqual(server.returncode, 0)
        said = [line for line in err.splitlines() if "rejected 127.0.0.1" in line]
        self.assertEqual(len(said), len(set(line.split(": ", 2)[2] for line in said)), err)  # each reason once
        self.assertTrue(any("a value over the limit" in line for line in said), err)

    def test_a_value_over_the_limit_closes_only_its_connection(self):
        _, port = self.serve("--max-value=1K")
        self.answer(port, "set", "fits", "x" * 1024)
        self.assertRegex(self.complaint(port, "set", "big", "x" * 1025), rf"^dlaunch: store 127\.0\.0\.1:{port}: lost during ")
        self.assertEqual(self.answer(port, "keys"), b"fits\n")

    def test_two_thousand_connections(self):
        _, port = self.serve()
        ping = GREETING + b"\x0d" + struct.pack("<I", 7)
        clients = []
        try:
            for _ in range(2000):
                clients.append(socket.create_connection(("127.0.0.1", port), PATIENCE))
                clients[-1].sendall(ping)  # at once: those that are silent for long make room for others
        except OSError as failure:
            self.skipTest(f"this machine allows only {len(clients)} connections: {failure}")
        finally:
            for client in clients:
                self.addCleanup(client.close)
        for client in clients:
            self.assertEqual(client.recv(4), struct.pack("<I", 7))


def text(value):
    return struct.pack("<Q", len(value)) + value


class Readers(StoreCommand):
    """Clients that ask and do not read."""
    MEMORY = {} if is_sanitized() else {resource.RLIMIT_AS: 512 << 20}  # a sanitizer's shadow alone needs more

    def client(self, port, request):
        client = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.addCleanup(client.close)
        client.sendall(GREETING + request)
        return client

    def await_requests(self, port, kind, count):
        wait_until(lambda: self.status(port)["requests"][kind] == count, f"{count} requests of the kind {kind}")

    def test_a_large_value_is_held_once_however_many_ask_for_it(self):
        value = os.urandom(1 << 20) * 32
        _, port = self.serve(limits=self.MEMORY)
        self.client(port, b"\x01" + text(b"/k") + text(value))
        self.await_requests(port, "set", 1)
        readers = [self.client(port, b"\x03" + text(b"/k")) for _ in range(64)]
        self.await_requests(port, "get", 64)
        status = self.status(port)
        self.assertLess(status["bytes"], len(value) + (1 << 20))
        self.client(port, b"\x08" + text(b"/k"))
        self.await_requests(port, "delete_key", 1)
        self.assertGreater(self.status(port)["bytes"], len(value), "it is still being sent")
        for reader in readers[1:]:
            reader.close()
        got = bytearray()
        while len(got) < 8 + len(value):
            some = readers[0].recv(1 << 20)
            self.assertNotEqual(some, b"", "the server hung up")
            got += some
        self.assertTrue(got == text(value))
        wait_until(lambda: self.status(port)["bytes"] < 1 << 20, "nobody carries the value any more")

    def test_those_that_do_not_read_make_room_for_the_others(self):
        server, port = self.serve("--max-total=32M", limits=self.MEMORY)
        keys = b"".join(b"\x01" + text(b"/%03d" % i + b"k" * 60000) + text(b"v") for i in range(150))
        self.client(port, keys)
        self.await_requests(port, "set", 150)
        for count in range(1, 21):
            self.client(port, b"\x11")
            self.await_requests(port, "list_keys", count)
            self.assertLessEqual(self.status(port)["bytes"], 32 << 20)
        self.answer(port, "set", "good", "v")
        self.assertEqual(self.answer(port, "get", "good"), b"v\n")
        server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=PATIENCE)
        self.assertEqual(server.returncode, 0, err)
        self.assertRegex(err, r"rejected 127\.0\.0\.1:\d+: it does not read its answers, and the store is full")

    def test_a_job_survives_those_that_do_not_read(self):
        """The same store as the job's agent serves it, filled as far as --store-max-total lets it."""
        port = free_port()
        def limit():
            for what, most in self.MEMORY.items():
                resource.setrlimit(what, (most, most))
        job = subprocess.Popen([DLAUNCH, "--nproc-per-node=1", f"--master-port={port}", "--store-max-total=64M", "cat"],
                               env=environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, preexec_fn=limit)
        self.addCleanup(self.finish, job)
        def runs():
            try:
                return self.status(port)["rounds"] == 1
            except OSError:
                return False
        wait_until(runs, "the job runs")
        for i in range(30):  # each of them sees its own value, though the next one replaces it
            value = text(b"/k") + text(bytes([i]) * (20 << 20))
            self.client(port, b"\x01" + value + b"\x03" + text(b"/k"))
            wait_until(lambda: self.status(port)["requests"]["get"] == i + 1 or self.status(port)["connections"]["turned_away"] > 0,
                       "its answer is on its way")
            self.assertLessEqual(self.status(port)["bytes"], 64 << 20)
        _, err = job.communicate("", timeout=PATIENCE)  # its worker ends with its input
        self.assertEqual(job.returncode, 0, err)
        self.assertIn("it does not read its answers, and the store is full", err)

    @unittest.skipIf(is_sanitized(), "a sanitizer's allocator ends the program where memory ends")
    def test_a_value_that_does_not_fit_in_memory_costs_its_connection_only(self):
        server, port = self.serve(limits=self.MEMORY)
        self.answer(port, "set", "good", "v")
        stranger = self.client(port, b"")
        stranger.settimeout(PATIENCE)
        stranger.sendall(b"\x01" + text(b"/k") + struct.pack("<Q", 900 << 20))
        with self.assertRaises(ConnectionError):
            for _ in range(900):
                stranger.sendall(bytes(1 << 20))
        self.assertEqual(self.answer(port, "get", "good"), b"v\n")
        self.assertIsNone(server.poll())


class Strangers(StoreCommand):
    """Hundreds of unauthenticated connections, with a low limit of open files."""
    FILES = {resource.RLIMIT_NOFILE: 128}
    BEGINNINGS = (b"", b"\xd1", b"GET /", b"\x00", GREETING)  # silent; as an agent, a prober, a client

    def come(self, port, count, beginning):
        strangers = []
        for _ in range(count):
            stranger = socket.create_connection(("127.0.0.1", port), PATIENCE)
            self.addCleanup(stranger.close)
            strangers.append(stranger)
            try:
                stranger.sendall(beginning)
            except ConnectionError:
                pass
        return strangers

    def be_healthy(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE) as page:
            self.assertEqual(page.read(), b"ok\n")

    def test_a_server_with_few_descriptors_answers_probers(self):
        for beginning in self.BEGINNINGS:
            _, port = self.serve(limits=self.FILES)
            held = self.come(port, 300, beginning)
            self.be_healthy(port)
            self.be_healthy(port)
            if beginning != GREETING:  # clients have an address's share, which is used up then
                self.answer(port, "set", "good", "v")
            for stranger in held:
                stranger.close()

    def test_nodes_join_while_unauthenticated_clients_hold_connections(self):
        def limit():
            for what, most in self.FILES.items():
                resource.setrlimit(what, (most, most))
        for beginning in self.BEGINNINGS:
            port = free_port()
            nodes = []
            for _ in range(2):
                nodes.append(subprocess.Popen(
                    [DLAUNCH, "--nproc-per-node=1", "--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=strangers", "true"],
                    env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limit))
                self.addCleanup(self.finish, nodes[-1])
                if len(nodes) == 2:
                    break
                wait_until(lambda: self.listens(port), "the first node serves")
                held = self.come(port, 300, beginning)
                self.be_healthy(port)
            for node in nodes:
                out, _ = node.communicate(timeout=PATIENCE)
                self.assertEqual(node.returncode, 0, out)
            for stranger in held:
                stranger.close()

    @staticmethod
    def listens(port):
        try:
            socket.create_connection(("127.0.0.1", port), PATIENCE).close()
            return True
        except OSError:
            return False


if __name__ == "__main__":
    main()
