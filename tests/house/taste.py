#!/usr/bin/env python3
"""The house's own taste, as a test: one rule a room, banned calls, public headers, dead and overlong files.

    taste.py REPOSITORY

A room is a folder with a promise. Its rule: which rooms it may include, whether it is pure, and its namespace. A pure room
touches nothing outside its own memory: it includes no header of the system's I/O, threads or clocks.
"""

import itertools
import os
import re
import sys

from functions import functions

ROOT = sys.argv[1]
SOURCE = (".cpp", ".h", ".c", ".cu")
WRITTEN = (*SOURCE, ".py", ".cmake", "CMakeLists.txt")
FOLDERS = ("store", "agent", "launcher", "runtime", "examples", "tests", "bench")

# Headers through which code reaches the world outside its own memory. <sys/wait.h> is not among them: its macros take an
# exit status apart.
OUTSIDE = re.compile(r"(arpa|linux|net|netinet|openssl)/.*|sys/(?!wait\.h).*|"
                     r"(aio|dirent|dlfcn|fcntl|ftw|grp|ifaddrs|netdb|poll|pthread|pwd|sched|spawn|termios|unistd|uv)\.h|"
                     r"condition_variable|filesystem|fstream|future|iostream|mutex|random|semaphore|shared_mutex|thread")

