"""PyTorch's stores as dlaunch's: the group is formed in the store that PyTorch gives, with no other rendezvous."""

import ctypes
import uuid
from datetime import timedelta

import torch.distributed as dist

from dlaunch.library import (ADD, COMPARE_SET, DELETE_KEY, GET, RELEASE, SET, WAIT_FOR, Calls, StoreCalls, TcpStoreOptions)
from dlaunch.torch.errors import check

_kept = {}  # ProgramStores by their contexts, until the library releases them


class _ProgramStore:
    """Any store of PyTorch's, called by the library. Each call takes the interpreter's lock."""

    def __init__(self, store):
        self._store = store
        self.calls = StoreCalls(
            SET(self._answer(lambda key, value, size: store.set(key.decode(), ctypes.string_at(value, size)) and None)),
            GET(self._answer(lambda key: store.get(key.decode()))),
            ADD(self._answer(self._add)),
            COMPARE_SET(self._answer(self._compare_set)),
            WAIT_FOR(self._answer(self._wait_for, failed=-1)),
            DELETE_KEY(self._answer(self._delete_key)),
            RELEASE(lambda context: _kept.pop(context, None) and None))

    @staticmethod
    def _answer(call, failed=1):
        """A callback of C: no exception leaves it. Bytes are a reply; a number is the result."""

        def answer(_context, *arguments):
            *arguments, reply = arguments
            try:
                result = call(*arguments)
            except Exception as error:
                text = str(error).encode()
                Calls.give_reply(reply, text, len(text))
                return failed
            if isinstance(result, bytes):
                Calls.give_reply(reply, result, len(result))
                return 0
            return result if isinstance(result, int) else 0

        return answer

    def _add(self, key, amount, total):
        total[0] = self._store.add(key.decode(), amount)

    def _compare_set(self, key, expected, expected_size, desired, desired_size):
        return self._store.compare_set(key.decode(), ctypes.string_at(expected, expected_size).decode(),
                                       ctypes.string_at(desired, desired_size).decode())

    def _wait_for(self, keys, count, timeout_ms):
        names = [keys[i].decode() for i in range(count)]
        if timeout_ms <= 0:
            return int(self._store.check(names))
        try:
            self._store.wait(names, timedelta(milliseconds=timeout_ms))
        except Exception:
            if self._store.check(names):
                return 1
            return 0
        return 1

    def _delete_key(self, key, existed):
        existed[0] = int(self._store.delete_key(key.decode()))


def _base(store):
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store


def _tcp_store(given, base, timeout_ms):
    # A client of its own: a rank that waits in PyTorch's client would hold up its other calls. All ranks agree, through
    # PyTorch's, on the part of the store that is this group's.
    part = given.compare_set("dlaunch/part", "", "dlaunch/" + uuid.uuid4().hex)
    whole, store = ctypes.c_void_p(), ctypes.c_void_p()
    options = TcpStoreOptions(timeout_ms=timeout_ms, do_not_wait_for_workers=1)
    check(Calls.make_tcp_store(base.host.encode(), base.port, ctypes.byref(options), ctypes.byref(whole)))
    try:
        check(Calls.make_prefix_store(part, whole, ctypes.byref(store)))
    finally:
        Calls.store_free(whole)
    return store


def store_of(given, timeout_ms):
    """A handle of the library's, to be freed with store_free; the store lives as long as a group needs it."""
    base = _base(given)
    if isinstance(base, dist.TCPStore):
        return _tcp_store(given, base, timeout_ms)
    program = _ProgramStore(given)
    context = id(program)
    _kept[context] = program
    store = ctypes.c_void_p()
    check(Calls.make_program_store(ctypes.byref(program.calls), context, ctypes.byref(store)))
    return store
