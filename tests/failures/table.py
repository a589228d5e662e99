#!/usr/bin/env python3
"""Stages the failures and prints, for each: which points its last screen has, the time from the fault to the last message,
the exit code, and the last line.

    DLAUNCH_BIN_DIR=build/bin tests/failures/table.py [NUMBER ...]
"""

import importlib
import sys
import unittest

sys.dont_write_bytecode = True
from staging import POINTS, Failures, summary  # noqa: E402

MODULES = ("workers_cases_test", "waiting_cases_test", "limits_cases_test", "nodes_cases_test")
CASES = 30


def tests_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def stagings(numbers):
    """The tests of these cases, in their order."""
    found = []
    for name in MODULES:
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))):
            row = getattr(getattr(test, test._testMethodName), "row", None)  # pylint: disable=protected-access
            if row and (not numbers or row.number in numbers):
                found.append((row, test))
    return sorted(found, key=lambda pair: pair[0].number)


def line_of(row, screen, said):
    marks = " ".join("-" if row.patterns[point] is None else "1" if said[point] else "0" for point in POINTS)
    took = "" if screen.seconds is None else f"{screen.seconds * 1000:.0f} ms" if screen.seconds < 1 else f"{screen.seconds:.1f} s"
    code = "goes on" if screen.code is None else str(screen.code)
    last = (summary(screen.text) if screen.text else "(nothing)").removeprefix("dlaunch: ")
    return f"{row.number:>2}  {row.title[:44]:<44}  {marks}  {took:>7}  {code:>7}  {last[:150]}"


def main():
    print(f"{'#':>2}  {'case':<44}  C R H M  {'time':>7}  {'exit':>7}  last line")
    points = {}  # by case: those that each of its stagings has
    skipped = {}
    for row, test in stagings({int(word) for word in sys.argv[1:]}):
        Failures.judged.clear()
        result = unittest.TestResult()
        test.run(result)
        if result.skipped:
            print(f"{row.number:>2}  {row.title[:44]:<44}  not staged: {result.skipped[0][1]}")
            skipped[row.number] = True
            continue
        if not Failures.judged:
            print(f"{row.number:>2}  {row.title[:44]:<44}  {result.errors[0][1].splitlines()[-1]}")
            points[row.number] = set()
            continue
        ((_, screen, said),) = Failures.judged
        print(line_of(row, screen, said), flush=True)
        points[row.number] = points.get(row.number, set(POINTS)) & {point for point in POINTS if said[point]}
    whole = sum(len(said) == len(POINTS) for said in points.values())
    each = ", ".join(f"{point} {sum(point in said for said in points.values())}" for point in POINTS)
    print(f"\n{whole} of {CASES} cases have all four points; {each}; {CASES - len(points)} not staged")
    return 0


sys.exit(main())
