"""Collectives and messages on numpy arrays, with torch.distributed's names and without PyTorch.

    import numpy
    import dlaunch.numpy as dist

    dist.init_process_group()                   # in a worker of dlaunch, or of torchrun
    total = numpy.full(4, dist.get_rank())
    dist.all_reduce(total)                      # in place

Arrays are read and written where they are, so each must be contiguous (numpy.ascontiguousarray makes a copy that is). Ranks are
those of the default group. `timeout` is in seconds; None means the group's. With async_op=True a call returns a Work at once;
its arrays must not be touched until wait() has returned. In a rank that is not a member of the group, calls do nothing.
"""

import ctypes
import sys
from ctypes import byref

import numpy

from dlaunch import library
from dlaunch.call_sites import name_caller
from dlaunch.completions import completions
from dlaunch.library import Calls, Tensor

SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = range(8)
# By NumPy's names, and those of the package ml_dtypes.
_DTYPES = {name: number for number, name in enumerate(
    ("int8", "int16", "int32", "int64", "uint8", "bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
     "float8_e4m3fn", "float8_e5m2"))}
_BYTES = _DTYPES["uint8"]
# Sums, products and bits of unsigned numbers are those of signed ones.
_UNSIGNED = {"uint16": _DTYPES["int16"], "uint32": _DTYPES["int32"], "uint64": _DTYPES["int64"]}


class DistError(RuntimeError):
    """A wrong argument, or no group."""


class DistBackendError(DistError):
    pass


class DistNetworkError(DistError):
    """Another rank: `peer`, or -1 if it is not known."""

    peer = -1


class DistStoreError(DistError):
    pass


_ERRORS = {library.ERROR_BACKEND: DistBackendError, library.ERROR_NETWORK: DistNetworkError, library.ERROR_STORE: DistStoreError}


def _error_of(status):
    error = _ERRORS.get(status, DistError)(library.last_error())
    if status == library.ERROR_NETWORK:
        place = library.ErrorContext()
        Calls.last_error_context(byref(place))
        error.peer = place.peer
    return error


def _check(status):
    if status:
        raise _error_of(status)


def _milliseconds(timeout):
    return 0 if timeout is None else max(1, round(timeout * 1000))


class Group:
    """Some of the job's ranks; made by new_group()."""

    def __init__(self, handle):
        self._handle = handle

    def __del__(self):
        if not sys.is_finalizing():
            Calls.group_free(self._handle)

    def destroy(self):
        """Collective calls of this group fail from now on."""
        _check(Calls.destroy_group(self._handle))


def _handle(group):
    return None if group is None else group._handle


class Work:
    """An operation that was started."""

    def __init__(self, handle, arrays):
        self._handle = handle
        self._arrays = arrays

    def wait(self, timeout=None):
        """Returns when the operation has ended, and raises its error. A passed timeout is this call's own: the operation goes on."""
        _check(Calls.work_wait(self._handle, _milliseconds(timeout)))

    def is_completed(self):
        return bool(Calls.work_is_completed(self._handle))

    def source_rank(self):
        """Of a receive that has succeeded: the rank that sent the message."""
        return Calls.work_source_rank(self._handle)

    def __del__(self):
        completions.keep_until_ended(self._handle, self._arrays)


def _described(array, dtype, is_output):
    if not isinstance(array, numpy.ndarray):
        raise TypeError(f"{type(array).__name__} is not a numpy array")
    if not array.flags.c_contiguous:
        raise ValueError(f"an array of shape {array.shape} and strides {array.strides} is not contiguous: pass a contiguous one "
                         "(numpy.ascontiguousarray)")
    if is_output and not array.flags.writeable:
        raise ValueError("an array that receives a result is read-only")
    count = array.size
    if dtype is None:
        dtype, count = _BYTES, array.nbytes
    shape = ctypes.c_int64(count)
    described = Tensor(array.ctypes.data, dtype, ctypes.addressof(shape), 1, 0, 0)
    described.kept = shape
    return described


def _reduced(array, op, is_output=True):
    name = array.dtype.name if isinstance(array, numpy.ndarray) else ""
    dtype = _DTYPES.get(name)
    if dtype is None and op not in (AVG, MIN, MAX):
        dtype = _UNSIGNED.get(name)
    if name and dtype is None:
        raise TypeError(f"{name} cannot be reduced with this operation: convert the array first")
    return _described(array, dtype, is_output)


def _input(array):
    """For operations that only move data. All ranks agree on the bytes."""
    return _described(array, None, False)


def _output(array):
    return _described(array, None, True)


def _list(described):
    return (Tensor * len(described))(*described)


