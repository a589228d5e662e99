"""The GPUs of this machine, for tests that use them."""

import os
import shutil
import subprocess


def count():
    listed = shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines()) if listed else 0


def variables(ranks):
    """The environment of ranks on them; they share them if there are too few, which NCCL allows since 2.30."""
    libraries = os.environ.get("DLAUNCH_GPU_LIBRARIES", os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64"))
    shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if ranks > count() else {}
    return {"LD_LIBRARY_PATH": libraries} | shared
