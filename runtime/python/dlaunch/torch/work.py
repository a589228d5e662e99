"""Operations that were started, as PyTorch's Work."""

import sys
import threading

import torch
import torch.distributed as dist

from dlaunch.completions import completions
from dlaunch.library import Calls
from dlaunch.torch.errors import error_of


def milliseconds(given):
    """Of a timedelta; 0 (the group's timeout) for PyTorch's `unset`, which is negative, and for none."""
    if not given or given.days < 0:
        return 0
    return max(1, given.days * 86_400_000 + given.seconds * 1000 + given.microseconds // 1000)


class Work(dist.Work):
    """`tensors`: what the operation uses, kept until it has ended. `outputs`: what it makes. `finish`: called once, after its
    success and before anybody learns of it: copies results to tensors with gaps."""

    def __init__(self, handle, tensors, outputs, finish=None):
        super().__init__()
        completions.begin()
        self._handle = handle
        self._tensors = tensors
        self._outputs = outputs
        self._finish = finish
        self._finishing = threading.Lock() if finish else None
        self._ended = False
        self._error = None
        self._future = None
        if finish:
            completions.when_ended(handle, lambda: self._wait(0))

    def _wait(self, timeout_ms):
        """None, or the error. An operation that has failed does so in each call; a passed `timeout_ms` is the call's own."""
        if self._ended:
            return self._error
        status = Calls.work_wait(self._handle, timeout_ms)
        if status:
            error = error_of(status)
            if not Calls.work_is_completed(self._handle):
                return error
            self._error = error
        elif self._finish:
            with self._finishing:
                if not self._ended:
                    self._finish()
                self._ended = True
        self._ended = True
        self._tensors = None
        return self._error

    def wait(self, timeout=None):
        error = self._wait(milliseconds(timeout))
        if error is not None:
            raise error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        if self._ended:
            return True
        if not Calls.work_is_completed(self._handle):
            return False
        self._wait(0)
        return True

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error if self.is_completed() else None

    def result(self):
        self.wait()
        return self._outputs

    def source_rank(self):
        return Calls.work_source_rank(self._handle)

    _source_rank = source_rank

    def get_future(self):
        if self._future is None:
            ended = torch.futures.Future()
            # The chained future has the error itself, which C++ (DDP's reducer) understands; set_exception() has a value.
            self._future = ended.then(self._deliver)
            completions.when_ended(self._handle, lambda: ended.set_result(None))
        return self._future

    def _deliver(self, _ended):
        self.wait()
        return self._outputs

    def __del__(self, is_finalizing=sys.is_finalizing, completions=completions):  # at the very end the modules are gone
        if not self._ended and self._tensors is not None and not self._finish:
            completions.keep_until_ended(self._handle, self._tensors)
        elif not is_finalizing():
            Calls.work_free(self._handle)


class Done(dist.Work):
    """An operation that has succeeded."""

    def __init__(self, outputs=()):
        super().__init__()
        self._outputs = list(outputs)

    def wait(self, timeout=None):
        return True

    def synchronize(self):
        pass

    def is_completed(self):
        return True

    def is_success(self):
        return True

    def exception(self):
        return None

    def result(self):
        return self._outputs

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(self._outputs)
        return future


class Together(dist.Work):
    """Several operations as one."""

    def __init__(self, works):
        super().__init__()
        self._works = works

    def wait(self, timeout=None):
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        return all(work.is_success() for work in self._works)

    def exception(self):
        return next((error for error in (work.exception() for work in self._works) if error), None)

    def result(self):
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self):
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(lambda _all: self.wait() and self.result())


DONE = Done()
