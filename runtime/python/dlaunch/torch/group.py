"""Process groups: how PyTorch makes, splits and ends them."""

import ctypes
import hashlib
import sys

import torch
import torch.distributed as dist

from dlaunch.library import Calls, SeparateGroupOptions
from dlaunch.torch import extension
from dlaunch.torch.calls import GroupCalls
from dlaunch.torch.errors import check
from dlaunch.torch.memory import allocate
from dlaunch.torch.store import store_of
from dlaunch.torch.work import milliseconds

_Backend = torch._C._distributed_c10d.Backend
# From 2.14 on. Before, a backend in Python is a whole group, and cannot be that of one device beside others'.
HAS_BACKENDS_IN_PYTHON = hasattr(dist.Backend, "_ensure_backend_registered")


def _form(store, rank, size, timeout_ms, job_ranks, name):
    if job_ranks:
        # PyTorch may name groups of other ranks alike (new_subgroups with a group), and give them one part of the store.
        members = ",".join(str(member) for member in job_ranks)
        store = dist.PrefixStore(f"dlaunch/{hashlib.sha256(members.encode()).hexdigest()[:16]}", store)
    own = store_of(store, timeout_ms)
    group = ctypes.c_void_p()
    options = SeparateGroupOptions(store=own, rank=rank, world_size=size, timeout_ms=timeout_ms, name=name.encode())
    if job_ranks:
        options.ranks = (ctypes.c_int * size)(*job_ranks)
    try:
        check(Calls.make_separate_group(ctypes.byref(options), ctypes.byref(group)))
    finally:
        Calls.store_free(own)
    return group


class _Formed(GroupCalls):
    def _make(self, store, rank, size, timeout, job_ranks, name):
        self._store = store  # PyTorch's server may live in it
        self._default_timeout = timeout
        self._job_ranks = list(job_ranks) or list(range(size))
        self._group = _form(store, rank, size, milliseconds(timeout), job_ranks, name)

    # What PyTorch asks of a backend. Its own answers for one in Python call themselves without end.
    supports_coalescing = False  # in one call: several messages begin one by one, as with gloo
    supports_reconfigure = False
    supports_shrinking = False
    supports_window = False
    _supports_time_estimate = False

    def __del__(self, is_finalizing=sys.is_finalizing):  # at the very end `sys` is gone
        # PyTorch calls shutdown() before, if the program destroys the group; at the process's end the library leaves it.
        if not is_finalizing():
            self.shutdown()

    def _part(self, ranks, opts):
        """Arguments for a new group of these ranks of this one; this process is one of them."""
        timeout = getattr(opts, "_timeout", None) or self._default_timeout
        return (list(ranks).index(self.rank()), len(ranks), timeout, [self._job_ranks[rank] for rank in ranks],
                "split " + ",".join(str(rank) for rank in ranks))


class DlaunchBackend(_Formed, _Backend):
    """The group's part on CPUs, beside other devices' backends; PyTorch's C++ calls it."""

    def __init__(self, store, rank, size, timeout, job_ranks=(), name="default"):
        _Backend.__init__(self, rank, size)
        self._make(store, rank, size, timeout, job_ranks, name)

    def getBackendName(self):
        return "dlaunch"

    @property
    def supports_splitting(self):
        return True

    @property
    def options(self):
        return _Backend.Options("dlaunch", self._default_timeout)

    def supports_tensor_alloc(self, device):
        # The C++ of PyTorch 2.15 gives an index here, and cannot call allocate_tensor() in Python.
        return isinstance(device, torch.device) and device.type == "cpu"

    def allocate_tensor(self, size, *, dtype, device):
        """For FSDP2's set_allocate_memory_from_process_group_for_comm(), and for programs: reductions of such tensors copy nothing."""
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"backend dlaunch allocates tensors on the CPU; {device} is asked for")
        return allocate(self._group, size, dtype)

    def split(self, store, ranks, opts):
        return DlaunchBackend(store, *self._part(ranks, opts)) if self.rank() in ranks else None


