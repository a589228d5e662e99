"""PyTorch's flight recorder, for the dlaunch that started this program.

dlaunch asks when the job may hang: at the socket DLAUNCH_TORCH_SOCKET a thread answers GET and POST of /handler/NAME, with the names
and the JSON of PyTorch's own server in a worker (torch.distributed.elastic.control_plane), which only programs with worker_main()
have. The thread starts with the first process group; until it is asked it sleeps.
"""

import os
import socket
import threading

_ASKER_TIMEOUT = 5  # seconds, for one request
_LONGEST_REQUEST = 4096
# Before 2.8 PyTorch knows only the older names of its variables.
_OLDER_NAMES = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "TORCH_FR_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}
_RENAMED_IN = (2, 8)


def use_older_names(version):
    """Gives the variables of dlaunch to a PyTorch that is older than their names."""
    if tuple(int(part) for part in version.split(".")[:2]) >= _RENAMED_IN:
        return
    for older, name in _OLDER_NAMES.items():
        if name in os.environ:
            os.environ.setdefault(older, os.environ[name])


def _gloo():
    from torch._C import _distributed_c10d as c10d

    return c10d._dump_fr_trace_json() if hasattr(c10d, "_dump_fr_trace_json") else None


def _nccl():
    from torch._C import _distributed_c10d as c10d

    return c10d._dump_nccl_trace_json() if hasattr(c10d, "_dump_nccl_trace_json") else None


_HANDLERS = {"fr_trace_json": _gloo, "dump_nccl_trace_json": _nccl}


def answer(request):
    """The bytes of the HTTP answer to the first line of a request."""
    words = request.split(b"\r\n", 1)[0].split()
    path = words[1].decode(errors="replace") if len(words) == 3 else ""
    handler = _HANDLERS.get(path.removeprefix("/handler/"))
    record = handler() if handler else None
    if record is None:
        return b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    if isinstance(record, str):
        record = record.encode()
    return b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(record) + record


def _read_request(connection):
    request = b""
    while b"\r\n\r\n" not in request and len(request) < _LONGEST_REQUEST:
        more = connection.recv(_LONGEST_REQUEST)
        if not more:
            break
        request += more
    return request


def _serve(listener):
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # closed
        with connection:
            try:
                connection.settimeout(_ASKER_TIMEOUT)
                connection.sendall(answer(_read_request(connection)))
            except OSError:
                pass  # the asker no longer waits


def _listen(path):
    """None: a process that started this one answers there, or the folder is gone."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        listener.listen(4)
    except OSError:
        listener.close()
        return None
    # A forked process has no such thread.
    os.register_at_fork(after_in_child=listener.close)
    return listener


def _start(path):
    listener = _listen(path)
    if listener is not None:
        threading.Thread(target=_serve, args=(listener,), name="dlaunch recorder", daemon=True).start()


def begin(path):
    """Called at the end of `import torch`. Every group names its backend, and has no record before."""
    from torch.distributed import Backend

    make = Backend.__new__
    begun = False

    def first(kind, name):
        nonlocal begun
        if not begun:
            begun = True
            _start(path)
        return make(kind, name)

    Backend.__new__ = staticmethod(first)
