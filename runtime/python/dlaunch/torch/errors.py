"""Errors of the library as exceptions of PyTorch's, which are RuntimeErrors."""

import torch.distributed as dist

from dlaunch import library


class NotOffered(ValueError):
    """A call that only another backend can do. Nothing has begun."""


_KINDS = {
    library.ERROR_BACKEND: dist.DistBackendError,
    library.ERROR_NETWORK: dist.DistNetworkError,
    library.ERROR_STORE: dist.DistStoreError,
}


def error_of(status):
    """Of the calling thread's latest call, which has returned `status`."""
    return _KINDS.get(status, dist.DistError)(library.last_error())


def check(status):
    if status:
        raise error_of(status)
