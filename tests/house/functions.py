"""Finds the functions of a C++ or C source by its braces, for a limit on their length."""

import re

# What braces must not be counted in. A literal becomes a space and keeps its lines.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\s\\]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
SCOPE = re.compile(r"(?:inline )?namespace\b|extern\s*$|(?:template <.*> )?(?:class|struct|union|enum)\b(?![^:]*\))", re.DOTALL)
NAME = re.compile(r"(?!requires\b|decltype\b|alignas\b)\b([\w~:]+|operator\S+)\s*\(")
ACCESS = re.compile(r"\s*(?:(?:public|protected|private):\s*)*")


def blank(match):
    return " " + "\n" * match.group().count("\n")


def declaration_of(code, brace):
    """The beginning and the text of what is declared before the brace at this place."""
    begin = max(code.rfind(end, 0, brace) for end in ";{}") + 1
    begin = ACCESS.match(code, begin, brace).end()
    return begin, code[begin:brace]


def name_of(declared):
    """The name of the function that is declared so; None if it is none."""
    test = re.match(r"TEST\w*\((\w+),\s*(\w+)\)", declared)
    if test:
        return ".".join(test.groups())
    called = NAME.search(declared)
    return called.group(1) if called else None


def functions(text):
    """(first line, last line, name) of each function that is in no other one; a table of data is none."""
    code = PREPROCESSOR.sub(blank, NO_CODE.sub(blank, text))
    depth = 0  # of braces inside the function or the table at hand; 0 outside of them
    begin, name = 0, None
    for brace in re.finditer(r"[{}]", code):
        if depth > 0:
            depth += 1 if brace.group() == "{" else -1
            if depth == 0 and name:
                yield code.count("\n", 0, begin) + 1, code.count("\n", 0, brace.start()) + 1, name
        elif brace.group() == "{":
            first, declared = declaration_of(code, brace.start())
            if SCOPE.match(declared):
                continue
            depth = 1
            # A constructor's initialisers may have braces of their own; its body follows.
            if declared and not declared.startswith(","):
                begin, name = first, name_of(declared)
