#!/usr/bin/env python3
"""dlaunch.run: the launcher as a Python library, with functions and commands of a program."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../process"))
from common import BIN, DLAUNCH, PATIENCE, environment, free_port, main  # noqa: E402

PACKAGE = os.path.join(os.path.dirname(BIN), "python")
PROGRAM = """
import os, signal, sys, time
from dlaunch.run import JobFailed, LaunchConfig, elastic_launch


def square(number):
    rank = int(os.environ["RANK"])
    return {"rank": rank, "square": number * number, "module": __name__}


def second_time(folder):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise RuntimeError("the first time it fails")
    return os.environ["TORCHELASTIC_RESTART_COUNT"]


def fails():
    if os.environ["RANK"] == "1":
        raise ValueError("no such thing")
    time.sleep(1000)


def waits():
    print("waiting", flush=True)
    time.sleep(1000)


if __name__ == "__main__":
"""


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.variables = {**environment(), "PYTHONPATH": PACKAGE, "DLAUNCH_PROGRAM": DLAUNCH}

    def script(self, *lines):
        path = os.path.join(self.folder.name, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM + "".join(f"    {line}\n" for line in lines))
        return path

    def program(self, *lines):
        """The stdout of a program whose main part these lines are; it must succeed."""
        done = subprocess.run([sys.executable, self.script(*lines)], capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env=self.variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_a_function_returns_by_rank(self):
        printed = self.program("print(elastic_launch(LaunchConfig(1, 1, 3), square)(7))")
        own = {rank: {"rank": rank, "square": 49, "module": "__mp_main__"} for rank in range(3)}
        self.assertEqual(printed, f"{own}\n")

    def test_a_restarted_function_returns_its_last_results(self):
        printed = self.program("print(elastic_launch(LaunchConfig(1, 1, 2, max_restarts=2), second_time)('x'))")
        self.assertEqual(printed, "{0: '1', 1: '1'}\n")

    def test_a_failure_names_the_rank_and_its_exception(self):
        printed = self.program("try:", "    elastic_launch(LaunchConfig(1, 1, 2, max_restarts=0), fails)()",
                               "except JobFailed as error:",
                               "    print(error.exit_code, error.report['cause']['rank'], error)")
        self.assertRegex(printed, r"^1 1 rank 1 \(local rank 1, .*\) exited with code 1.*ValueError: no such thing")

    def test_a_command_gets_its_arguments(self):
        printed = self.program("print(elastic_launch(LaunchConfig(1, 1, 1, flags=('--no-python',)), 'echo')('one', 2))")
        self.assertEqual(printed, "one 2\n{}\n")

    def test_nodes_of_a_static_rendezvous(self):
        printed = self.program(
            "import threading",
            f"endpoint, results = '127.0.0.1:{free_port()}', {{}}",
            "def node(number):",
            "    config = LaunchConfig(2, 2, 1, run_id='two', rdzv_backend='static', rdzv_endpoint=endpoint,",
            "                          rdzv_configs={'rank': number})",
            "    results[number] = elastic_launch(config, square)(3)",
            "nodes = [threading.Thread(target=node, args=(number,)) for number in range(2)]",
            "[thread.start() for thread in nodes], [thread.join() for thread in nodes]",
            "print(sorted((number, list(found)) for number, found in results.items()))").splitlines()
        self.assertEqual(printed[-1], "[(0, [0]), (1, [1])]")

    def test_several_nodes_need_an_endpoint(self):
        printed = self.program("try: elastic_launch(LaunchConfig(2, 2, 1), square)(1)", "except ValueError as error: print(error)")
        self.assertEqual(printed, "max_nodes is 2, but rdzv_endpoint is empty: the nodes cannot find each other\n")

    def test_an_interrupt_stops_the_job_first(self):
        script = self.script("elastic_launch(LaunchConfig(1, 1, 1), waits)()")
        own = {**self.variables, "DLAUNCH_STOP_TIMEOUT": "5"}
        with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own,
                              start_new_session=True) as job:
            self.assertEqual(job.stdout.readline(), "waiting\n")
            os.killpg(job.pid, signal.SIGINT)  # as a terminal does
            _, errors = job.communicate(timeout=PATIENCE)
        self.assertTrue(errors.rstrip().endswith("KeyboardInterrupt"), errors)
        self.assertIn("dlaunch: ", errors)

    def test_main_raises_with_the_jobs_exit_code(self):
        printed = self.program("import subprocess", "from dlaunch.run import main", "try: main(['--no-python', 'sh', '-c', 'exit 7'])",
                               "except subprocess.CalledProcessError as error: print(error.returncode)")
        self.assertEqual(printed, "7\n")


if __name__ == "__main__":
    main()
