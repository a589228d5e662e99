"""Tensors in memory that the ranks of a host read in place."""

import ctypes
import weakref

import torch

from dlaunch.library import Calls
from dlaunch.torch.errors import check


def allocate(group, count, dtype):
    """A tensor of `count` zeros; the memory is returned with its last view."""
    size = count * dtype.itemsize
    if size == 0:
        return torch.empty(0, dtype=dtype)
    address = ctypes.c_void_p()
    check(Calls.allocate_shared(size, group, ctypes.byref(address), None))
    memory = (ctypes.c_char * size).from_address(address.value)
    weakref.finalize(memory, Calls.free_shared, address.value).atexit = False
    return torch.frombuffer(memory, dtype=dtype)
