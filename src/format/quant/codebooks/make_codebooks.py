#!/usr/bin/env python3
"""Writes the codebook headers of this folder from the raw tables.

    python3 make_codebooks.py FOLDER

FOLDER holds iq2xxs.bin, iq2xs.bin, iq2s.bin, iq3xxs.bin, iq3s.bin and iq1s.bin: the entries in index
order, element 0 first, one byte per element (iq1s: signed). The SHA-256 of each is written into its
header and checked by tests/unit/quant_codebook_test.cpp against the compiled table.
"""
import hashlib
import pathlib
import sys

# name: (title, elements per entry, bits per element, values)
BOOKS = {
    "iq1s": ("IQ1_S and IQ1_M", 8, 2, (-1, 0, 1)),
    "iq2xxs": ("IQ2_XXS", 8, 2, (8, 25, 43)),
    "iq2xs": ("IQ2_XS", 8, 2, (8, 25, 43)),
    "iq2s": ("IQ2_S", 8, 2, (8, 25, 43)),
    "iq3xxs": ("IQ3_XXS", 4, 3, (4, 12, 20, 28, 36, 44, 52, 62)),
    "iq3s": ("IQ3_S", 4, 3, (1, 3, 5, 7, 9, 11, 13, 15)),
}

HEADER = """\
// The codebook of {title}: {entries} entries of {elems} elements. Written by make_codebooks.py.
// A trained table: its values are those of ggml (MIT licence, copyright the ggml authors).
// SHA-256 of the unpacked bytes: {sha}
#pragma once

#include "format/quant/codebooks/expand.h"

namespace strata::quant::codebooks {{

inline constexpr int k{camel}Values[8] = {{{values}}};
inline constexpr uint16_t k{camel}Packed[{entries}] = {{
{rows}
}};
STRATA_TABLE Grid<{word}, {entries}> k{camel}Grid = expand<{word}>(k{camel}Packed, {bits}, k{camel}Values);

STRATA_HD inline {word} {name}_entry(uint32_t index) {{ return k{camel}Grid.entry[index]; }}

}}  // namespace strata::quant::codebooks
"""


def main():
    source = pathlib.Path(sys.argv[1])
    for name, (title, elems, bits, values) in BOOKS.items():
        raw = (source / f"{name}.bin").read_bytes()
        signed = [b - 256 if b > 127 else b for b in raw]
        entries = len(raw) // elems
        packed = [
            sum(values.index(signed[i * elems + j]) << bits * j for j in range(elems))
            for i in range(entries)
        ]
        words = [f"0x{p:04X}," for p in packed]
        rows = "\n".join("    " + " ".join(words[i:i + 12]) for i in range(0, entries, 12))
        padded = list(values) + [values[-1]] * (8 - len(values))
        text = HEADER.format(
            title=title, entries=entries, elems=elems, bits=bits, rows=rows, name=name,
            sha=hashlib.sha256(raw).hexdigest(), values=", ".join(map(str, padded)),
            camel=name[0].upper() + name[1:], word="uint64_t" if elems == 8 else "uint32_t")
        (pathlib.Path(__file__).parent / f"{name}.h").write_text(text)


if __name__ == "__main__":
    main()
