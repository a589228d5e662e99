#!/usr/bin/env python3
"""A DNS server for the hosts of a test: the addresses of the names in a file, "ADDRESS NAME" a line, as it is at each question.

    name_server.py ADDRESS FILE

Writes a line to stdout when it answers.
"""

import socket
import struct
import sys

A = 1
NO_SUCH_NAME = 3


def question_of(request):
    """The name, and where the question ends."""
    labels, at = [], 12
    while request[at]:
        labels.append(request[at + 1:at + 1 + request[at]].decode("ascii", "replace"))
        at += 1 + request[at]
    return ".".join(labels).lower(), at + 5


def answer(request, records):
    name, end = question_of(request)
    address = records.get(name)
    (kind,) = struct.unpack_from("!H", request, end - 4)
    found = address is not None and kind == A
    # An answer (0x8000), authoritative, with recursion as it was asked for.
    flags = 0x8400 | (request[2] & 1) << 8 | (0 if address else NO_SUCH_NAME)
    reply = request[:2] + struct.pack("!HHHHH", flags, 1, int(found), 0, 0) + request[12:end]
    if found:  # the question's name, an Internet address, valid for no time
        reply += struct.pack("!HHHIH", 0xC00C, A, 1, 0, 4) + socket.inet_aton(address)
    return reply


def main():
    address, path = sys.argv[1:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        print("answering", flush=True)
        while True:
            request, client = server.recvfrom(512)
            with open(path, encoding="utf-8") as file:
                records = {name: at for at, name in map(str.split, file)}
            server.sendto(answer(request, records), client)


if __name__ == "__main__":
    main()
