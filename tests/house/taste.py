#!/usr/bin/env python3
"""The house's own taste, as a test: arrows between folders, banned calls, public headers, dead and overlong files.

    taste.py REPOSITORY
"""

import os
import re
import sys

ROOT = sys.argv[1]
SOURCE = (".cpp", ".h", ".c")
FOLDERS = ("store", "agent", "launcher", "runtime", "examples", "tests", "bench")

# Which folders a folder's files may include.
MAY_INCLUDE = {
    "store": {"store"},
    "agent": {"agent", "store"},
    "launcher": {"launcher", "agent", "store"},
    "runtime": {"runtime", "store"},
    "examples": {"examples"},
}
# Third-party headers, and the only files that may include them.
DOORS = {
    r"uv\.h": {"store/base/uv_addresses.h", "store/base/uv_loop.cpp", "store/base/uv_loop_impl.h", "agent/uv_edge.cpp"},
    r"spdlog/.*": {"store/base/log.cpp"},
    r"CLI/.*": {"launcher/command_line.cpp", "launcher/verb_line.cpp"},
    r"nlohmann/.*": {"store/status_page.cpp", "agent/error_file.cpp", "agent/etcd_messages.cpp", "agent/job_status.cpp", "agent/timer_requests.cpp", "agent/world_view.cpp",
                       "launcher/config_file.cpp", "launcher/event_log.cpp", "launcher/flight.cpp", "launcher/flight.h", "launcher/job_dump.cpp", "launcher/pickle.cpp", "launcher/pickle.h", "launcher/report_file.cpp", "launcher/torchelastic_events.cpp"},
}
# Word, why not, and where all the same.
BANNED = [
    (r"\busleep\s*\(|\bsleep_for\s*\(", "wait for an event with a deadline", ("store/tcp_store.cpp", "store/locked_file.cpp", "runtime/assembly.cpp", "runtime/news.h", "bench/")),  # between two attempts
    (r"\bstd::rand\b|[^_\w]rand\(\)", "draw from an injected Random", ()),
    (r"\bsystem\s*\(\"", "start a process through the spawner", ()),
    (r"\bsteady_clock::now|\bsystem_clock::now", "pure code is given the time",
     ("store/base/uv_loop.cpp", "store/tcp_store.cpp", "store/hash_store.cpp", "store/steady_time.cpp", "runtime/", "examples/", "bench/", "tests/")),
    (r"\bprintf\s*\(|std::cout", "say it through the log or the reporter", ("launcher/verb_output.cpp", "examples/", "bench/", "tests/")),
]
LONGEST_FILE = 950

complaints = []


def complain(path, line, text):
    complaints.append(f"{path}:{line}: {text}")


def files():
    for folder in FOLDERS:
        for place, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders[:] = [f for f in folders if f != "__pycache__"]
            for name in names:
                yield os.path.relpath(os.path.join(place, name), ROOT)


def check_source(path, lines):
    folder = path.split("/")[0]
    if len(lines) > LONGEST_FILE:
        complain(path, len(lines), f"longer than {LONGEST_FILE} lines: is it one idea?")
    if path.endswith(".h") and "#pragma once\n" not in lines:
        complain(path, 1, "a header begins with what it promises and has #pragma once")
    for number, line in enumerate(lines, 1):
        code = re.sub(r"//.*", "", line)
        include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if include:
            target = include.group(1)
            first = target.split("/")[0]
            if folder in MAY_INCLUDE and first in FOLDERS and first not in MAY_INCLUDE[folder] and "/" in target:
                # A program of examples/ includes its own files by their short names.
                if not (folder == "examples" and first == "train_mnist"):
                    complain(path, number, f"{folder}/ may not include {target}")
            for pattern, doors in DOORS.items():
                if re.fullmatch(pattern, target) and path not in doors and folder not in ("tests", "bench"):
                    complain(path, number, f"<{target}> is included only by {', '.join(sorted(doors))}")
            if path.startswith("runtime/include/"):
                system = re.fullmatch(r"[a-z_]+(\.h)?", target) is not None
                if not (target.startswith("dlaunch/") or system):
                    complain(path, number, f"a public header includes {target}")
            continue
        if folder != "tests":
            for pattern, instead, places in BANNED:
                if re.search(pattern, code) and not any(path.startswith(place) for place in places):
                    complain(path, number, f"{line.strip()!r}: {instead}")
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            complain(path, number, "unfinished business")


def check_dead_sources(sources):
    """A source that no CMake file names is compiled by nobody."""
    named = ""
    for place, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".git", "build"))]
        for name in names:
            if name == "CMakeLists.txt" or name.endswith(".cmake"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    named += file.read()
    for path in sources:
        base = os.path.basename(path)
        if path.endswith((".cpp", ".c")) and base not in named and not path.startswith("tests/runtime/modules/"):
            complain(path, 1, "no CMake file names it")


def main():
    sources = sorted(path for path in files() if path.endswith(SOURCE))
    for path in sources:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            check_source(path, file.readlines())
    check_dead_sources(sources)
    for text in complaints:
        print(text)
    print(f"{len(sources)} sources, {len(complaints)} complaints")
    return 1 if complaints or len(sources) < 50 else 0


sys.exit(main())
