"""libdlaunch through ctypes: the part of dlaunch.h that the package uses. A call releases the interpreter's lock."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from importlib.metadata import version

# A program is linked with one minor version of the library, and so is this package.
SONAME = "libdlaunch.so." + ".".join(version("dlaunch").split(".")[:2])
OK, ERROR, ERROR_BACKEND, ERROR_NETWORK, ERROR_STORE, ERROR_INTERNAL = range(6)


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("shape", c_void_p), ("dims", c_size_t), ("device", c_int),
                ("device_index", c_int)]


class ErrorContext(ctypes.Structure):
    _fields_ = [("rank", c_int), ("operation", c_char_p), ("sequence", c_uint64), ("group", c_char_p), ("peer", c_int),
                ("host", c_char_p)]


class SeparateGroupOptions(ctypes.Structure):
    _fields_ = [("store", c_void_p), ("rank", c_int), ("world_size", c_int), ("ranks", POINTER(c_int)), ("backend", c_char_p),
                ("timeout_ms", c_int64), ("name", c_char_p)]


class InitOptions(ctypes.Structure):
    _fields_ = [("backend", c_char_p), ("init_method", c_char_p), ("timeout_ms", c_int64), ("rank", c_int), ("world_size", c_int),
                ("group_name", c_char_p), ("store", c_void_p)]


class TcpStoreOptions(ctypes.Structure):
    _fields_ = [("timeout_ms", c_int64), ("world_size", c_int), ("is_master", c_int), ("do_not_wait_for_workers", c_int),
                ("multi_tenant", c_int), ("master_listen_fd", POINTER(c_int))]


SET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, c_void_p)
GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
ADD = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, POINTER(c_int64), c_void_p)
COMPARE_SET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p)
WAIT_FOR = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_char_p), c_size_t, c_int64, c_void_p)
DELETE_KEY = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, POINTER(c_int), c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, c_void_p)


class StoreCalls(ctypes.Structure):
    _fields_ = [("set", SET), ("get", GET), ("add", ADD), ("compare_set", COMPARE_SET), ("wait_for", WAIT_FOR),
                ("delete_key", DELETE_KEY), ("release", RELEASE)]


def _load():
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get("DLAUNCH_LIBRARY")
    # Of the wheel, whose prefix is that of PREFIX/lib/python3.x/site-packages; of pip install --target=DIR; of the build tree
    # (build/python/dlaunch is a link); of the system.
    beside = [os.path.normpath(os.path.join(here, way, SONAME)) for way in ("../../..", "../lib", "../../lib")]
    places = [named] if named else [*beside, SONAME]
    problems = []
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError as problem:
            problems.append(str(problem))
    raise ImportError("libdlaunch cannot be loaded: " + "; ".join(problems) + ". Set DLAUNCH_LIBRARY to its path")


_TENSOR, _GROUP, _WORK, _TIME = c_void_p, c_void_p, c_void_p, c_int64
_END = (_GROUP, _TIME, _WORK)
_CALLS = {
    "init_process_group": (POINTER(InitOptions),),
    "destroy_process_group": (),
    "is_initialized": (),
    "get_rank": (_GROUP,),
    "get_world_size": (_GROUP,),
    "get_group_rank": (_GROUP, c_int),
    "new_group": (POINTER(c_int), c_size_t, c_int64, POINTER(c_void_p)),
    "make_separate_group": (POINTER(SeparateGroupOptions), POINTER(c_void_p)),
    "destroy_group": (_GROUP,),
    "set_timeout": (_GROUP, _TIME),
    "abort": (_GROUP, c_char_p),
    "make_tcp_store": (c_char_p, ctypes.c_uint16, POINTER(TcpStoreOptions), POINTER(c_void_p)),
    "make_prefix_store": (c_char_p, c_void_p, POINTER(c_void_p)),
    "make_program_store": (POINTER(StoreCalls), c_void_p, POINTER(c_void_p)),
    "allocate_shared": (c_size_t, _GROUP, POINTER(c_void_p), POINTER(c_int)),
    "free_shared": (c_void_p,),
    "all_reduce": (_TENSOR, c_int, *_END),
    "all_reduce_premul_sum": (_TENSOR, c_double, *_END),
    "all_reduce_coalesced": (_TENSOR, c_size_t, c_int, *_END),
    "broadcast": (_TENSOR, c_int, *_END),
    "reduce": (_TENSOR, c_int, c_int, *_END),
    "reduce_premul_sum": (_TENSOR, c_int, c_double, *_END),
    "all_gather": (_TENSOR, c_size_t, _TENSOR, *_END),
    "all_gather_into_tensor": (_TENSOR, _TENSOR, *_END),
    "all_gather_into_tensor_coalesced": (_TENSOR, _TENSOR, c_size_t, *_END),
    "gather": (_TENSOR, c_size_t, _TENSOR, c_int, *_END),
    "scatter": (_TENSOR, _TENSOR, c_size_t, c_int, *_END),
    "reduce_scatter": (_TENSOR, _TENSOR, c_size_t, c_int, *_END),
    "reduce_scatter_premul_sum": (_TENSOR, _TENSOR, c_size_t, c_double, *_END),
    "reduce_scatter_tensor": (_TENSOR, _TENSOR, c_int, *_END),
    "reduce_scatter_tensor_premul_sum": (_TENSOR, _TENSOR, c_double, *_END),
    "reduce_scatter_tensor_coalesced": (_TENSOR, _TENSOR, c_size_t, c_int, *_END),
    "all_to_all": (_TENSOR, _TENSOR, c_size_t, *_END),
    "all_to_all_single": (_TENSOR, _TENSOR, c_void_p, c_void_p, *_END),
    "barrier": _END,
    "monitored_barrier": (_GROUP, _TIME, c_int),
    "send": (_TENSOR, c_int, c_uint32, *_END),
    "recv": (_TENSOR, c_int, c_uint32, _GROUP, _TIME, c_void_p, _WORK),
    "work_wait": (_WORK, c_int64),
    "work_is_completed": (_WORK,),
    "work_is_success": (_WORK,),
    "work_source_rank": (_WORK,),
    "work_notify": (_WORK, c_void_p, c_uint64),
    "completions_make": (POINTER(c_void_p),),
    "completions_next": (c_void_p, c_int64, POINTER(c_uint64), c_size_t, POINTER(c_size_t)),
}
_WITHOUT_RESULT = {
    "store_free": (c_void_p,),
    "group_free": (_GROUP,),
    "work_free": (_WORK,),
    "give_reply": (c_void_p, c_char_p, c_size_t),
    "last_error_context": (POINTER(ErrorContext),),
}

_library = _load()


class Calls:
    """The functions by their names without the prefix."""


for _name, _arguments in {**_CALLS, **_WITHOUT_RESULT}.items():
    _function = getattr(_library, "dlaunch_" + _name)
    _function.argtypes = _arguments
    _function.restype = c_int if _name in _CALLS else None
    setattr(Calls, _name, _function)
_library.dlaunch_last_error.restype = c_char_p
Calls.add_call_site = _library.dlaunch_add_call_site
Calls.add_call_site.argtypes, Calls.add_call_site.restype = (c_char_p, c_uint32, c_char_p), c_uint32
Calls.thread_call_site = _library.dlaunch_thread_call_site
Calls.thread_call_site.restype = POINTER(c_uint32)


def link_argument():
    """For a linker: this library."""
    return _library._name if "/" in _library._name else f"-l:{_library._name}"


def last_error():
    return _library.dlaunch_last_error().decode(errors="replace")
