#!/usr/bin/env python3
"""Where settings come from, and what workers get: files, variables, schedulers, CPUs, the interpreter.

    DLAUNCH_BIN_DIR=build/bin settings_test.py [Class.test ...]

Every wait is for an event and has a deadline.
"""

import ctypes
import json
import os
import platform
import re
import signal
import subprocess

from common import DLAUNCH, PATIENCE, environment, free_port, main
from launch_case import Launch


class Settings(Launch):
    def test_a_dry_run_prints_the_plan_and_starts_nothing(self):
        done = self.run_dlaunch("--dry-run", "--nproc-per-node=2", "--bind=core", "sh", "-c", "echo started > started.$RANK")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("rank 1:\n  command: sh -c 'echo started > started.$RANK'\n  cpus: ", done.stdout)
        self.assertEqual(os.listdir(self.dir), [])
        self.assertEqual(self.run_dlaunch("--dry-run", "no-such-program-anywhere").returncode, 1)

    def test_variables_and_a_file_set_flags(self):
        with open(os.path.join(self.dir, "job.json"), "w", encoding="utf-8") as file:
            file.write('{"nproc-per-node": 3, "role": "from_the_file"}')
        script = ("sh", "-c", "echo $RANK $ROLE_NAME $TORCHELASTIC_MAX_RESTARTS")
        done = self.run_dlaunch("--config=job.json", *script, PET_MAX_RESTARTS="4", DLAUNCH_ROLE="of_the_variable")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} of_the_variable 4" for rank in range(3)], done.stderr)
        done = self.run_dlaunch("--nproc-per-node=1", *script, DLAUNCH_CONFIG="job.json")
        self.assertEqual(done.stdout, "0 from_the_file 0\n")
        done = self.run_dlaunch("true", DLAUNCH_CONFIG="missing.json")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "dlaunch: DLAUNCH_CONFIG: cannot read missing.json: No such file or directory\n"))

    def test_a_slurm_step_of_one_node_is_reported_in_one_line(self):
        done = self.run_dlaunch("sh", "-c", "echo $TORCHELASTIC_RUN_ID", SLURM_JOB_ID="42", SLURM_STEP_ID="0", SLURM_NODEID="0",
                                SLURM_STEP_NUM_NODES="1", SLURM_STEP_NODELIST="c[7]")
        self.assertEqual((done.returncode, done.stdout), (0, "slurm-42.0\n"), done.stderr)
        self.assertEqual(done.stderr, "dlaunch: Slurm step 42.0: nodes 1, node rank 0, id slurm-42.0\n")

    def test_two_nodes_of_a_slurm_step_find_each_other(self):
        step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "127.0.0.[1-2]"}
        jobs = [subprocess.Popen([DLAUNCH, "sh", "-c", "echo $RANK of $WORLD_SIZE"], cwd=self.dir, text=True, stdin=subprocess.DEVNULL,
                                 env={**environment(), **step, "SLURM_NODEID": str(node)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for node in range(2)]
        for node, job in enumerate(jobs):
            self.addCleanup(self.finish, job)
            out, err = job.communicate(timeout=PATIENCE)
            self.assertEqual((job.returncode, out), (0, f"{node} of 2\n"), err)

    def test_mpirun_starts_the_nodes(self):
        open_mpi = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe")
        for command in (open_mpi, ("mpiexec.hydra",)):
            with self.subTest(command[0]):
                done = subprocess.run([*command, "-n", "2", DLAUNCH, "--nproc-per-node=2", f"--master-port={free_port()}",
                                       "sh", "-c", "echo $RANK of $WORLD_SIZE on $GROUP_RANK"],
                                      cwd=self.dir, env=environment(), text=True, stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} of 4 on {rank // 2}" for rank in range(4)])

    def test_two_runs_of_hydra_on_one_host_are_two_jobs(self):
        # Both are there at the same time, one of them started by a script; each ends only when both are.
        worker = 'echo > up.$1.$RANK; while [ ! -e up.0.0 -o ! -e up.0.1 -o ! -e up.1.0 -o ! -e up.1.1 ]; do sleep 0.01; done; ' \
                 'echo run $1 rank $RANK of $WORLD_SIZE at $MASTER_PORT id $TORCHELASTIC_RUN_ID'
        with open(os.path.join(self.dir, "between"), "w", encoding="utf-8") as script:
            script.write('#!/bin/sh\n"$@"\n')
        os.chmod(os.path.join(self.dir, "between"), 0o755)
        runs = [subprocess.Popen(["mpiexec.hydra", "-n", "2", *between, DLAUNCH, "sh", "-c", worker, "sh", str(run)], cwd=self.dir,
                                 env=environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for run, between in enumerate(((), ("./between",)))]
        for process in runs:
            self.addCleanup(self.finish, process)
        places = set()
        for run, process in enumerate(runs):
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, err)
            lines = sorted(out.splitlines())
            self.assertEqual([line.split(" at ")[0] for line in lines], [f"run {run} rank {rank} of 2" for rank in range(2)])
            self.assertEqual(len({line.split(" at ")[1] for line in lines}), 1)
            places.update(line.split(" at ")[1] for line in lines)
        self.assertEqual(len(places), 2)

    def test_events_on_the_console_are_lines_of_json(self):
        for arguments, variables in ((("--event-log-handler=console",), {}), ((), {"PET_EVENT_LOG_HANDLER": "console"})):
            done = self.run_dlaunch(*arguments, "--rdzv-id=j", "--nproc-per-node=2", "--events=events", "sh", "-c", "echo {rank $RANK >&2", **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stderr.splitlines()
            self.assertEqual(sorted(line for line in lines if line.startswith("{rank")), ["{rank 0", "{rank 1"])
            shown = [line for line in lines if not line.startswith("{rank")]
            told = [json.loads(line) for line in shown]
            self.assertEqual({one["job"] for one in told}, {"j"})
            self.assertEqual([one["event"] for one in told].count("started"), 2)
            self.assertIn("world", [one["event"] for one in told])
            with open(os.path.join(self.dir, "events"), encoding="utf-8") as file:
                self.assertEqual(file.read().splitlines()[-len(shown):], shown)

    def test_an_old_script_gets_its_local_rank_as_an_argument(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--pass-local-rank", "echo", "a")
        self.assertEqual(sorted(done.stdout.splitlines()), ["--local-rank=0 a", "--local-rank=1 a"])
        done = self.run_dlaunch("--pass_local_rank", "--use_env", "echo", "a", "--local_rank=${local_rank}")
        self.assertEqual(done.stdout, "a --local_rank=0\n")

    def test_a_named_signal_stops_the_job(self):
        job = self.start("--signals-to-handle=SIGUSR1", "sh", "-c", "trap 'echo got it > usr1; exit 0' USR1; echo $$ > pid.0; while :; do sleep 0.01; done")
        self.pids(1)
        job.send_signal(signal.SIGUSR1)
        _, err = job.communicate(timeout=PATIENCE)
        self.assertEqual(job.returncode, 128 + signal.SIGUSR1, err)
        self.assertTrue(os.path.exists(os.path.join(self.dir, "usr1")))


class Placement(Launch):
    AFFINITY = ("sh", "-c", "echo $LOCAL_RANK $OMP_NUM_THREADS $(grep Cpus_allowed_list: /proc/self/status | cut -f2)")

    def setUp(self):
        super().setUp()
        self.allowed = sorted(os.sched_getaffinity(0))

    @staticmethod
    def cpus(text):
        ends = [part.partition("-") for part in text.split(",")]
        return {cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)}

    def test_a_bound_worker_has_the_cpus_that_the_dry_run_names(self):
        for flag in ("--bind=core", "--bind=numa", "--numa-binding=node", "--numa-binding=exclusive", "--numa-binding=core-complex"):
            with self.subTest(flag):
                plan = self.run_dlaunch("--dry-run", "--nproc-per-node=2", flag, *self.AFFINITY)
                if "near GPU" in plan.stdout or "usable GPU" in plan.stderr:
                    continue  # a machine with GPUs: how they are attached is not this test's
                expected = [self.cpus(text) for text in re.findall(r"cpus: (\S+) ", plan.stdout)]
                done = self.run_dlaunch("--nproc-per-node=2", flag, *self.AFFINITY)
                lines = [line.split() for line in sorted(done.stdout.splitlines())]
                self.assertEqual([self.cpus(line[2]) for line in lines], expected, plan.stdout + done.stderr)
                self.assertTrue(all(mask <= set(self.allowed) for mask in expected))

    @staticmethod
    def memory_policy_is_allowed():
        number = {"x86_64": 239, "aarch64": 236}.get(platform.machine())  # get_mempolicy
        return number is not None and ctypes.CDLL(None).syscall(number, None, None, 0, None, 0) == 0

    def test_a_worker_bound_to_a_node_prefers_its_memory(self):
        if not os.path.exists("/sys/devices/system/node/node0"):
            self.skipTest("the kernel tells of no NUMA node here")
        if not self.memory_policy_is_allowed():
            self.skipTest("no memory policy may be asked for here")
        policy = ("sh", "-c", "head -n 1 /proc/self/numa_maps | cut -d' ' -f2")
        inherited = subprocess.run(policy, text=True, capture_output=True, timeout=PATIENCE, check=True).stdout
        for flag in ("--bind=numa", "--numa-binding=exclusive"):
            with self.subTest(flag):
                plan = self.run_dlaunch("--dry-run", "--nproc-per-node=2", flag, *policy)
                if "near GPU" in plan.stdout or "usable GPU" in plan.stderr:
                    continue  # a machine with GPUs: how they are attached is not this test's
                nodes = re.findall(r"memory: node (\d+) preferred", plan.stdout)
                self.assertEqual(len(nodes), 2, plan.stdout + plan.stderr)
                done = self.run_dlaunch("--nproc-per-node=2", flag, *policy)
                self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"prefer:{node}" for node in nodes), done.stderr)
        self.assertEqual(self.run_dlaunch("--bind=core", *policy).stdout, inherited)

    def test_cores_are_not_shared_if_there_are_enough(self):
        done = self.run_dlaunch("--nproc-per-node=2", "--bind=core", *self.AFFINITY)
        first, second = (self.cpus(line.split()[2]) for line in sorted(done.stdout.splitlines()))
        if len(self.allowed) > 1:
            self.assertEqual(first & second, set())
            self.assertEqual(first | second, set(self.allowed))
        else:
            self.assertEqual(first, second)

    def test_the_callers_own_mask_is_respected_and_threads_follow_the_cores(self):
        last = self.allowed[-1]
        done = subprocess.run(["taskset", "-c", str(last), DLAUNCH, "--bind=core", *self.AFFINITY], cwd=self.dir, env=environment(),
                              text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.stdout, f"0 1 {last}\n", done.stderr)

    def test_automatic_threads_are_a_share_of_the_callers_cpus(self):
        for workers in (1, 2, len(self.allowed) + 1):
            with self.subTest(workers):
                done = self.run_dlaunch(f"--nproc-per-node={workers}", "sh", "-c", "echo $OMP_NUM_THREADS", OMP_NUM_THREADS="auto")
                self.assertEqual(done.stdout, f"{max(1, len(self.allowed) // workers)}\n" * workers, done.stderr)

    def test_an_unbound_worker_has_what_dlaunch_has(self):
        done = self.run_dlaunch(*self.AFFINITY)
        self.assertEqual(self.cpus(done.stdout.split()[-1]), set(self.allowed))

    def test_a_virtual_local_rank_sees_one_gpu(self):
        done = self.run_dlaunch("--virtual-local-rank", "--nproc-per-node=2", "sh", "-c", "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES",
                                CUDA_VISIBLE_DEVICES="4,GPU-ab")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 0 4", "1 0 GPU-ab"])
        done = self.run_dlaunch("--virtual-local-rank", "--nproc-per-node=2", "true", CUDA_VISIBLE_DEVICES="4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("CUDA_VISIBLE_DEVICES names 1 GPU", done.stderr)

    def test_error_files_go_with_log_files_and_signals_are_reported(self):
        script = ("sh", "-c", "echo ${TORCHELASTIC_ERROR_FILE-unset}, $TORCHELASTIC_SIGNALS_TO_HANDLE; echo last words >&2; "
                  '[ -z "$TORCHELASTIC_ERROR_FILE" ] || exit 0; exit 3')
        done = self.run_dlaunch("--log-dir=/dev/null", *script, TORCHELASTIC_ERROR_FILE="")
        self.assertEqual((done.returncode, done.stdout), (3, ", SIGTERM,SIGINT,SIGHUP,SIGQUIT\n"), done.stderr)
        self.assertIn("last words", done.stderr[len("last words"):])
        done = self.run_dlaunch("--signals-to-handle=SIGUSR1,TERM", *script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^/\S+error\.json, SIGUSR1,SIGTERM\n$")

    def test_what_dlaunch_sets_by_itself_can_be_left(self):
        script = ("sh", "-c", "echo ${OMP_NUM_THREADS-unset} ${GLOO_ENABLE_STORE_V2_API-unset} ${GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER-unset}")
        self.assertEqual(self.run_dlaunch("--nproc-per-node=2", *script).stdout, "1 1 1\n" * 2)
        self.assertEqual(self.run_dlaunch("--nproc-per-node=2", "--no-env-defaults", *script).stdout, "unset unset unset\n" * 2)
        self.assertEqual(self.run_dlaunch(*script, GLOO_ENABLE_STORE_V2_API="0").stdout, "unset 0 1\n")


class Python(Launch):
    def test_a_script_is_started_with_unbuffered_python_by_default(self):
        with open(os.path.join(self.dir, "job.py"), "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\nimport = 0\n")
        with open(os.path.join(self.dir, "fake"), "w", encoding="utf-8") as python:
            python.write('#!/bin/sh\necho "$@"\n')
        os.chmod(os.path.join(self.dir, "fake"), 0o755)
        os.chmod(os.path.join(self.dir, "job.py"), 0o755)
        self.assertEqual(self.run_dlaunch("job.py", "--epochs=2", PYTHON_EXEC="./fake").stdout, "-u job.py --epochs=2\n")
        self.assertEqual(self.run_dlaunch("-m", "pkg.mod", "x", PYTHON_EXEC="./fake").stdout, "-u -m pkg.mod x\n")
        self.assertEqual(self.run_dlaunch("--no-python", "./job.py").returncode, 127)

    def test_source_is_known_by_what_lies_there(self):
        def write(name, text, mode=0o644):
            path = os.path.join(self.dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, mode)
        write("bin/fake", '#!/bin/sh\necho "$@"\n', 0o755)
        write("bin/both", "#!/bin/sh\necho of PATH\n", 0o755)
        write("bin/pkg2", "#!/bin/sh\necho of PATH\n", 0o755)
        write("both", "")
        write("pkg2/__main__.py", "")
        write("noext", "print(1)\n")
        write("named", "#!/usr/bin/env python3\nprint(1)\n")
        write("exec", "#!/bin/sh\necho itself\n", 0o755)
        write("app.pyz", "")
        write("pkgdir/__main__.py", "")
        os.symlink("noext", os.path.join(self.dir, "link"))
        variables = {"PYTHON_EXEC": "./bin/fake", "PATH": f"{self.dir}/bin:/usr/bin:/bin"}
        for program in ("noext", "./noext", "./named", "./link", "app.pyz", "./app.pyz", "pkgdir", "./pkgdir/", "./both", "./pkg2"):
            with self.subTest(program):
                done = self.run_dlaunch(program, "--x", **variables)
                self.assertEqual((done.returncode, done.stdout), (0, f"-u {program} --x\n"), done.stderr)
        for program, output in (("both", "of PATH\n"), ("pkg2", "of PATH\n"), ("./exec", "itself\n")):
            with self.subTest(program):
                done = self.run_dlaunch(program, **variables)
                self.assertEqual((done.returncode, done.stdout), (0, output), done.stderr)
        done = self.run_dlaunch("exec", **variables)
        self.assertEqual((done.returncode, done.stderr), (1, "dlaunch: cannot start 'exec': it is not on PATH; did you mean ./exec?\n"))
        done = self.run_dlaunch("pkgdir", **{**variables, "PYTHON_EXEC": "python3"})
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
