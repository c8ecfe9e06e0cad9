#!/usr/bin/env python3
"""Writes a GGUF that has the metadata of another one and no tensors: what a peer needs to tokenise.

  make_vocabulary.py MODEL.gguf OUT.gguf
"""
import os
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

with open(sys.argv[1], "rb") as file:
    data = file.read()
magic, version, tensors, keys = struct.unpack_from("<4sIQQ", data)
at = 24


def skip_string(at):
    return at + 8 + struct.unpack_from("<Q", data, at)[0]


def skip_value(kind, at):
    if kind == 8:
        return skip_string(at)
    if kind == 9:
        element, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if element == 8:
            for _ in range(count):
                at = skip_string(at)
            return at
        return at + SIZES[element] * count
    return at + SIZES[kind]


for _ in range(keys):
    at = skip_string(at)
    kind, = struct.unpack_from("<I", data, at)
    at = skip_value(kind, at + 4)
os.makedirs(os.path.dirname(sys.argv[2]) or ".", exist_ok=True)
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<4sIQQ", magic, version, 0, keys) + data[24:at])
