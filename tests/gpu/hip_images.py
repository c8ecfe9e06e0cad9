#!/usr/bin/env python3
"""Lists the code objects inside libstrata_hip.so and checks that they are complete.

    hip_images.py MODULE ARCHITECTURES QUANT_TYPES      lists with commas

Every architecture must have every kernel that the module's host code names for its group, every weight
type among them, and nothing else may be inside. Damaged copies of the file must be noticed.
"""
import collections
import re
import struct
import sys
from pathlib import Path

BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
AMDGPU = 224  # e_machine
GROUPS = {"gfx103": "Gfx10", "gfx110": "Gfx11", "gfx115": "Gfx11", "gfx120": "Gfx12"}


class Broken(Exception):
    pass


class Elf:
    """Sections and symbols of a 64-bit little-endian ELF file."""

    def __init__(self, data):
        if data[:5] != b"\x7fELF\x02":
            raise Broken("a code object is no ELF file")
        self.data = data
        self.machine, = struct.unpack_from("<H", data, 18)
        table, = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        self.sections = []
        for i in range(count):
            name, kind, _, _, offset, length, link = struct.unpack_from("<IIQQQQI", data, table + i * size)
            self.sections.append((name, kind, offset, length, link))
        base = self.sections[names][2]
        self.named = {self.text(base + name): (offset, length) for name, _, offset, length, _ in self.sections}

    def text(self, at):
        return self.data[at : self.data.index(b"\0", at)].decode()

    def symbols(self):
        for _, kind, offset, length, link in self.sections:
            if kind not in (2, 11):  # .symtab, .dynsym
                continue
            strings = self.sections[link][2]
            for at in range(offset, offset + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", self.data, at)
                if section:
                    yield self.text(strings + name)


def code_objects(fatbin):
    """(architecture, bytes) of each image of each bundle."""
    at = fatbin.find(BUNDLE)
    while at >= 0:
        count, = struct.unpack_from("<Q", fatbin, at + 24)
        entry = at + 32
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", fatbin, entry)
            target = fatbin[entry + 24 : entry + 24 + length].decode()
            entry += 24 + length
            if not target.startswith("host"):
                yield target.split("--")[-1], fatbin[at + offset : at + offset + size]
        at = fatbin.find(BUNDLE, at + 1)


def check(data, architectures, quants):
    """Kernels by architecture; raises Broken with what is missing."""
    module = Elf(data)
    if ".hip_fatbin" not in module.named:
        raise Broken("the module has no section .hip_fatbin: no device code at all")
    offset, length = module.named[".hip_fatbin"]
    compiled = collections.defaultdict(set)
    for architecture, image in code_objects(data[offset : offset + length]):
        elf = Elf(image)
        if elf.machine != AMDGPU:
            raise Broken("%s: an image is no AMD GPU code (machine %d)" % (architecture, elf.machine))
        compiled[architecture] |= {name[:-3] for name in elf.symbols() if name.endswith(".kd")}
    if sorted(compiled) != sorted(architectures):
        raise Broken("images for %s, built for %s" % (sorted(compiled), sorted(architectures)))

    stub = re.compile(r"^(_ZN6strata3gpu)27__device_stub__(kernel_entryI.*)$")
    named = collections.defaultdict(set)
    for name in module.symbols():
        match = stub.match(name)
        if match:
            group = re.search(r"4arch5(Gfx\d\d)E", name).group(1)
            named[group].add("%s12%s" % match.groups())
    for architecture in architectures:
        group = GROUPS[architecture[:6]]
        missing, extra = named[group] - compiled[architecture], compiled[architecture] - named[group]
        if missing or extra or not named[group]:
            raise Broken("%s: %d kernels, %d missing (%s), %d that no host code names (%s)" % (
                architecture, len(compiled[architecture]), len(missing), sorted(missing)[:3], len(extra),
                sorted(extra)[:3]))
        for quant in quants:
            if not any("5quant%d%sE" % (len(quant), quant) in name for name in compiled[architecture]):
                raise Broken("%s: no kernel for %s weights" % (architecture, quant))
    return compiled


def must_notice(what, data, architectures, quants):
    try:
        check(data, architectures, quants)
    except Broken as problem:
        print("noticed %s: %s" % (what, problem))
        return
    raise Broken("%s was not noticed" % what)


def main():
    path, architectures, quants = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(",")
    data = Path(path).read_bytes()
    for architecture, kernels in sorted(check(data, architectures, quants).items()):
        print("%s: %d kernels" % (architecture, len(kernels)))

    first = architectures[0].encode()
    must_notice("a missing architecture", data, architectures + ["gfx1102"], quants)
    must_notice("an image under another name", data.replace(b"amdhsa--" + first, b"amdhsa--gfx9999"[: 8 + len(first)]),
                architectures, quants)
    kernel = re.search(rb"_ZN6strata3gpu12kernel_entryI[^\0]*\.kd\0", data).group(0)
    must_notice("a kernel gone from one image", data.replace(kernel, kernel.replace(b"kernel_entry", b"kernel_exitt")),
                architectures, quants)
    must_notice("a weight type without kernels", data, architectures, quants + ["Q9_9"])


if __name__ == "__main__":
    try:
        main()
    except Broken as problem:
        sys.exit("%s: %s" % (sys.argv[1], problem))
