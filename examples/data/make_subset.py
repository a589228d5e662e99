#!/usr/bin/env python3
"""Cuts the first N training images out of a full MNIST directory; the test set is copied as it is.

    make_subset.py FULL_DIR OUT_DIR [N]        N defaults to 25000

The result is a directory of the same four file names, so whatever reads the full set reads the part too.
Reproducible: the gzip headers carry no time and no name, so the same input and the same zlib give the same bytes.
"""

import gzip
import os
import shutil
import struct
import sys

IMAGES_MAGIC = 0x00000803  # unsigned bytes, three dimensions: count, rows, columns
LABELS_MAGIC = 0x00000801  # unsigned bytes, one dimension: count


def read(path, magic, dimensions):
    """The sizes in the header and the payload after it."""
    with gzip.open(path, "rb") as file:
        header = struct.unpack(f">{1 + dimensions}I", file.read(4 * (1 + dimensions)))
        payload = file.read()
    expected = 1
    for size in header[1:]:
        expected *= size
    if header[0] != magic or len(payload) != expected:
        sys.exit(f"make_subset.py: {path} is not the IDX file its name promises")
    return header[1:], payload


def write(path, magic, sizes, payload):
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=9, mtime=0) as file:
        file.write(struct.pack(f">{1 + len(sizes)}I", magic, *sizes))
        file.write(payload)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    source, target = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) == 4 else 25000

    (total, rows, columns), pixels = read(os.path.join(source, "train-images-idx3-ubyte.gz"), IMAGES_MAGIC, 3)
    (labelled,), labels = read(os.path.join(source, "train-labels-idx1-ubyte.gz"), LABELS_MAGIC, 1)
    if labelled != total or not 0 < count <= total:
        sys.exit(f"make_subset.py: cannot take {count} of {total} images with {labelled} labels")

    os.makedirs(target, exist_ok=True)
    write(os.path.join(target, "train-images-idx3-ubyte.gz"), IMAGES_MAGIC, (count, rows, columns),
          pixels[: count * rows * columns])
    write(os.path.join(target, "train-labels-idx1-ubyte.gz"), LABELS_MAGIC, (count,), labels[:count])
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        shutil.copyfile(os.path.join(source, name), os.path.join(target, name))


if __name__ == "__main__":
    main()
