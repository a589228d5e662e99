#!/usr/bin/env python3
"""Failures of ranks that wait for each other: different operations, hangs, stragglers, a rank that is gone.

    DLAUNCH_BIN_DIR=build/bin waiting_cases_test.py [Class.test ...]
"""

import sys

sys.dont_write_bytecode = True
from staging import PLACE, RANK, TRAINER, Above, Failures, case  # noqa: E402

from common import is_sanitized, main  # noqa: E402

DIFFERENT = r"exited with code 1: the ranks call different operations at #5 of group default: "
IN_RANK = r"rank {rank} \(local rank {rank}, node 0, host {host}, pid {pid}\)"


class Waiting(Failures):
    def watch(self, fault, rank, pattern, *options, **variables):
        """The first lines about a job that goes on."""
        job = self.begin("--nproc-per-node=4", "--rdzv-id=job5", *options, TRAINER, fault, str(rank), **variables)
        return self.screen_at(job, pattern, rank=rank)

    @case(15, "one rank has another shape",
          cause=DIFFERENT + r"rank 1 calls all_reduce\(999 x float32, sum\); ranks [023, ]+ call all_reduce\(1000 x float32, sum\)", rank=RANK, host=PLACE,
          remedy=r"^find what makes rank 1 differ before #5 of group default: ")
    def test_15_shape(self):
        return self.train("shape", 1)

    @case(16, "one rank has another order",
          cause=DIFFERENT + r"rank 1 calls broadcast\(1000 x float32, src 0\); ranks [023, ]+ call all_reduce\(1000 x float32, sum\)", rank=RANK, host=PLACE,
          remedy=r"^find what makes rank 1 differ before #5 of group default: ")
    def test_16_order(self):
        return self.train("order", 1)

    @case(17, "one rank never joins",
          cause=Above(r"nothing has moved for [^:]+: ranks 0, 2 and 3 have been in init_process_group for [\d.]+ m?s; .* has not come; rank 1 sleeps in the kernel"),
          rank=Above(r"rank {rank} \("), host=Above(IN_RANK), remedy=Above(r"dlaunch dump job5 on each host; --hang-timeout ends such a job"))
    def test_17_never_joins(self):
        return self.watch("late", 1, r"rank 1 \(.* has not come.*\n(.*\n)*?dlaunch: the stacks: .*\n", "--hang-note=1")

    @case(18, "a hang in a computation",
          cause=Above(r"nothing has moved for [^:]+: .* never entered all_reduce #5 of group default; the other 3 have waited [\d.]+ m?s(.*\n)+.*trainer::forward\(bool\)"),
          rank=Above(r"rank {rank} \("), host=Above(IN_RANK), remedy=Above(r"dlaunch dump job5 on each host; --hang-timeout ends such a job"))
    def test_18_hang(self):
        if is_sanitized():
            self.skipTest("the sanitizers handle the signal that asks for a stack")
        return self.watch("hang", 1, r"^dlaunch:   #\d+ main in trainer\+", "--hang-note=1")

    @case(18, "the same with --hang-timeout",
          cause=r"nothing has moved for 2 s \(--hang-timeout\): .* never entered all_reduce #5 of group default; the other 3 have waited [\d.]+ m?s",
          rank=r"rank {rank} \(", host=IN_RANK, remedy=r"'dlaunch dump job5' on host {host}")
    def test_18_timeout(self):
        return self.train("hang", 1, options=["--hang-timeout=2", "--rdzv-id=job5"])

    @case(19, "a worker is stopped by a signal",
          cause=Above(r"nothing has moved for [^:]+: .* never entered all_reduce #5 .*; rank 2 is stopped"), rank=Above(r"rank {rank} \("), host=Above(IN_RANK),
          remedy=Above(r"^dlaunch: let it go on: kill -CONT {pid} on host {host}, "))
    def test_19_stopped(self):
        return self.watch("stop", 2, r"rank 2 is stopped.*\n(.*\n)*?dlaunch: the stacks: .*\n", "--hang-note=1")

    @case(21, "a rank leaves a daemon and returns 0",
          cause=r"left the group at all_reduce #5 of group default and returned 0", rank=RANK, host=r"host {host}(, pid {pid})?\)",
          remedy=r"^give every rank the same number of steps, or call barrier\(\) before destroy_process_group\(\)$")
    def test_21_daemons(self):
        return self.train("daemons", 1)

    @case(23, "a straggler that needs five times as long",
          cause=Above(r"rank 2 is slow: in the last 3 s it came last to \d+ of \d+ collectives of group default, and the others waited [\d.]+ m?s for it alone \(\d+ %\)"),
          rank=Above(r"rank {rank} is slow"), host=Above(r"\(pid {pid} on host {host}\)"), remedy=Above(r"dlaunch dump job5 there shows what rank 2 "))
    def test_23_straggler(self):
        return self.watch("slow", 2, r"^dlaunch: rank 2 is slow", DLAUNCH_STRAGGLER_WINDOW="3")


if __name__ == "__main__":
    main()
