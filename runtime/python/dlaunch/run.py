"""The program, for those that call torchrun as a library.

    main(["--nproc-per-node=2", "train.py"])                          # torchrun's arguments
    elastic_launch(LaunchConfig(1, 1, nproc_per_node=2), train)(7)    # {0: what train(7) returned, 1: ...}
"""

import contextlib
import glob
import json
import multiprocessing.reduction
import multiprocessing.spawn
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, Optional


def program():
    """The path of the dlaunch binary: DLAUNCH_PROGRAM, or the one beside this Python, or the one of PATH."""
    named = os.environ.get("DLAUNCH_PROGRAM")
    if named:
        return named
    beside = os.path.join(sysconfig.get_path("scripts"), "dlaunch")
    found = beside if os.access(beside, os.X_OK) else shutil.which("dlaunch")
    if not found:
        raise FileNotFoundError("the program dlaunch is neither beside this Python nor in PATH: install it, or set DLAUNCH_PROGRAM")
    return found


def main(argv=None):
    """Runs a job; returns when it has ended. Raises subprocess.CalledProcessError, with the job's exit code, if it failed."""
    command = [program(), *(sys.argv[1:] if argv is None else argv)]
    code = _run(command, None)
    if code:
        raise subprocess.CalledProcessError(code, command)


def _run(command, environment):
    """The exit code. A terminal sends SIGINT to dlaunch, too, which then stops its workers: that is waited for."""
    with subprocess.Popen(command, env=environment) as job:
        while True:
            try:
                return job.wait()
            except KeyboardInterrupt:
                if job.wait():
                    raise


class JobFailed(RuntimeError):
    """The text is that of the first cause. `exit_code`; `report`: as dlaunch --report writes it (man dlaunch-report)."""

    def __init__(self, text, exit_code, report):
        super().__init__(text)
        self.exit_code = exit_code
        self.report = report


@dataclass
class LaunchConfig:
    """torch.distributed's own LaunchConfig is accepted as well, and these of its fields are used. `log_dir`, `redirects` and
    `tee` are the values of dlaunch's flags; `flags` holds further ones, as on the command line."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    run_id: str = ""
    role: str = "default"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: Dict[str, Any] = field(default_factory=dict)
    max_restarts: int = 3
    monitor_interval: float = 0.1
    local_addr: Optional[str] = None
    event_log_handler: str = "null"
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    virtual_local_rank: bool = False
    shutdown_timeout: Optional[int] = None
    log_dir: str = ""
    redirects: str = ""
    tee: str = ""
    flags: tuple = ()


def _flags_of(config):
    conf = dict(config.rdzv_configs)
    named = {
        "nproc-per-node": config.nproc_per_node,
        "max-restarts": config.max_restarts,
        "monitor-interval": config.monitor_interval,
        "role": config.role,
        "event-log-handler": config.event_log_handler,
        "signals-to-handle": config.signals_to_handle,
        "local-addr": config.local_addr,
        "shutdown-timeout": config.shutdown_timeout,
        "log-dir": getattr(config, "log_dir", None),
        "redirects": getattr(config, "redirects", None),
        "tee": getattr(config, "tee", None),
        "rdzv-id": config.run_id,
    }
    if config.rdzv_endpoint:
        named["nnodes"] = f"{config.min_nodes}:{config.max_nodes}"
        named["rdzv-endpoint"] = config.rdzv_endpoint
        named["rdzv-backend"] = config.rdzv_backend
        if config.rdzv_backend == "static":
            named["node-rank"] = conf.pop("rank", None)
        named["rdzv-conf"] = ",".join(f"{key}={value}" for key, value in conf.items())
    elif config.max_nodes > 1:
        raise ValueError(f"max_nodes is {config.max_nodes}, but rdzv_endpoint is empty: the nodes cannot find each other")
    flags = [f"--{name}={value}" for name, value in named.items() if value not in (None, "")]
    if not config.rdzv_endpoint:
        flags.append("--standalone")
    if config.virtual_local_rank:
        flags.append("--virtual-local-rank")
    return [*flags, *getattr(config, "flags", ())]


def _report_of(file):
    """None: dlaunch ended before there was a job."""
    with contextlib.suppress(FileNotFoundError, ValueError), open(file, encoding="utf-8") as report:
        return json.load(report)
    return None


def _results(folder):
    """By global rank: of the last round in which the rank returned something."""
    found = {}
    for path in glob.glob(os.path.join(folder, "*.result")):
        job_round, rank = (int(part) for part in os.path.basename(path).split(".")[:2])
        if rank not in found or found[rank][0] < job_round:
            found[rank] = (job_round, path)
    results = {}
    for rank, (_, path) in sorted(found.items()):
        with open(path, "rb") as file:
            results[rank] = pickle.load(file)
    return results


class elastic_launch:  # noqa: N801 (torch.distributed's name)
    """As torch.distributed's: calling it runs `entrypoint` in each worker with the given arguments. A function must be one that
    the workers can import; its results come back by global rank, those of this node's workers. A command yields {}."""

    def __init__(self, config, entrypoint):
        self._config = config
        self._entrypoint = entrypoint

    def __call__(self, *args):
        with tempfile.TemporaryDirectory(prefix="dlaunch-call.") as folder:
            report = os.path.join(folder, "report")
            command = [program(), *_flags_of(self._config), f"--report={report}"]
            environment = dict(os.environ)
            if callable(self._entrypoint):
                call = os.path.join(folder, "call")
                with open(call, "wb") as file:
                    preparation = multiprocessing.spawn.get_preparation_data("dlaunch worker")
                    del preparation["authkey"]  # a secret, and of multiprocessing's own children
                    pickle.dump(preparation, file)
                    multiprocessing.reduction.dump((self._entrypoint, args), file)
                # The package itself may have come from a path that only this process has.
                own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
                environment["PYTHONPATH"] = os.pathsep.join(filter(None, (own, environment.get("PYTHONPATH"))))
                command += ["--no-python", sys.executable, "-u", "-m", "dlaunch.call", call]
            else:
                command += [self._entrypoint, *map(str, args)]
            code = _run(command, environment)
            if code:
                found = _report_of(report)
                cause = (found or {}).get("cause") or {}
                raise JobFailed(cause.get("text") or f"dlaunch exited with code {code}", code, found)
            return _results(folder)
