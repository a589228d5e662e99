#!/usr/bin/env python3
"""The manual pages: every public function of the library is in the SYNOPSIS of exactly one page, every flag has an entry in dlaunch(1),
every field of the agents' messages is in dlaunch-protocol(7), pages and sections that are named exist, all pages are
installed, and groff warns of nothing.

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
# Of an option in dlaunch(1), in characters of its source: some sentences. Details belong in another section or page.
LONGEST_ENTRY = 400
# What pages quote of messages, in the pieces that stand in the sources.
QUOTED = {
    "README.md": ["the last lines that ", " wrote to ", "last known position of the ranks:", "failed: ", "exited with code ",
                  "not restarted: --max-restarts is 0", "; it failed at ", "going on without ", " never entered ", " waited "],
    "dlaunch-report.5": ["; stopping ", " at most ", " while an exception was on its way", " noticed it", " (its last line: ",
                         "try: ", "raise the memory limit of ", " held up to ", " holds "],
    "dlaunch-hang.7": [" never entered ", " of group ", " waited ", "nothing has moved for ", "the stacks: dlaunch dump ",
                       "sleeps in the kernel"],
    "dlaunch-store.1": ["listening on "],
    "libdlaunch-work.3": ["it died, or the connection to it was lost"],
}


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
        if scope := re.match(r'(inline\s+)?namespace\s+([\w:]+)$|extern "C"$', head):
            # What torch.distributed has in a module of its own keeps the module's name.
            if scope.group(2) not in ("codec", "dlaunch::codec", "float8_detail", "future_detail", "half_detail", "object_detail", "rpc_detail"):
                found.update(functions_in(body, scope.group(2) if scope.group(2) == "dist_autograd" else ""))
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
    # Most have the names of those above: here and in their page they are torch::all_reduce and the like.
    for path in sorted(glob.glob(os.path.join(ROOT, "runtime/torch/include/dlaunch/torch/*.h"))):
        with open(path, encoding="utf-8") as file:
            for key, declaration in functions_in(without_comments(file.read())).items():
                found[key if "::" in key else "torch::" + key] = declaration
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


def check_functions(declared):
    """Each public function is in the SYNOPSIS of one page, and each function there is public."""
    if len(declared) < 150:
        yield f"only {len(declared)} functions were found in the headers: does this test still read them?"
    described = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "man/libdlaunch-*.3"))):
        for function in functions_of_page(path):
            described.setdefault(function, []).append(os.path.basename(path))
    for function in sorted(declared):
        pages = described.get(function, [])
        if len(pages) != 1:
            yield f"{function} is in {', '.join(pages) or 'no page'}; it belongs in exactly one"
    for function in sorted(set(described) - set(declared)):
        yield f"{function} is in {', '.join(described[function])}, but in no public header"


def read_pages():
    """{file name: text without the escapes of dashes} of all pages that are not another page's second name."""
    pages = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "man/*.[1-8]"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if not text.startswith(".so "):
            pages[os.path.basename(path)] = text.replace("\\-", "-")
    return pages


def unfilled(text):
    """One line: without macros and escapes, with single blanks."""
    return re.sub(r"\s+", " ", re.sub(r"^\.\w\w? ?", "", text, flags=re.MULTILINE).replace("\\e", "\\").replace("\\&", ""))


def check_quotes(pages):
    """The messages that pages and README quote are those of the sources."""
    sources = ""
    for folder in ("agent", "launcher", "runtime", "store"):
        for path in glob.glob(os.path.join(ROOT, folder, "**/*.cpp"), recursive=True) + glob.glob(os.path.join(ROOT, folder, "**/*.h"), recursive=True):
            with open(path, encoding="utf-8") as file:
                # Literals that follow each other are one; comments do not count.
                sources += re.sub(r'"\s*"', "", re.sub(r"^\s*//[^\n]*", "", file.read(), flags=re.MULTILINE))
    for page, fragments in QUOTED.items():
        if page == "README.md":
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                text = file.read()
        else:
            text = pages[page]
        for fragment in fragments:
            if fragment not in unfilled(text):
                yield f"{page} does not quote '{fragment}' any more"
            if fragment not in sources:
                yield f"{page} quotes '{fragment}', which no source prints"


def references_in(text):
    """The file names of the pages that this text names: `.BR dlaunch-hang (7)`, `.BR dlaunch-status "(1), " dlaunch-store (1)`."""
    return {f"{name}.{section}" for name, section in re.findall(r"\b((?:lib)?dlaunch[\w-]*) \"?\((\d)\)", text)}


def sections_of(text):
    return [title.strip('"') for title in re.findall(r"^\.SH (.*)$", text, re.MULTILINE)]


