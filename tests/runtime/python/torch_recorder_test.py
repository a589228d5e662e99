#!/usr/bin/env python3
"""PyTorch's flight recorder as the Python package serves it to dlaunch: who answers, with what, and who is left alone."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
from common import BIN, DLAUNCH, PATIENCE, TORCH_PYTHON, environment, main, torch_version  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../runtime/python/dlaunch/torch/recorder.py")
OLDEST = (2, 9)  # the first whose gloo records
# Rank 0 asks rank 1, whose main thread waits in a collective without Python's lock.
ASKS = """
import json, os, socket, sys, time
import torch
import torch.distributed as dist

path = os.environ.get("DLAUNCH_TORCH_SOCKET", "")
assert not os.path.exists(path), "before there is a group"
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))

def ask(name):
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path.replace("_0.torch", "_1.torch"))
        server.sendall(f"POST /handler/{name} HTTP/1.1\\r\\nHost: worker\\r\\n\\r\\n".encode())
        answer = b"".join(iter(lambda: server.recv(65536), b""))
    head, _, body = answer.partition(b"\\r\\n\\r\\n")
    return head.split(b"\\r\\n")[0].decode(), body

if dist.get_rank() == 0:
    deadline = time.monotonic() + 60
    while True:
        status, body = ask("fr_trace_json")
        entries = json.loads(body)["entries"]
        if len(entries) == 2:
            break
        assert time.monotonic() < deadline, body
    print(status, [(e["profiling_name"], e["collective_seq_id"], e["retired"]) for e in entries], flush=True)
    print(ask("dump_nccl_trace_json")[0], ask("etc/passwd")[0], sep="; ", flush=True)
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
"""


def variables(**more):
    return {**environment(), "PYTHONPATH": os.path.join(os.path.dirname(BIN), "python"), "PYTHONWARNINGS": "ignore", **more}


def recorder():
    """The module alone: the package around it needs PyTorch."""
    spec = importlib.util.spec_from_file_location("recorder", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server(unittest.TestCase):
    def test_a_request_gets_its_record(self):
        module = recorder()
        module._HANDLERS = {"fr_trace_json": lambda: b'{"entries":[]}', "dump_nccl_trace_json": lambda: None}
        whole = b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{"entries":[]}'
        self.assertEqual(module.answer(b"GET /handler/fr_trace_json HTTP/1.1\r\n\r\n"), whole)
        for other in (b"", b"\r\n", b"GET", b"GET / HTTP/1.1\r\n\r\n", b"GET /handler/none HTTP/1.1\r\n\r\n", b"\xff \xff \xff",
                      b"GET /handler/dump_nccl_trace_json HTTP/1.1\r\n\r\n"):
            self.assertTrue(module.answer(other).startswith(b"HTTP/1.0 404 "), other)

    def test_only_the_first_process_of_a_worker_answers(self):
        module = recorder()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "0_0.torch")
            first = module._listen(path)
            self.addCleanup(first.close)
            self.assertIsNone(module._listen(path), "a process that it started")
            self.assertIsNone(module._listen(os.path.join(folder, "gone", "0_0.torch")), "the job has ended")

    def test_an_older_pytorch_gets_its_own_names(self):
        ours = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": "/job/0_flight_rank_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/own"}
        for number, expected in (("2.15.0", None), ("2.8.0+cu128", None), ("2.7.1", "2000"), ("1.13.0a0", "2000")):
            with self.subTest(number), mock.patch.dict(os.environ, ours, clear=True):
                recorder().use_older_names(number)
                self.assertEqual(os.environ.get("TORCH_NCCL_TRACE_BUFFER_SIZE"), expected)
                self.assertEqual(os.environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"], "/own", "the user's")
                self.assertNotIn("TORCH_NCCL_DUMP_ON_TIMEOUT", os.environ, "the user turned it off")


class Worker(unittest.TestCase):
    def run_job(self, program, *flags, ranks=2, **more):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "program.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(program)
            job = subprocess.run([DLAUNCH, f"--nproc-per-node={ranks}", *flags, "--no-python", TORCH_PYTHON, script], capture_output=True,
                                 text=True, timeout=2 * PATIENCE, check=False, env=variables(**more))
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        # PyTorch 2.9's gloo writes to stdout which ranks are connected.
        return job.stderr, [line for line in job.stdout.splitlines() if not line.startswith("[Gloo] ")]

    def test_pytorch_answers_while_its_program_waits(self):
        found = torch_version()
        if found is None or found < OLDEST:
            self.skipTest(f"PyTorch {found} of {TORCH_PYTHON} has no records of gloo")
        err, lines = self.run_job(ASKS)
        self.assertEqual(lines[0], "HTTP/1.0 200 OK [('gloo:all_reduce', 1, True), ('gloo:all_reduce', 2, False)]")
        self.assertRegex(lines[1], r"^HTTP/1.0 \d+ [\w ]+; HTTP/1.0 404 Not Found$")
        self.assertNotIn("deprecated", err)

    def test_pytorch_is_left_alone_if_the_user_wants_that(self):
        if torch_version() is None:
            self.skipTest(f"{TORCH_PYTHON} has no PyTorch")
        program = ("import os, threading, torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
                   "dist.all_reduce(torch.ones(1))\n"
                   "print(threading.active_count(), [n for n in os.environ if n.startswith('TORCH_FR') or n.endswith('_SOCKET')])\n"
                   "dist.destroy_process_group()\n")
        self.assertEqual(self.run_job(program, "--no-env-defaults")[1], ["1 []"] * 2)


if __name__ == "__main__":
    main()
