#!/usr/bin/env python3
"""Writes quant_vectors.bin: random blocks of every quantised type and the floats that ggml decodes
them to.

    python3 make_quant_vectors.py LIBGGML_BASE quant_vectors.bin

LIBGGML_BASE is libggml-base.so of llama.cpp, for instance from the npm package node-llama-cpp 3.22.1
(node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so). Only the Python standard
library is needed. The output depends on nothing but SEED and that library.

File, little-endian: "SQV1", u32 records; each record: u32 name length, name, u32 blocks, u32 bytes per
block, u32 elements per block, the blocks, the expected float32 values. "Q2_0_G128" is not a ggml type:
each of its blocks is given to ggml as two Q2_0 blocks with the same scale.
"""
import ctypes
import random
import struct
import sys

SEED = 20260611
# name: (ggml symbol suffix, elements, bytes, offsets of the half fields)
TYPES = {
    "Q1_0": ("q1_0", 128, 18, [0]),
    "Q2_0": ("q2_0", 64, 18, [0]),
    "Q2_0_G128": ("q2_0", 128, 34, [0]),
    "Q4_0": ("q4_0", 32, 18, [0]),
    "Q4_1": ("q4_1", 32, 20, [0, 2]),
    "Q5_0": ("q5_0", 32, 22, [0]),
    "Q5_1": ("q5_1", 32, 24, [0, 2]),
    "Q8_0": ("q8_0", 32, 34, [0]),
    "Q2_K": ("q2_K", 256, 84, [80, 82]),
    "Q3_K": ("q3_K", 256, 110, [108]),
    "Q4_K": ("q4_K", 256, 144, [0, 2]),
    "Q5_K": ("q5_K", 256, 176, [0, 2]),
    "Q6_K": ("q6_K", 256, 210, [208]),
    "IQ1_S": ("iq1_s", 256, 50, [0]),
    "IQ1_M": ("iq1_m", 256, 56, []),
    "IQ2_XXS": ("iq2_xxs", 256, 66, [0]),
    "IQ2_XS": ("iq2_xs", 256, 74, [0]),
    "IQ2_S": ("iq2_s", 256, 82, [0]),
    "IQ3_XXS": ("iq3_xxs", 256, 98, [0]),
    "IQ3_S": ("iq3_s", 256, 110, [0]),
    "IQ4_NL": ("iq4_nl", 32, 18, [0]),
    "IQ4_XS": ("iq4_xs", 256, 136, [0]),
    "MXFP4": ("mxfp4", 32, 17, []),
    "NVFP4": ("nvfp4", 64, 36, []),
}
# Half bit patterns: zero, minus zero, smallest and largest subnormal, smallest normal, one, minus one,
# largest, minus largest.
EDGE_HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]
BYTE_BUDGET = 12_700  # of blocks and floats, per type


def half(rng, block):
    if block < len(EDGE_HALVES):
        return EDGE_HALVES[block]
    return rng.randrange(0x7C00) | rng.choice((0, 0x8000))


def make_block(rng, name, index):
    _, _, size, halves = TYPES[name]
    block = bytearray(rng.randbytes(size))
    for k, offset in enumerate(halves):
        # The second half (a minimum) walks the edges at another pace than the first.
        struct.pack_into("<H", block, offset, half(rng, index if k == 0 else index * 4 % 13))
    if name == "IQ1_M":  # the scale is spread over the upper nibbles of four words
        d = half(rng, index)
        for k in range(4):
            at = 48 + 2 * k
            word, = struct.unpack_from("<H", block, at)
            struct.pack_into("<H", block, at, (word & 0x0FFF) | ((d >> 4 * k) & 15) << 12)
    if name == "MXFP4":
        edges = [0, 1, 2, 127, 128, 253, 254, 255]
        block[0] = edges[index] if index < len(edges) else rng.randrange(256)
    if name == "NVFP4":
        edges = [0x00, 0x7F, 0x01, 0x07, 0x08, 0x0F, 0x10, 0x77, 0x78, 0x7E, 0x80, 0x88, 0xFE, 0xFF]
        for k in range(4):
            i = 4 * index + k
            block[k] = edges[i] if i < len(edges) else rng.randrange(256)
    return bytes(block)


def main():
    library = ctypes.CDLL(sys.argv[1])
    rng = random.Random(SEED)
    out = bytearray(b"SQV1" + struct.pack("<I", len(TYPES)))
    for name, (symbol, elems, size, _) in TYPES.items():
        count = max(6, min(40, BYTE_BUDGET // (size + 4 * elems)))
        blocks = [make_block(rng, name, i) for i in range(count)]
        data = b"".join(blocks)
        if name == "Q2_0_G128":
            peer = b"".join(b[:2] + b[2:18] + b[:2] + b[18:] for b in blocks)
        else:
            peer = data
        values = (ctypes.c_float * (count * elems))()
        decode = getattr(library, "dequantize_row_" + symbol)
        decode.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_float), ctypes.c_int64]
        decode.restype = None
        decode(peer, values, count * elems)
        out += struct.pack("<I", len(name)) + name.encode()
        out += struct.pack("<III", count, size, elems) + data + bytes(values)
    open(sys.argv[2], "wb").write(out)


if __name__ == "__main__":
    main()
