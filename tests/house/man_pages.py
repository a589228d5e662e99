#!/usr/bin/env python3
"""The manual pages: every public function of the library in the SYNOPSIS of exactly one of them, none that does not exist, and nothing that
groff warns of.

    man_pages.py REPOSITORY
"""

import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = sys.argv[1]
# Functions that are known by the type they take: one name in several places.
OVERLOADED = {"to_string"}


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"^\s*#[^\n]*(\\\n[^\n]*)*", "", text, flags=re.MULTILINE)


def statements(text):
    """(what stands before ';' or '{', what stands between the braces or None), one after another."""
    begin = depth = 0
    i = 0
    while i < len(text):
        c = text[i]
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == ";" and depth == 0:
            yield text[begin:i].strip(), None
            begin = i + 1
        elif c == "}" and depth == 0:
            begin = i + 1
        elif c == "{" and depth == 0:
            head, level, end = text[begin:i].strip(), 1, i + 1
            while level:
                level += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            yield head, text[i + 1:end - 1]
            begin, i = end, end - 1
        i += 1


def key_of(declaration, owner):
    """How a function is called in full; None where the declaration is of something else."""
    head = declaration.split("(")[0]
    if "(" not in declaration or "=" in head or "operator" in head or re.search(r"\b(friend|using|typedef|static_assert)\b", head):
        return None
    found = re.search(r"(~|::)?(\w+)\s*$", head)
    # Destructors and what is defined outside its class, constructors, pointers to functions.
    if not found or found.group(1) or found.group(2) == owner or "(*" in declaration.split(")")[0]:
        return None
    name = found.group(2)
    if name in OVERLOADED and not owner:
        name += "(" + re.search(r"\(\s*(?:const )?(\w+)", declaration).group(1)
    return f"{owner}::{name}" if owner else name


def functions_in(text, owner="", public=True):
    """{full name: declaration} of what a caller may call."""
    found = {}
    for head, body in statements(text):
        while label := re.match(r"(public|private|protected)\s*:", head):
            public = label.group(1) == "public"
            head = head[label.end():].strip()
        if scope := re.match(r'(inline\s+)?namespace\s+(\w+)$|extern "C"$', head):
            if scope.group(2) not in ("codec", "half_detail", "object_detail"):
                found.update(functions_in(body))
        elif (kind := re.match(r"(?:template\s*<[^>]*>\s*)?(class|struct)\s+(?:DLAUNCH_EXPORT\s+)?(\w+)", head)) and "(" not in head:
            if body is not None and public:
                found.update(functions_in(body, kind.group(2), kind.group(1) == "struct"))
        elif public and not head.endswith("override") and "override" not in head.split(")")[-1]:
            if key := key_of(head, owner):
                found[key] = " ".join(head.replace("DLAUNCH_EXPORT", "").split())
    return found


def public_functions():
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "runtime/include/dlaunch/*.h"))):
        with open(path, encoding="utf-8") as file:
            found.update(functions_in(without_comments(file.read())))
    return found


def functions_of_page(path):
    """Those that its SYNOPSIS declares."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    synopsis = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH ", text, flags=re.DOTALL | re.MULTILINE).group(1)
    found = set()
    plain = re.sub(r"^\..*$", "", synopsis, flags=re.MULTILINE).replace("\\-", "-").replace("\\&", "")
    for declaration in plain.split(";"):
        head = declaration.split("(")[0]
        name = re.search(r"((?:\w+::)?\w+)\s*$", head)
        if "(" in declaration and "(*" not in declaration.split(")")[0] and "=" not in head and name:
            key = name.group(1)
            if key.partition("::")[0] == key.partition("::")[2]:
                continue  # a constructor
            if key in OVERLOADED:
                key += "(" + re.search(r"\(\s*(?:const )?(\w+)", declaration).group(1)
            found.add(key)
    return found


def main():
    complaints = []
    declared = public_functions()
    if len(declared) < 150:
        complaints.append(f"only {len(declared)} functions were found in the headers: does this test still read them?")
    described = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "man/libdlaunch-*.3"))):
        for function in functions_of_page(path):
            described.setdefault(function, []).append(os.path.basename(path))
    for function in sorted(declared):
        pages = described.get(function, [])
        if len(pages) != 1:
            complaints.append(f"{function} is in {', '.join(pages) or 'no page'}; it belongs in exactly one")
    for function in sorted(set(described) - set(declared)):
        complaints.append(f"{function} is in {', '.join(described[function])}, but in no public header")

    pages = sorted(glob.glob(os.path.join(ROOT, "man/*.[1-8]")))
    with open(os.path.join(ROOT, "man/libdlaunch.3"), encoding="utf-8") as file:
        overview = file.read()
    for path in glob.glob(os.path.join(ROOT, "man/libdlaunch-*.3")):
        name = os.path.basename(path).removesuffix(".3")
        if f"{name} (3)" not in overview.replace("\\-", "-"):
            complaints.append(f"libdlaunch.3 does not name {name}(3)")
    if shutil.which("groff"):
        for path in pages:
            with open(path, encoding="utf-8") as file:
                first = file.readline().split()
            if first[0] == ".so":  # another name of a page
                if not os.path.exists(os.path.join(ROOT, "man", os.path.basename(first[1]))):
                    complaints.append(f"{path}: there is no {first[1]}")
                continue
            warned = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", path], capture_output=True, text=True, check=False)
            complaints += warned.stderr.splitlines()
    for text in complaints:
        print(text)
    print(f"{len(declared)} functions, {len(pages)} pages, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