def check_references(pages):
    """Pages and sections that are named exist; a page that names another in SEE ALSO is named there, too."""
    for name, text in pages.items():
        if sections_of(text)[-1] != "SEE ALSO":
            yield f"{name} does not end with SEE ALSO"
            continue
        for other in sorted(references_in(text)):
            if not os.path.exists(os.path.join(ROOT, "man", other)):
                yield f"{name} names {other}, which does not exist"
        for other in sorted(references_in(text.partition(".SH SEE ALSO")[2])):
            if other in pages and name not in references_in(pages[other]):
                yield f"{name} has {other} in SEE ALSO, which does not name it"
        for title, page, section in re.findall(r"\(?([A-Z][A-Z ]+[A-Z]) in\n\.BR ([\w-]+) \((\d)\)", text):
            if title not in sections_of(pages.get(f"{page}.{section}", "")):
                yield f"{name} refers to {title} in {page}({section}), which has no such section"
        for title in re.findall(r"\b[Ss]ee ([A-Z]{2}[A-Z ]+[A-Z])[.)]", text):
            if title not in sections_of(text):
                yield f"{name} refers to its section {title}, which does not exist"
    for name in pages:
        overview = "libdlaunch.3" if name.startswith("libdlaunch-") else "dlaunch.1"
        if name not in (overview, "libdlaunch.3") and name not in references_in(pages[overview]):
            yield f"{overview} does not name {name}"


def check_options(page):
    """dlaunch(1): each flag of --help has an entry of some sentences; examples come first."""
    titles = sections_of(page)
    if titles.index("EXAMPLES") > titles.index("OPTIONS"):
        yield "dlaunch.1: EXAMPLES come before OPTIONS"
    options = re.search(r"^\.SH OPTIONS\n(.*?)^\.SH ", page, re.DOTALL | re.MULTILINE).group(1)
    entries = {}
    for entry in re.split(r"^\.TP\n", options, flags=re.MULTILINE)[1:]:
        head, _, body = entry.partition("\n")
        for flag in re.findall(r"--([\w-]+)", head):
            entries[flag] = re.sub(r"^\.S[SH].*", "", body, flags=re.MULTILINE | re.DOTALL)
    with open(os.path.join(ROOT, "launcher/flags/flag_table.cpp"), encoding="utf-8") as file:
        flags = set(re.findall(r'\.name = "([\w-]+)"', file.read()))
    if len(flags) < 60:
        yield f"only {len(flags)} flags were found in flag_table.cpp: does this test still read it?"
    for flag in sorted(flags - set(entries)):
        yield f"dlaunch.1: --{flag} has no entry in OPTIONS"
    for flag in sorted(set(entries) - flags):
        yield f"dlaunch.1: --{flag} is no flag"
    for flag, body in entries.items():
        if len(body) > LONGEST_ENTRY:
            yield f"dlaunch.1: the entry of --{flag} has {len(body)} characters; more than {LONGEST_ENTRY} belong in another section or page"


def check_protocol(page):
    """dlaunch-protocol(7) names each field that agents send."""
    fields = set()
    for path in glob.glob(os.path.join(ROOT, "agent/control/message*.h")):
        with open(path, encoding="utf-8") as file:
            for value, body in re.findall(r"void fields\(auto& io, Of<[\w:<>]+> auto& (\w+)\) \{([^}]*)\}", file.read()):
                fields.update(re.findall(rf"\b{value}\.(\w+)", body))
    if len(fields) < 80:
        yield f"only {len(fields)} fields were found in agent/control/message*.h: does this test still read them?"
    for field in sorted(fields - set(re.findall(r"\w+", page))):
        yield f"dlaunch-protocol.7 does not name the field {field}"


def check_versions(pages):
    """Each page names the version of the project."""
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"^project\(dlaunch VERSION ([\d.]+)", file.read(), re.MULTILINE).group(1)
    for name, text in pages.items():
        if f'"dlaunch {version}"' not in text.partition("\n")[0]:
            yield f"{name}: .TH does not name dlaunch {version}"


def check_install(pages):
    """Each section of the manual that has pages is installed."""
    with open(os.path.join(ROOT, "cmake/InstallRules.cmake"), encoding="utf-8") as file:
        installed = re.findall(r"^install_manual\((\d) ", file.read(), re.MULTILINE)
    for section in sorted({name.rpartition(".")[2] for name in pages} - set(installed)):
        yield f"cmake/InstallRules.cmake does not install the pages of section {section}"


def check_syntax():
    """What groff warns of, and second names of pages that do not exist."""
    for path in sorted(glob.glob(os.path.join(ROOT, "man/*.[1-8]"))):
        with open(path, encoding="utf-8") as file:
            first = file.readline().split()
        if first[0] == ".so":
            if not os.path.exists(os.path.join(ROOT, "man", os.path.basename(first[1]))):
                yield f"{path}: there is no {first[1]}"
        elif shutil.which("groff"):
            yield from subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", path], capture_output=True, text=True, check=False).stderr.splitlines()


def main():
    declared = public_functions()
    pages = read_pages()
    complaints = [*check_functions(declared), *check_quotes(pages), *check_references(pages), *check_options(pages["dlaunch.1"]),
                  *check_protocol(pages["dlaunch-protocol.7"]), *check_install(pages), *check_versions(pages), *check_syntax()]
    for text in complaints:
        print(text)
    print(f"{len(declared)} functions, {len(pages)} pages, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
