"""Backend dlaunch for programs that name gloo, or no backend: `dlaunch --accelerate=gloo`, or DLAUNCH_ACCELERATE=gloo.

Such a program keeps the name: `get_backend()` is "gloo". Tensors of other devices than the CPU go to the real gloo.
"""

import functools
import os
import sys

import torch
import torch.distributed as dist

OLDEST = (2, 14)  # the first PyTorch that has its own backends as plug-ins
# Calls with tensors: those for which another device than the CPU may be used.
_CALLS = ("allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "allgather_coalesced", "all_gather_single",
          "all_gather_single_coalesced", "gather", "scatter", "reduce_scatter", "reduce_scatter_single",
          "reduce_scatter_single_coalesced", "alltoall", "all_to_all_single", "send", "recv", "recv_anysource")


def _note(text):
    """By rank 0 of the job."""
    if os.environ.get("RANK", "0") == "0":
        print(f"dlaunch: {text}", file=sys.stderr, flush=True)


@functools.cache
def _note_use():
    _note("backend gloo is dlaunch's (--accelerate=gloo)")


class _Gloo:
    """The real one of a group, made when it is first needed."""

    def __init__(self, make, opts, backend_options):
        self._make = make
        self._opts = opts
        self._backend_options = backend_options
        self._made = None
        opts.store = dist.PrefixStore("gloo", opts.store)
        if torch.cuda.is_available():
            self.get()  # by all ranks: a message to one of them is not a call of all

    def get(self):
        if self._made is None:
            self._made = self._make(self._opts, self._backend_options)
        return self._made


def _falling_back(name, ours):
    @functools.wraps(ours)
    def call(self, *arguments, **named):
        from dlaunch.torch.errors import NotOffered

        try:
            return ours(self, *arguments, **named)
        except NotOffered:
            return getattr(self._gloo.get(), name)(*arguments, **named)

    return call


def _with_gloo(kind):
    """A subclass of that kind of group, with the real gloo behind it."""
    return type(kind.__name__, (kind,), {name: _falling_back(name, getattr(kind, name)) for name in _CALLS})


@functools.cache
def _kinds():
    from dlaunch.torch import group

    return {kind: _with_gloo(kind) for kind in (group.DlaunchBackend, group.DlaunchProcessGroup)}


def _replaces(make_gloo):
    def create(opts, backend_options):
        from dlaunch.torch import group

        made = group.make(opts, sys._getframe(1), _kinds(), lambda: gloo.get())
        gloo = _Gloo(make_gloo, opts, backend_options)  # changes opts.store: behind the group that is formed in it
        if isinstance(made, tuple(_kinds().values())):
            made._gloo = gloo
        _note_use()
        return made

    return create


def begin(asked):
    if asked.lower() != "gloo":
        return _note(f"DLAUNCH_ACCELERATE={asked} has no effect: it can only be gloo")
    version = torch.__version__
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        return _note(f"--accelerate=gloo has no effect: this is PyTorch {version}, and 2.14 is needed")
    dist.Backend._ensure_backend_registered("gloo")
    plugin = dist.Backend._plugins.get("GLOO")
    if plugin is None or not plugin.extended_api:
        return _note(f"--accelerate=gloo has no effect: PyTorch {version} has no gloo that can be replaced")
    try:
        import dlaunch.library  # noqa: F401
    except ImportError as problem:
        return _note(f"--accelerate=gloo has no effect: {problem}")
    dist.Backend._plugins["GLOO"] = dist.Backend._BackendPlugin(_replaces(plugin.creator_fn), True)
    return None
