#!/usr/bin/env python3
"""Failures of a worker, or of its start, on one host.

    DLAUNCH_BIN_DIR=build/bin workers_cases_test.py [Class.test ...]
"""

import os
import shutil
import sys

sys.dont_write_bytecode = True
from staging import PLACE, RANK, TRAINER, Above, Failures, case  # noqa: E402

from common import is_sanitized, main  # noqa: E402
from control_group import ControlGroup  # noqa: E402


class Workers(Failures):
    def skip_if_sanitized(self):
        if is_sanitized():
            self.skipTest("the sanitizers handle signals, and take memory, themselves")

    @case(1, "a worker exits with code 3", code=3,
          cause=r"exited with code 3", rank=RANK, host=PLACE,
          remedy=r"^it wrote nothing; dlaunch \.\.\. gdb -batch .* --args \S+/trainer \.\.\. prints the stack from which it exits$")
    def test_01_exit(self):
        if not os.path.exists("/usr/bin/gdb"):
            self.skipTest("gdb is not installed, and only a debugger can help")
        return self.train("exit", 1)

    @case(2, "a null pointer", code=139,
          cause=r"signal 11 \(SIGSEGV\)(, core dumped)?: segmentation fault at address 0x0 \(a null pointer\), in trainer::write_to\(int\*\)",
          rank=RANK, host=PLACE, remedy=r"^addr2line -Cfpie \S+/trainer 0x[0-9a-f]+ .* on host {host} shows the source lines")
    def test_02_crash(self):
        self.skip_if_sanitized()
        return self.train("crash", 1)

    @case(3, "an exception that nothing catches", code=134,
          cause=r"signal 6 \(SIGABRT\).*: std::runtime_error: tokenizer: vocabulary has 31998 entries, thrown in trainer::tokenize\(\)",
          rank=RANK, host=PLACE, remedy=r"^addr2line -Cfpie \S+/trainer 0x[0-9a-f]+ .* on host {host} shows the source lines")
    def test_03_exception(self):
        self.skip_if_sanitized()
        return self.train("throw", 1)

    @case(4, "memory runs out in a cgroup", code=137,
          cause=r"signal 9 \(SIGKILL\): the kernel's out-of-memory killer \(limit 512 MiB of cgroup \S*/{group}\)", rank=RANK, host=PLACE,
          remedy=r"^raise the memory limit of 512 MiB, or (let the program use less|start fewer ranks).*: rank 1 held up to [345]\d\d(\.\d)? MiB")
    def test_04_out_of_memory(self):
        self.skip_if_sanitized()
        group = ControlGroup(self, memory=512 << 20)
        screen = self.train("memory", 1, workers=2, prefix=group.inside())
        screen.facts["group"] = group.name
        return screen

    @case(4, "ulimit -v",
          cause=r"std::bad_alloc", rank=RANK, host=PLACE, remedy=r"^raise ulimit -v on host {host}: it is 3\.8 GiB")
    def test_04_address_space(self):
        self.skip_if_sanitized()
        return self.train("memory", 1, workers=2, prefix=["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh"])

    @case(4, "a stranger's kill -9", code=137,
          cause=r"signal 9 \(SIGKILL\): by another process \(kill -9, .*\); memory had not run out", rank=RANK, host=PLACE,
          remedy=r"^dmesg, journalctl and the log of .* on host {host} may name who killed it$")
    def test_04_killed_by_hand(self):
        return self.run_to_the_end("--nproc-per-node=4", "sh", "-c", "echo $$ > pid.$RANK; [ $RANK = 1 ] && kill -KILL $$; exec sleep 1000", rank=1)

    @case(5, "a shared library is missing", code=127,
          cause=r"exited with code 127: the shared library libdlaunch\.so\.\S+ was not found", rank=r"rank \d \(local rank \d, node 0, ",
          host=r"host {host}, pid \d+\)", remedy=r"^dlaunch --export=LD_LIBRARY_PATH=\S+/lib \.\.\. \(libdlaunch\.so\.\S+ is there on host {host}\)$")
    def test_05_library(self):
        shutil.copy(TRAINER, self.dir)
        return self.run_to_the_end("--nproc-per-node=4", "./trainer", "none", "0")

    @case(6, "a typo in the program's name",
          cause=r"cannot start './trianer': No such file or directory", rank=None, host=None, remedy=Above(r"did you mean \./trainer\?"))
    def test_06_typo(self):
        shutil.copy(TRAINER, self.dir)
        return self.run_to_the_end("--nproc-per-node=4", "./trianer")

    @case(7, "a script that may not be executed",
          cause=r"cannot start './job': it may not be executed", rank=None, host=None, remedy=Above(r"chmod \+x \./job"))
    def test_07_mode(self):
        self.write("job", "#!/bin/sh\nexit 0\n")
        return self.run_to_the_end("./job")

    @case(7, "a script with Windows line ends",
          cause=r"cannot start './job': its interpreter /bin/sh: No such file or directory; it has Windows line ends", rank=None, host=None,
          remedy=Above(r"sed -i 's/\\r\$//' \./job"))
    def test_07_line_ends(self):
        os.chmod(self.write("job", "#!/bin/sh\r\nexit 0\r\n"), 0o755)
        return self.run_to_the_end("./job")

    @case(8, "the data are not there",
          cause=r"cannot read {dir}/data/train-images: No such file or directory", rank=RANK, host=PLACE,
          remedy=r"on host {host}: it has {dir}, but no {dir}/data$")
    def test_08_data(self):
        return self.train("data", 0, os.path.join(self.dir, "data", "train-images"))

    @case(25, "a Python exception",
          cause=r"KeyError: 'tokenizer'", rank=RANK, host=PLACE, remedy=Above(r'\| +File "{dir}/train\.py", line 4'))
    def test_25_python(self):
        self.write("train.py", "import os, time\nopen('pid.' + os.environ['RANK'], 'w').write(str(os.getpid()))\n"
                   "if os.environ['RANK'] == '1':\n    {}['tokenizer']\ntime.sleep(1000)\n")
        return self.run_to_the_end("--nproc-per-node=4", "train.py", rank=1)

    @case(27, "GPUs are asked for, and none is there",
          cause=r"--nproc-per-node=gpu: this machine has no usable device", rank=None, host=None,
          remedy=Above(r"check CUDA_VISIBLE_DEVICES, or use --nproc-per-node=auto"))
    def test_27_no_gpu(self):
        if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"):
            self.skipTest("this machine has GPUs")
        return self.run_to_the_end("--nproc-per-node=gpu", "true")

    @case(28, "a backend that is not there",
          cause=r"(unknown backend 'nccl': known backends: gloo \(usable\)|backend 'nccl' cannot be used: there is no NVIDIA driver)",
          rank=r"rank \d \(local rank \d, node 0, ", host=r"host {host}, pid \d+\)",
          remedy=r"^use (one of the backends that are there, or install the module backend_nccl\.so|the backend gloo, which needs neither a GPU nor MPI, or correct this) on host {host}")
    def test_28_backend(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has GPUs")
        return self.train("backend", 0, "nccl")

    @case(29, "WORLD_SIZE=abc",
          cause=Above(r"WORLD_SIZE is 'abc', not a number"), rank=RANK, host=PLACE,
          remedy=r"^let nothing between dlaunch and sh on host {host} set WORLD_SIZE ")
    def test_29_world_size(self):
        return self.run_to_the_end("--nproc-per-node=1", "sh", "-c", f"WORLD_SIZE=abc exec {TRAINER} none 0", rank=0)

    @case(29, "the same RANK twice",
          cause=Above(r"two processes have joined as rank 0: pid \d+ on {host} and this one, pid \d+ on {host}"), rank=r"rank [01] \(local rank [01], node 0, ",
          host=r"host {host}, pid \d+\)", remedy=r"^let nothing between dlaunch and sh on host {host} set RANK ")
    def test_29_rank(self):
        return self.run_to_the_end("--nproc-per-node=2", "sh", "-c", f"RANK=0 exec {TRAINER} none 0")

    @case(29, "an interface that is not there",
          cause=r"cannot use the network interface 'eth99'", rank=r"rank [01] \(local rank [01], node 0, ", host=r"host {host}, pid \d+\)",
          remedy=r"^unset GLOO_SOCKET_IFNAME, or name with it an interface of every host \(here on host {host}: .*\blo\b")
    def test_29_interface(self):
        return self.run_to_the_end("--nproc-per-node=2", "--export=GLOO_SOCKET_IFNAME=eth99", TRAINER, "none", "0")

    @case(30, "a flag with a typo", code=2,
          cause=r"unknown option --nproc-per-nod", rank=None, host=None, remedy=Above(r"did you mean --nproc-per-node\?"))
    def test_30_flag(self):
        return self.run_to_the_end("--nproc-per-nod=2", "true")


if __name__ == "__main__":
    main()
