"""PyTorch's tensors as dlaunch's: views of the same memory."""

import ctypes

import torch

from dlaunch.library import Tensor

DTYPES = {
    torch.int8: 0, torch.int16: 1, torch.int32: 2, torch.int64: 3, torch.uint8: 4, torch.bool: 5, torch.float16: 6,
    torch.bfloat16: 7, torch.float32: 8, torch.float64: 9, torch.complex64: 10, torch.complex128: 11,
}
DTYPES |= {getattr(torch, name): number for name, number in (("float8_e4m3fn", 12), ("float8_e5m2", 13)) if hasattr(torch, name)}
BYTES = DTYPES[torch.uint8]
# Sums, products and bits of unsigned numbers are those of signed ones; minimum and maximum are not.
_SIGNED = {name: signed for name, signed in (("uint16", 1), ("uint32", 2), ("uint64", 3))}
UNSIGNED = {getattr(torch, name): signed for name, signed in _SIGNED.items() if hasattr(torch, name)}

_extents = {}


def _extent(count):
    """The address of a shape of one dimension. The few sizes of a program are kept."""
    found = _extents.get(count)
    if found is None:
        if len(_extents) > 10_000:
            _extents.clear()
        number = ctypes.c_int64(count)
        found = _extents[count] = (ctypes.addressof(number), number)
    return found


class Described(Tensor):
    """A C tensor that keeps its shape."""


def moved(tensor):
    """For operations that only move data: any dtype."""
    dtype, count = DTYPES.get(tensor.dtype), tensor.numel()
    if dtype is None:
        dtype, count = BYTES, count * tensor.element_size()
    address, kept = _extent(count)
    made = Described(tensor.data_ptr(), dtype, address, 1, 0, 0)
    made.kept = kept
    return made


def reduced(tensor, dtype):
    address, kept = _extent(tensor.numel())
    made = Described(tensor.data_ptr(), dtype, address, 1, 0, 0)
    made.kept = kept
    return made


def listed(described):
    """An array of C tensors. Their shapes must stay until the call."""
    return (Tensor * len(described))(*described)


def is_plain(tensor):
    return tensor.is_contiguous() and not (tensor.is_complex() and tensor.is_conj()) and not tensor.is_neg()


class Prepared:
    """Tensors of one call. A tensor with gaps is replaced by a dense copy; that of an output is copied back at the end."""

    def __init__(self):
        self.copies_back = []

    def input(self, tensor):
        if is_plain(tensor):
            return tensor
        return tensor.resolve_conj().resolve_neg().contiguous()

    def output(self, tensor, keep=False):
        """`keep`: the operation may read it, or leave it as it is."""
        if is_plain(tensor):
            return tensor
        if tensor.numel() > 0 and any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
            raise ValueError("an output tensor is expanded: several of its elements share memory")
        dense = self.input(tensor) if keep else torch.empty(tensor.shape, dtype=tensor.dtype)
        self.copies_back.append((tensor, dense))
        return dense

    def finish(self):
        if not self.copies_back:
            return None
        return self._copy_back

    def _copy_back(self):
        with torch.no_grad():
            for tensor, dense in self.copies_back:
                tensor.copy_(dense)
