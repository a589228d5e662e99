#!/usr/bin/env python3
"""Which backend offers which call on which device, as the conformance tests see it: each of them compares the calls that its
ranks have made with this table (check_calls). README.md and the manual have its text; the house test compares them.

    support_table.py readme|man   prints the text
"""

import sys

# Column: backend and device.
COLUMNS = (("gloo", "cpu"), ("gloo", "cuda"), ("shm", "cpu"), ("shm", "cuda"), ("mpi", "cpu"), ("mpi", "cuda"), ("nccl", "cuda"))
# Row: the calls of the conformance test that it stands for, and the columns that do not offer it.
NCCL = (("nccl", "cuda"),)
ROWS = (
    ("all_reduce", ("all_reduce",), ()),
    ("broadcast", ("broadcast",), ()),
    ("reduce", ("reduce",), ()),
    ("all_gather, all_gather_into_tensor", ("all_gather", "all_gather_into_tensor"), ()),
    ("gather, scatter", ("gather", "scatter"), ()),
    ("reduce_scatter, reduce_scatter_tensor", ("reduce_scatter", "reduce_scatter_tensor"), ()),
    ("all_to_all, all_to_all_single", ("all_to_all", "all_to_all_single"), ()),
    ("coalesced calls", ("all_reduce_coalesced", "all_gather_coalesced"), ()),
    ("sum, product, min, max", ("sum", "sum-of-thirds", "product", "min", "max"), ()),
    ("band, bor, bxor of integers", ("band", "bor", "bxor"), NCCL),
    ("send, recv, batch_isend_irecv", ("send", "recv", "batch_isend_irecv"), ()),
    ("isend that needs no receiver yet", ("isend",), NCCL),
    ("recv from any rank", ("any",), NCCL),
    ("objects", ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"), ()),
)


def words(cells):
    """The names of calls and reductions in the names of cells, such as "all_reduce/sum float32 7"."""
    return {word for cell in cells for word in cell.split()[0].split("/") if word != "splits"}


def expected_words(backend, device):
    return {word for _, names, missing in ROWS if (backend, device) not in missing for word in names}


def check_calls(test, backend, device, cells_of_all_ranks):
    """What the ranks of a group with several ranks have done is what the table says, no more and no less."""
    test.assertIn((backend, device), COLUMNS)
    test.assertEqual(words(cells_of_all_ranks), expected_words(backend, device))


def lines():
    yield "", [f"{backend}, {device}" for backend, device in COLUMNS]
    for name, _, missing in ROWS:
        yield name, ["no" if column in missing else "yes" for column in COLUMNS]


def readme():
    text = []
    for name, cells in lines():
        text.append(f"| {' | '.join([name, *cells])} |".replace("|  |", "| |"))
        if len(text) == 1:
            text.append("|" + "---|" * (len(COLUMNS) + 1))
    return "\n".join(text) + "\n"


def man():
    width = max(len(name) for name, _, _ in ROWS) + 2
    text = [".nf"]
    for part in (0, 1):
        text.append(" " * width + "".join(f"{column[part]:6}" for column in COLUMNS))
    for name, cells in list(lines())[1:]:
        text.append(f"{name:{width}}" + "".join(f"{cell:6}" for cell in cells))
    return "\n".join(line.rstrip() for line in [*text, ".fi"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write({"readme": readme, "man": man}[sys.argv[1]]())
