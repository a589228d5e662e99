"""The backend in C++, which takes the interpreter out of its calls, built for the PyTorch and the Python of this machine.

    python3 -m dlaunch.torch.extension             # builds it once, about a minute; needs a C++ compiler and Python's headers
    python3 -m dlaunch.torch.extension --remove    # of every PyTorch

Backend dlaunch uses it from then on. DLAUNCH_TORCH_EXTENSION=0 does without it, for a comparison. Ranks with it and ranks without
it work together.
"""

import argparse
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import torch

from dlaunch import library
from dlaunch.call_sites import name_caller, names_callers

_NAME = "dlaunch_torch"
_SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")
# Of the wheel, whose prefix is that of PREFIX/lib/python3.x/site-packages; of pip install --target=DIR; of the source tree.
_HEADERS = ("../../../../../include", "../../include", "../../../include")


class Missing(RuntimeError):
    """Something that building needs."""


def _folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "dlaunch", "torch-extension")


@functools.cache
def _path():
    """Of what was built from these sources for this PyTorch, this Python and this libdlaunch."""
    parts = hashlib.sha256(f"{torch.__version__} {torch.version.git_version} {library.SONAME}".encode())
    for name in sorted(os.listdir(_SOURCES)):
        with open(os.path.join(_SOURCES, name), "rb") as file:
            parts.update(name.encode() + file.read())
    version = torch.__version__.split("+")[0]
    return os.path.join(_folder(), f"{_NAME}-{version}-{parts.hexdigest()[:16]}{sysconfig.get_config_var('EXT_SUFFIX')}")


def _headers():
    here = os.path.dirname(os.path.realpath(__file__))
    beside = [os.path.normpath(os.path.join(here, way)) for way in _HEADERS]
    for place in (*beside, os.path.join(sys.prefix, "include"), "/usr/local/include", "/usr/include"):
        if os.path.exists(os.path.join(place, "dlaunch", "dlaunch.h")):
            return place
    raise Missing("libdlaunch's header dlaunch/dlaunch.h is not there: install libdlaunch-dev, or the wheel")


def _command(compiler, output):
    torch_folder = os.path.dirname(torch.__file__)
    python = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(python, "Python.h")):
        raise Missing(f"Python's header {python}/Python.h is not there: install python3-dev")
    return [compiler, "-std=c++20", "-O2", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={_NAME}",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
            *(word for folder in (os.path.join(torch_folder, "include"), os.path.join(torch_folder, "include/torch/csrc/api/include"),
                                  python, _headers()) for word in ("-isystem", folder)),
            os.path.join(_SOURCES, "extension.cpp"), "-o", output,
            "-L" + os.path.join(torch_folder, "lib"), "-lc10", "-ltorch_cpu", "-ltorch_python", library.link_argument()]


def build():
    """Builds it, if that has not been done. Returns its path."""
    path = _path()
    if os.path.exists(path):
        return path
    named = os.environ.get("CXX") or "c++"
    compiler = shutil.which(named)
    if compiler is None:
        raise Missing(f"there is no C++ compiler {named}: install one (g++), or name it in CXX")
    os.makedirs(_folder(), exist_ok=True)
    handle, made = tempfile.mkstemp(suffix=".so", dir=_folder())
    os.close(handle)
    try:
        subprocess.run(_command(compiler, made), check=True)
        os.chmod(made, 0o755)
        os.replace(made, path)  # at once: other processes may build it too
    finally:
        if os.path.exists(made):
            os.unlink(made)
    return path


@functools.cache
def module():
    """The module of C++, or None if it has not been built."""
    # Most have built none: their sources are not read at the start of each rank.
    if os.environ.get("DLAUNCH_TORCH_EXTENSION") == "0" or not os.path.isdir(_folder()) or not os.path.exists(_path()):
        return None
    spec = importlib.util.spec_from_file_location(_NAME, _path())
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    if not torch.cuda.is_available():  # with GPUs the variable would change NCCL's buckets too
        # DistributedDataParallel asks the backend for its buckets' memory.
        os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    return made


def make(group, store, rank, job_ranks, timeout_ms, form, other_devices=None, is_alone=False):
    """The backend in C++ of a group that has been formed, or the process group if it has no other backend (`is_alone`). `form`: forms
    a group of a part of it: (store, rank, size, timeout_ms, job_ranks, name). `other_devices`: gives the backend for tensors that are
    not on the CPU."""

    def split(store, ranks, rank, timeout_ms, name):
        return make(form(store, rank, len(ranks), timeout_ms, ranks, name), store, rank, ranks, timeout_ms, form)

    return module().make(group.value, rank, job_ranks, timeout_ms, store, name_caller if names_callers else None, other_devices, split,
                         is_alone)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m dlaunch.torch.extension", description="Builds backend dlaunch in C++ for this PyTorch.")
    parser.add_argument("--remove", action="store_true", help="remove what was built, for every PyTorch")
    if parser.parse_args(arguments).remove:
        shutil.rmtree(_folder(), ignore_errors=True)
        return 0
    try:
        was_there = os.path.exists(_path())
        path = build()
    except (Missing, OSError) as problem:
        print(f"dlaunch: the extension cannot be built: {problem}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as problem:
        print(f"dlaunch: the extension cannot be built: the compiler failed with code {problem.returncode} (see above). Backend dlaunch "
              "works without it", file=sys.stderr)
        return 1
    print(f"dlaunch: {path} {'was there already' if was_there else 'has been built'}: backend dlaunch uses it with PyTorch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