class _OwnBackend(DlaunchBackend):
    """What PyTorch's C++ finds as the backend of a DlaunchProcessGroup: the same group, which belongs to that."""

    def __init__(self, owner):
        _Backend.__init__(self, owner.rank(), owner.size())
        self._default_timeout = owner._default_timeout
        self._job_ranks = owner._job_ranks
        self._group = owner._group
        self._store = owner._store

    def shutdown(self):
        self._group = None


class _Named(dist.ProcessGroup):
    """A group whose names its own Python keeps: before 2.14 PyTorch has none for a group without backends."""

    _names = ("", "")

    def _set_group_name(self, name):
        self._names = (name, self._names[1])

    def _set_group_desc(self, description):
        self._names = (self._names[0], description)

    @property
    def group_name(self):
        return self._names[0]

    @property
    def group_desc(self):
        return self._names[1]


class DlaunchProcessGroup(_Formed, dist.ProcessGroup if HAS_BACKENDS_IN_PYTHON else _Named):
    """A group of this backend alone. PyTorch's Python calls it without a way through C++."""

    def __init__(self, store, rank, size, timeout, job_ranks=(), name="default"):
        super().__init__(rank, size)
        self._make(store, rank, size, timeout, job_ranks, name)
        self._backend = None
        if not HAS_BACKENDS_IN_PYTHON:
            return
        self._backend = _OwnBackend(self)
        custom = dist.ProcessGroup.BackendType.CUSTOM
        self._register_backend(torch.device("cpu"), custom, self._backend)
        self._set_default_backend(custom)

    def getBackendName(self):
        return "dlaunch"

    def name(self):
        return "dlaunch"

    def shutdown(self):
        if self._backend is not None:
            self._backend.shutdown()
        super().shutdown()

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None, **_devices):
        if self.rank() not in ranks:
            return None
        arguments = list(self._part(ranks, opts))
        arguments[2] = timeout or arguments[2]
        made = DlaunchProcessGroup(dist.PrefixStore(f"{group_name}/", self._store), *arguments)
        made._set_group_name(group_name or arguments[4])
        made._set_group_desc(group_desc or arguments[4])
        return made


def _is_alone(frame):
    """Whether the group being made has no other backend. PyTorch does not pass it on; `frame` is its function."""
    config = frame.f_locals.get("backend_config")
    return config is not None and len(set(config.get_device_backend_map().values())) == 1


def _for_all_devices(group, frame):
    """The backend in C++ has only the CPU's tensors, and gives those of other devices to others."""
    backend = group._get_backend(torch.device("cpu"))
    for device in frame.f_locals["backend_config"].get_device_backend_map():
        if device != "cpu":
            group._register_backend(torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, backend)
    return group


def make(opts, frame, kinds=None, other_devices=None):
    """For Backend.register_backend(). `frame`: of the function that makes PyTorch's group. `kinds`: the class to use for each of the two
    here; `other_devices`: what the backend in C++ uses for other tensors than the CPU's."""
    job_ranks = list(opts.global_ranks_in_group or [])
    name = f"group {opts.group_id}" if job_ranks else "default"
    if extension.module():
        timeout_ms = milliseconds(opts.timeout)
        group = _form(opts.store, opts.group_rank, opts.group_size, timeout_ms, job_ranks, name)
        made = extension.make(group, opts.store, opts.group_rank, job_ranks or list(range(opts.group_size)), timeout_ms, _form,
                              other_devices, _is_alone(frame))
        return _for_all_devices(made, frame) if isinstance(made, dist.ProcessGroup) else made
    kind = DlaunchProcessGroup if _is_alone(frame) else DlaunchBackend
    if kind is DlaunchBackend and not HAS_BACKENDS_IN_PYTHON:
        raise RuntimeError(f"backend dlaunch cannot be that of one device beside others in PyTorch {torch.__version__}: use 2.14 or newer, "
                           "or name it alone, as in init_process_group('dlaunch')")
    return (kinds or {}).get(kind, kind)(opts.store, opts.group_rank, opts.group_size, opts.timeout, job_ranks, name)