def _start(call, arrays, group, timeout, async_op, *arguments):
    name_caller(2)
    if not async_op:
        _check(call(*arguments, _handle(group), _milliseconds(timeout), None))
        return None
    completions.begin()
    work = ctypes.c_void_p()
    _check(call(*arguments, _handle(group), _milliseconds(timeout), byref(work)))
    return Work(work, arrays)


def init_process_group(backend=None, init_method=None, rank=None, world_size=None, timeout=None):
    """Rank and world size are those of the environment, unless both are given."""
    text = [given.encode() if given else None for given in (backend, init_method)]
    if (rank is None) != (world_size is None):
        raise DistError("rank and world_size belong together: give both, or none")
    options = library.InitOptions(backend=text[0], init_method=text[1], timeout_ms=_milliseconds(timeout), rank=rank or 0,
                                  world_size=world_size or 0)
    _check(Calls.init_process_group(byref(options)))


def destroy_process_group():
    _check(Calls.destroy_process_group())


def is_initialized():
    return bool(Calls.is_initialized())


def get_rank(group=None):
    """In the group; -1 if this process is not a member."""
    return Calls.get_rank(_handle(group))


def get_world_size(group=None):
    return Calls.get_world_size(_handle(group))


def new_group(ranks=None, timeout=None):
    """All ranks of the job call it. None in a rank that is not a member."""
    ranks = list(ranks) if ranks is not None else []
    made = ctypes.c_void_p()
    _check(Calls.new_group((ctypes.c_int * len(ranks))(*ranks), len(ranks), _milliseconds(timeout), byref(made)))
    group = Group(made)
    return group if get_rank(group) >= 0 else None


def all_reduce(array, op=SUM, group=None, timeout=None, async_op=False):
    return _start(Calls.all_reduce, array, group, timeout, async_op, byref(_reduced(array, op)), op)


def reduce(array, dst, op=SUM, group=None, timeout=None, async_op=False):
    return _start(Calls.reduce, array, group, timeout, async_op, byref(_reduced(array, op)), dst, op)


def broadcast(array, src, group=None, timeout=None, async_op=False):
    return _start(Calls.broadcast, array, group, timeout, async_op, byref(_output(array)), src)


def all_gather(output, array, group=None, timeout=None, async_op=False):
    """`output` has the size of all ranks' arrays together."""
    return _start(Calls.all_gather_into_tensor, (output, array), group, timeout, async_op, byref(_output(output)), byref(_input(array)))


def gather(outputs, array, dst, group=None, timeout=None, async_op=False):
    """`outputs`: one array for each rank at dst, None elsewhere."""
    described = [_output(output) for output in outputs or ()]
    return _start(Calls.gather, (outputs, array), group, timeout, async_op, _list(described), len(described), byref(_input(array)), dst)


def scatter(output, arrays, src, group=None, timeout=None, async_op=False):
    """`arrays`: one for each rank at src, None elsewhere."""
    described = [_input(array) for array in arrays or ()]
    return _start(Calls.scatter, (output, arrays), group, timeout, async_op, byref(_output(output)), _list(described), len(described), src)


def reduce_scatter(output, array, op=SUM, group=None, timeout=None, async_op=False):
    """`array` has one part of output's size for each rank."""
    return _start(Calls.reduce_scatter_tensor, (output, array), group, timeout, async_op, byref(_reduced(output, op)),
                  byref(_reduced(array, op, False)), op)


def all_to_all(outputs, arrays, group=None, timeout=None, async_op=False):
    """One array for each rank, and one of each."""
    into, of = [_output(output) for output in outputs], [_input(array) for array in arrays]
    if len(into) != len(of):
        raise ValueError(f"{len(into)} outputs, but {len(of)} arrays")
    return _start(Calls.all_to_all, (outputs, arrays), group, timeout, async_op, _list(into), _list(of), len(into))


def barrier(group=None, timeout=None, async_op=False):
    return _start(Calls.barrier, None, group, timeout, async_op)


def send(array, dst, tag=0, group=None, timeout=None, async_op=False):
    return _start(Calls.send, array, group, timeout, async_op, byref(_input(array)), dst, tag)


def recv(array, src=None, tag=0, group=None, timeout=None, async_op=False):
    """From that rank, or from any. Returns the rank that sent the message; with async_op a Work."""
    source = ctypes.c_int(-1)
    work = _start(lambda *most: Calls.recv(*most[:-1], None if async_op else byref(source), most[-1]), array, group, timeout, async_op,
                  byref(_output(array)), -1 if src is None else src, tag)
    return work if async_op else source.value
