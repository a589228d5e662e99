#!/usr/bin/env python3
"""What users get wrong: each mistake has one line that names it.

    DLAUNCH_BIN_DIR=build/bin mistakes_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import os
import shutil
import socket

from common import PATIENCE, free_port, main
from launch_case import Launch


class Mistakes(Launch):
    def expect(self, code, text, *arguments):
        done = self.run_dlaunch(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_each_is_answered_in_one_line(self):
        with open(os.path.join(self.dir, "script"), "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\nexit 0\n")
        shutil.copyfile("/bin/true", os.path.join(self.dir, "compiled"))  # without its mode
        os.mkdir(os.path.join(self.dir, "folder"))
        self.expect(2, "no program given")
        self.expect(2, "--nproc-per-node: 0 is out of range", "--nproc-per-node=0", "true")
        self.expect(2, "'many' is not a number", "--nproc-per-node=many", "true")
        self.expect(2, "--max-restarts: 'x' is not a number", "--max-restarts", "x", "true")
        self.expect(2, "--node-rank=2 is outside --nnodes=2", "--nnodes=2", "--node-rank=2", "true")
        self.expect(2, "did you mean --nproc-per-node?", "--nproc-per-nod=2", "true")
        self.expect(2, "--master-port: 70000 is out of range", "--master-port=70000", "true")
        self.expect(1, "No such file or directory", "./missing")
        self.expect(1, "it may not be executed; chmod +x ./script", "./script")
        self.expect(1, "it may not be executed; chmod +x compiled, and start ./compiled", "compiled")
        self.expect(1, "cannot start 'folder': it is a directory", "folder")
        self.expect(1, "no such program on PATH", "no-such-program-anywhere")
        self.expect(1, "cannot make a log directory in script: Not a directory; choose another --log-dir", "--log-dir=script", "true")
        self.expect(1, "cannot make a log directory in script/x: Not a directory", "--log-dir=script/x", "true")
        for name, first_line, answer in (
                ("gone", "#! /no/such/interpreter -x", "its interpreter /no/such/interpreter: No such file or directory; correct its first line"),
                ("windows", "#!/bin/sh\r", "its interpreter /bin/sh: No such file or directory; it has Windows line ends")):
            with open(os.path.join(self.dir, name), "w", encoding="utf-8", newline="") as script:
                script.write(first_line + "\nexit 0\n")
            os.chmod(os.path.join(self.dir, name), 0o755)
            self.expect(1, f"cannot start './{name}': {answer}", f"./{name}")
        self.expect(1, "missing.py", "missing.py")

    def test_each_wrong_address_has_its_own_answer(self):
        for arguments, answer in (
                (("--local-addr=10.255.255.1",), r"cannot listen on 10\.255\.255\.1:0: not an address of this machine; --local-addr must name an address"),
                (("--master-addr=10.255.255.1",), r"--master-addr must name an address of this machine"),
                (("--rdzv-endpoint=10.255.255.1:29500",), r"--rdzv-endpoint must name an address of this machine")):
            with self.subTest(arguments=arguments):
                done = self.run_dlaunch(*arguments, "true")
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, answer)

    def test_an_unknown_name_is_reported(self):
        name = "no-such-host.invalid"
        no_names = f"cannot listen on {name}:\\d+: the name service does not answer; this machine cannot look that name up; give its address"
        done = self.run_dlaunch(f"--master-addr={name}", "true")
        self.assertRegex(done.stderr, f"{no_names} with --master-addr|cannot listen on {name}:0: name not known; check its spelling, "
                                      "/etc/hosts and DNS, or give this machine's address with --master-addr")
        done = self.run_dlaunch("--nnodes=2", "--node-rank=0", f"--master-addr={name}", f"--master-port={free_port()}", "--join-timeout=0.3", "true")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rf"{no_names}|the name {name} \(--master-addr\) is not known on this machine: the store listens on all interfaces")

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.expect(1, f"in use by process {os.getpid()} ", f"--master-port={port}", "true")

    def test_a_master_that_never_answers_is_named(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound, not listening: refuses for as long as we hold it
            port = closed.getsockname()[1]
            done = self.run_dlaunch("--nnodes=2", "--node-rank=1", f"--master-port={port}", "--join-timeout=0.3", "true")
            self.assertEqual(done.returncode, 1, done.stderr)
            # On a busy machine, even an immediate rejection may be noticed too late.
            self.assertRegex(done.stderr, rf"^dlaunch: failed: waited 300 ms for node 0 at 127\.0\.0\.1:{port}, which never answered: "
                                          r"(connection refused|no answer within \S+ \w+) \(the host .*\)\n"
                                          rf"  try: .* dlaunch doctor --peer=127\.0\.0\.1:{port}\n$")

    def test_another_server_at_the_port_is_reported(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            job = self.start("--nnodes=2", "--node-rank=1", f"--master-port={port}", "true")
            other.settimeout(PATIENCE)
            with other.accept()[0] as connection:
                connection.recv(1)  # else closing would take the answer back
                connection.sendall(b"<!DOCTYPE HTML><title>Error response</title>")
                err = job.communicate(timeout=PATIENCE)[1]
            self.assertEqual(job.returncode, 1)
            self.assertIn("the peer is not dlaunch: it begins with '<!DOCTYPE HTML><title>", err)

    def test_nodes_that_never_come_are_named(self):
        done = self.run_dlaunch("--nnodes=3", "--node-rank=0", f"--master-port={free_port()}", "--join-timeout=0.3", "true")
        self.assertRegex(done.stderr, r"\Adlaunch: failed: nodes 1 and 2 of 3 did not join at .*\n"
                                      r"  try: start this command on the missing nodes, with the --node-rank of each: 1, 2; .*\n\Z")

    def test_help(self):
        self.assertIn("Usage: dlaunch [options] program", self.run_dlaunch("--help").stdout)


if __name__ == "__main__":
    main()
