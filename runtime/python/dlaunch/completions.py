"""What happens when operations end whose Work nobody waits for."""

import ctypes
import itertools
import sys
import threading

from dlaunch.library import Calls


class Completions:
    """Ends of operations, for futures and for memory whose Work nobody holds any more. One thread of the process waits for
    them in the library, without the interpreter's lock; it begins with the first Work and never ends."""

    def __init__(self):
        self._lock = threading.Lock()
        self._queue = None
        self._actions = {}
        self._tokens = itertools.count(1)

    def begin(self):
        """Before there is a Work: what its destructor calls must need neither a lock nor a new thread."""
        if self._queue is not None:
            return
        with self._lock:
            if self._queue is not None:
                return
            queue = ctypes.c_void_p()
            if Calls.completions_make(ctypes.byref(queue)):
                raise MemoryError("no memory for dlaunch's queue of operations")
            threading.Thread(target=self._run, args=(queue,), name="dlaunch completions", daemon=True).start()
            self._queue = queue

    def when_ended(self, handle, action):
        token = next(self._tokens)
        self._actions[token] = action
        Calls.work_notify(handle, self._queue, token)

    def keep_until_ended(self, handle, memory, is_finalizing=sys.is_finalizing, increment=ctypes.pythonapi.Py_IncRef,
                         as_object=ctypes.py_object):  # at the very end the modules are gone
        """For the destructor of a Work: frees the handle, and the memory when the operation has ended."""
        if is_finalizing():
            increment(as_object(memory))  # it stays until the process has ended
        elif Calls.work_is_completed(handle):
            Calls.work_free(handle)
        else:
            self.when_ended(handle, lambda: (memory, Calls.work_free(handle)))

    def _run(self, queue):
        capacity = 64
        tokens, count = (ctypes.c_uint64 * capacity)(), ctypes.c_size_t()
        while Calls.completions_next(queue, 0, tokens, capacity, ctypes.byref(count)) == 0:
            for token in tokens[:count.value]:
                self._actions.pop(token)()


completions = Completions()