PURE, EDGE = True, False
BASE = {"store/base"}
VALUES = BASE | {"store/contract"}
# Room: what it may include besides itself, and whether it is pure.
ROOMS = {
    "store/base": (set(), EDGE),
    "store/contract": (BASE, PURE),
    "store/loop": (BASE, EDGE),
    "store/protocol": (VALUES, PURE),
    "store/tls": (BASE, EDGE),
    "store/client": (VALUES | {"store/protocol", "store/tls"}, EDGE),
    "store/server": (VALUES | {"store/client", "store/loop", "store/protocol", "store/tls"}, EDGE),

    "agent/model": (VALUES, PURE),
    "agent/control": (BASE | {"agent/model"}, PURE),
    "agent/election": (BASE | {"agent/model"}, PURE),
    "agent/pmi": (BASE | {"agent/model"}, PURE),
    "agent/pmix": (BASE | {"agent/pmi"}, EDGE),
    "agent/platform": (BASE | {"store/loop"}, EDGE),
    "agent/output": (BASE | {"agent/model", "store/loop"}, EDGE),
    "agent/observe": (BASE | {"agent/model", "agent/output", "agent/platform", "store/loop"}, EDGE),
    "agent/process": (BASE | {"agent/model", "agent/observe", "agent/output", "agent/platform", "store/loop"}, EDGE),
    "agent/node": (VALUES | {"agent/control", "agent/model", "agent/pmi", "store/server"}, PURE),

    "launcher/flags": (VALUES, PURE),
    "launcher/scheduler": (BASE | {"launcher/flags"}, PURE),
    "launcher/topology": (BASE | {"launcher/flags"}, EDGE),
    "launcher/options": (VALUES | {"agent/model", "launcher/flags", "launcher/scheduler", "launcher/topology"}, PURE),
    "launcher/machine": (BASE | {"agent/model", "launcher/flags", "launcher/options", "launcher/scheduler", "launcher/topology",
                                 "store/client", "store/protocol", "store/server"}, EDGE),
    "launcher/startup": (BASE | {"launcher/machine", "store/client"}, EDGE),
    "launcher/report": (BASE | {"agent/model", "agent/output", "launcher/options"}, EDGE),
    "launcher/console": (BASE | {"agent/output", "agent/process", "launcher/report", "store/client", "store/loop"}, EDGE),
    "launcher/remote": (BASE | {"agent/model", "agent/output", "launcher/console", "launcher/flags", "launcher/machine",
                                "launcher/options", "launcher/report", "launcher/scheduler", "store/loop"}, EDGE),
    "launcher/doctor": (BASE | {"agent/control", "agent/model", "agent/process", "launcher/console", "launcher/flags",
                                "launcher/machine", "launcher/remote", "launcher/topology", "store/client"}, EDGE),
    "launcher/page": (BASE | {"agent/model"}, PURE),
    "launcher/node": (BASE | {"agent/control", "agent/election", "agent/model", "agent/node", "agent/observe", "agent/output",
                              "agent/platform", "agent/process", "launcher/console", "launcher/flags", "launcher/machine",
                              "launcher/options", "launcher/page", "launcher/remote", "launcher/report", "launcher/scheduler",
                              "store/client", "store/loop", "store/protocol", "store/server", "store/tls"}, EDGE),
    "launcher/commands": (BASE | {"agent/control", "agent/election", "agent/model", "agent/observe", "agent/output", "agent/process",
                                  "launcher/console", "launcher/doctor", "launcher/flags", "launcher/machine", "launcher/node",
                                  "launcher/options", "launcher/report", "launcher/topology", "store/client", "store/loop",
                                  "store/protocol", "store/server"}, EDGE),
    "launcher": (None, EDGE),  # main.cpp puts the rooms together

    # The public headers (dlaunch/...) are everybody's here.
    "runtime/base": (VALUES, EDGE),
    "runtime/reduce": (set(), PURE),
    "runtime/record": (VALUES | {"runtime/base"}, EDGE),
    "runtime/rendezvous": (VALUES | {"runtime/base", "runtime/backend", "runtime/record", "runtime/store_server",
                                     "store/client", "store/protocol", "store/tls"}, EDGE),
    "runtime/rpc_protocol": (BASE | {"runtime/base"}, PURE),
    "runtime/sockets": (BASE | {"runtime/base", "runtime/rendezvous"}, EDGE),
    "runtime/collectives": ({"runtime/base", "runtime/reduce"}, PURE),
    "runtime/shared_memory": (BASE | {"runtime/base"}, EDGE),
    "runtime/shared_collectives": ({"runtime/base", "runtime/collectives", "runtime/reduce", "runtime/shared_memory"}, PURE),
    "runtime/hierarchical_collectives": ({"runtime/base", "runtime/collectives", "runtime/reduce", "runtime/shared_collectives",
                                          "runtime/shared_memory"}, PURE),
    "runtime/point_to_point": (BASE | {"runtime/base", "runtime/record", "runtime/shared_memory"}, EDGE),
    "runtime/backend": (BASE | {"runtime/base", "runtime/collectives", "runtime/point_to_point", "runtime/reduce",
                                "runtime/hierarchical_collectives", "runtime/shared_collectives", "runtime/shared_memory",
                                "store/client"}, EDGE),
    "runtime/backends/threads": ({"runtime/backend"}, EDGE),
    "runtime/backends/gloo": (BASE | {"runtime/backend", "runtime/base", "runtime/point_to_point", "runtime/rendezvous",
                                      "runtime/shared_memory", "runtime/sockets"}, EDGE),
    "runtime/backends/shm": ({"runtime/backends/gloo"}, EDGE),
    "runtime/cuda": (BASE | {"runtime/base", "runtime/staging"}, EDGE),
    "runtime/staging": (BASE | {"runtime/backend", "runtime/base"}, EDGE),
    "runtime/backends/nccl": (BASE | {"runtime/base", "runtime/cuda"}, EDGE),
    "runtime/backends/mpi": (VALUES | {"runtime/backend", "runtime/base", "runtime/reduce"}, EDGE),
    "runtime/group": (VALUES | {"runtime/backend", "runtime/backends/threads", "runtime/base", "runtime/record",
                                "runtime/reduce", "runtime/rendezvous", "runtime/staging", "store/client"}, EDGE),
    "runtime/api": (VALUES | {"runtime/backend", "runtime/base", "runtime/group", "runtime/record", "runtime/rendezvous",
                              "runtime/staging", "store/client"}, EDGE),
    "runtime/rpc": (VALUES | {"runtime/base", "runtime/group", "runtime/record", "runtime/rendezvous", "runtime/rpc_protocol",
                            "runtime/shared_memory", "runtime/sockets", "store/client"}, EDGE),
    "runtime/gradients": (set(), PURE),
    "runtime/data_parallel": ({"runtime/base", "runtime/gradients", "runtime/reduce", "runtime/staging"}, EDGE),
    "runtime/torch": ({"runtime/base", "runtime/gradients", "runtime/rpc_protocol"}, EDGE),
    "runtime/torch/include/dlaunch/torch": (set(), EDGE),
    "runtime/store_server": ({"store/server"}, EDGE),
    "runtime/tls": ({"store/tls"}, EDGE),
    "runtime/python": (set(), EDGE),
    "runtime/python/dlaunch/torch/native": (set(), EDGE),
    "runtime/include/dlaunch": (set(), EDGE),
    "examples": (set(), EDGE),
}
# Third-party headers, and the only rooms or files that may include them.
THIRD_PARTY = {
    r"uv\.h": ("store/loop/",),
    r"spdlog/.*": ("store/base/log.cpp",),
    r"openssl/.*": ("store/tls/",),
    r"pmix.*\.h": ("agent/pmix/",),
    r"mpi\.h": ("runtime/backends/mpi/",),
    r"nccl\.h": ("runtime/backends/nccl/",),
    r"cuda.*\.h": ("runtime/cuda/", "examples/train_mnist/cuda/"),
    r"cublas.*\.h": ("examples/train_mnist/cuda/",),
    r"(torch|ATen|c10)/.*": ("runtime/torch/", "runtime/python/dlaunch/torch/native/", "examples/"),
    r"CLI/.*": ("launcher/flags/command_line.cpp", "launcher/commands/command_parser.cpp"),
    r"nlohmann/.*": ("store/server/status_page.cpp", "agent/model/", "agent/election/etcd_messages.cpp",
                     "agent/observe/timer_requests.cpp", "launcher/flags/config_file.cpp", "launcher/report/",
                     "launcher/commands/", "launcher/doctor/gpu_json.cpp", "launcher/doctor/link_text.cpp"),
}
# Word, why not, and where all the same.
BANNED = [
    (r"\busleep\s*\(|\bsleep_for\s*\(", "wait for an event with a deadline",
     ("store/client/tcp_store.cpp", "store/client/locked_file.cpp", "runtime/rendezvous/store_barrier.cpp",
      "runtime/rendezvous/loss_propagation.h", "bench/")),  # between two attempts
    (r"\bstd::rand\b|[^_\w]rand\(\)", "draw from an injected Random", ()),
    (r"\bsystem\s*\(\"", "start a process through the spawner", ()),
    (r"\bsteady_clock::now|\bsystem_clock::now", "pure code is given the time",
     ("store/loop/uv_loop.cpp", "store/client/", "runtime/", "examples/", "bench/", "tests/")),
    (r"\bprintf\s*\(|std::cout", "print through the log or the reporter",
     ("launcher/console/command_io.cpp", "examples/", "bench/", "tests/")),
]
LONGEST_FILE = 500
LONGEST_FUNCTION = 80
LONGEST_TEST = 120  # a function in tests/

