"""The lines of the program from which it calls operations, for what dlaunch reports of this rank."""

import contextlib
import functools
import os
import sys
import threading

from dlaunch.library import Calls

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_KEPT = 256  # by the library
_MOST = 10_000
# By the id of a code object: the numbers of its lines by instruction; empty: the code is not the program's.
_lines = {}
_codes = []  # those: as long as an id is used, its object must live
_NOT_THE_PROGRAMS = {}


class _Thread(threading.local):
    """The library's variable of this thread: where it calls."""

    def __init__(self):
        self.call_site = Calls.thread_call_site().contents


_thread = _Thread()


def _forget():
    _lines.clear()
    _codes.clear()


def _is_the_programs(path):
    torch = sys.modules.get("torch")
    folders = (_HERE, os.path.join(os.path.dirname(torch.__file__), "")) if torch else _HERE
    return not path.startswith(folders) and path not in (contextlib.__file__, functools.__file__)


def _first_time(code):
    if len(_codes) >= _MOST:
        _forget()
    _codes.append(code)
    # Not empty: no instruction is before the first one.
    lines = _lines[id(code)] = {-1: 0} if _is_the_programs(code.co_filename) else _NOT_THE_PROGRAMS
    return lines


def _add(frame, lines):
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    if name == "<module>":
        name = ""
    number = Calls.add_call_site(code.co_filename.encode(errors="replace"), frame.f_lineno, name.encode(errors="replace"))
    if number:  # else there is no record yet
        lines[frame.f_lasti] = number
        if number % _KEPT == 0:  # the library forgets the first ones from now on
            _forget()
    return number


def _name_caller(depth, known=_lines.get):
    """Of the operation that this thread begins next. `depth`: so many functions of this package are above."""
    frame = sys._getframe(depth + 1)
    while frame is not None:
        lines = known(id(frame.f_code))
        if lines is None:
            lines = _first_time(frame.f_code)
        if lines:
            _thread.call_site.value = lines.get(frame.f_lasti) or _add(frame, lines)
            return
        frame = frame.f_back
    _thread.call_site.value = 0


def _nothing(_depth):
    pass


# Without dlaunch nothing is recorded.
names_callers = bool(os.environ.get("DLAUNCH_WORKER_PAGE")) and os.environ.get("DLAUNCH_CALL_SITES") != "0"
name_caller = _name_caller if names_callers else _nothing