# The namespace of a folder's rooms; namespaces within it are the folder's own.
NAMESPACES = {
    "store": "dlaunch::store",
    "agent": "dlaunch::agent",
    "launcher": "dlaunch::launcher",
    "runtime": "dlaunch::internal",
    "runtime/include": "dlaunch",
    "runtime/torch": "dlaunch::torch",
    "runtime/python/dlaunch/torch": "dlaunch::torch",
}
NAMESPACES_MADE_VISIBLE = "store/base/namespaces.h"  # makes the store's names visible in the rooms above

complaints = []


def complain(path, line, text):
    complaints.append(f"{path}:{line}: {text}")


def files():
    for folder in FOLDERS:
        for place, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders[:] = [f for f in folders if f != "__pycache__"]
            for name in names:
                yield os.path.relpath(os.path.join(place, name), ROOT)


def check_room(path, room, number, target):
    """The rule of `room`, for one include of its file `path`."""
    may_include, pure = ROOMS[room]
    other = os.path.dirname(target)
    # "dlaunch/..." is a public header; a program of examples/ includes its own files by their short names.
    if may_include is not None and other in ROOMS and other != room and other not in may_include:
        complain(path, number, f"{room}/ may not include {target}")
    if pure and OUTSIDE.fullmatch(target):
        complain(path, number, f"{room}/ is pure and may not include <{target}>")


def check_source(path, lines):
    folder = path.split("/")[0]
    room = os.path.dirname(path)
    if folder in ("store", "agent", "launcher", "runtime") and room not in ROOMS:
        complain(path, 1, f"{room}/ is no room of tests/house/taste.py: what does it promise, what may it include?")
    longest = LONGEST_TEST if folder == "tests" else LONGEST_FUNCTION
    for first, last, name in functions("".join(lines)):
        if last - first >= longest:
            complain(path, first, f"{name} has {last - first + 1} lines, and may have {longest}: cut it where it changes its subject")
    if path.endswith(".h") and "#pragma once\n" not in lines:
        complain(path, 1, "a header begins with what it promises and has #pragma once")
    check_namespace(path, lines)
    for number, line in enumerate(lines, 1):
        code = re.sub(r"//.*", "", line)
        include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if include:
            target = include.group(1)
            if room in ROOMS:
                check_room(path, room, number, target)
            for pattern, places in THIRD_PARTY.items():
                if re.fullmatch(pattern, target) and not path.startswith(places) and folder not in ("tests", "bench"):
                    complain(path, number, f"<{target}> is included only by {', '.join(places)}")
            if path.startswith("runtime/include/"):
                system = re.fullmatch(r"[a-z_]+(\.h)?", target) is not None
                if not (target.startswith("dlaunch/") or system):
                    complain(path, number, f"a public header includes {target}")
            continue
        if folder != "tests":
            for pattern, instead, places in BANNED:
                if re.search(pattern, code) and not path.startswith(places):
                    complain(path, number, f"{line.strip()!r}: {instead}")
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            complain(path, number, "unfinished business")


def check_namespace(path, lines):
    """Each room has its folder's namespace. Only the public API is in dlaunch itself: the public headers, and the sources of
    the runtime that define it, in its version (`inline namespace v1`). A public header declares internal classes at most."""
    # Folders with a namespace of their own inside their top-level folder's.
    folder = next((f for f in ("runtime/include", "runtime/torch", "runtime/python/dlaunch/torch") if path.startswith(f + "/")), path.split("/")[0])
    own = NAMESPACES.get(folder)
    if own is None or path == NAMESPACES_MADE_VISIBLE:
        return
    defines_api = folder == "runtime" and path.endswith(".cpp") and "inline namespace v1 {\n" in lines
    for number, line in enumerate(lines, 1):
        if path.endswith(".h") and re.match(r"\s*using namespace\b", line):
            complain(path, number, "a header opens a namespace to all that include it")
        opened = re.match(r"namespace ([\w:]+) \{", line)
        if not opened:
            continue
        name = opened.group(1)
        if folder == "runtime/include":
            is_own = not name.startswith("dlaunch::")  # a part of dlaunch, inside it
        else:
            # The source of a part of dlaunch opens that part inside dlaunch.
            is_own = (name == own or name.startswith(own + "::") or (defines_api and not name.startswith("dlaunch::"))
                      or (folder == "runtime/torch" and name == "internal" and "/include/" in path)
                      # Parts of dlaunch::torch, inside it; where the codec looks for serialize().
                      or (folder == "runtime/torch" and name in ("dist_autograd", "rpc_detail", "dlaunch::codec")))
        if not is_own:
            complain(path, number, f"the namespace of {folder}/ is {own}, not {name}")
        if "/include/" in path and name == "internal":
            inside = itertools.takewhile(lambda text: not text.startswith("}"), lines[number:])
            if not all(re.fullmatch(r"(class|struct) \w+;\n", declaration) for declaration in inside):
                complain(path, number, "a public header declares internal classes and defines none")


def check_dead_sources(sources):
    """A source or a script of tests that no CMake file names is not compiled and not run."""
    named = ""
    for place, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".git", "build"))]
        for name in names:
            if name == "CMakeLists.txt" or name.endswith(".cmake"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    named += file.read()
    scripts = sorted(path for path in files() if path.startswith("tests/") and path.endswith("_test.py"))
    for path in sources + scripts:
        base = os.path.basename(path)
        if path.endswith((".cpp", ".c", ".cu", ".py")) and base not in named and not path.startswith("tests/runtime/modules/"):
            complain(path, 1, "no CMake file names it")


def check_promises():
    """Each room that is compiled begins its CMakeLists.txt with its promise."""
    for room in ROOMS:
        path = os.path.join(room, "CMakeLists.txt")
        if os.path.exists(os.path.join(ROOT, path)):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                if not file.readline().startswith("# "):
                    complain(path, 1, "a room begins with its promise")
        elif not os.path.isdir(os.path.join(ROOT, room)):
            complain(room, 1, "this room is not there")


def main():
    written = sorted(path for path in files() if path.endswith(WRITTEN))
    sources = [path for path in written if path.endswith(SOURCE)]
    for path in written:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            lines = file.readlines()
        if len(lines) > LONGEST_FILE:
            complain(path, len(lines), f"longer than {LONGEST_FILE} lines: is it one idea?")
        if path in sources:
            check_source(path, lines)
    check_dead_sources(sources)
    check_promises()
    for text in complaints:
        print(text)
    print(f"{len(sources)} sources, {len(complaints)} complaints")
    return 1 if complaints or len(sources) < 50 else 0


sys.exit(main())
