#!/usr/bin/env python3
"""Rules of the source tree that a compiler does not check. Prints each violation; exit code 1 if any.

  - an include points to the same layer or a lower one (order: src/CMakeLists.txt)
  - files stay small and have one job
  - sources are listed, not globbed
  - no state that outlives its owner (state.py), in the sources and in what they compile to
  - no environment variables, no exit or abort below apps/
  - the baseline instruction set stays clean: wide code is local to its own file
"""
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import state  # beside this file

ROOT = pathlib.Path(sys.argv[1])
BUILD = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
SRC = ROOT / "src"
MAX_LINES = 700
problems = []


def problem(path, line, text):
    problems.append("%s:%d: %s" % (path.relative_to(ROOT), line, text))


layers = re.search(r"set\(STRATA_LAYERS ([^)]*)\)", (SRC / "CMakeLists.txt").read_text()).group(1).split()
order = {name: i for i, name in enumerate(layers)}
# server/ speaks to the engine through these headers alone.
SERVER_MAY_SEE = {"engine/engine.h", "engine/constraint.h", "engine/sampling_params.h"}

# What calls into these files has no argument that could carry the object.
MAY_HAVE_STATE = {
    "backend/gpu/emu/race.cpp",   # the sanitizer's callbacks: the recorder of the fiber that runs
}

sources = [p for p in SRC.rglob("*") if p.suffix in (".h", ".cpp", ".inl", ".cu", ".def", ".js", ".css", ".html")]
for path in sources:
    layer = path.relative_to(SRC).parts[0]
    lines = path.read_text(encoding="utf-8").split("\n")
    if len(lines) > MAX_LINES:
        problem(path, len(lines), "%d lines; %d at most" % (len(lines), MAX_LINES))
    for number, line in enumerate(lines, 1):
        include = re.match(r'\s*#include "([^"]+)"', line)
        if include:
            target = include.group(1).split("/")[0]
            if target in order and order[target] > order[layer]:
                problem(path, number, "%s/ may not include %s" % (layer, include.group(1)))
            if layer == "server" and target not in ("server", "base") and include.group(1) not in SERVER_MAY_SEE:
                problem(path, number, "server/ may see engine/engine.h only, not %s" % include.group(1))
        code = line.split("//")[0]
        if path.suffix not in (".h", ".cpp", ".inl", ".cu"):
            continue
        if re.search(r"\b(getenv|secure_getenv|setenv)\b", code):
            problem(path, number, "environment variables are not read; add an option")
        if layer != "apps" and re.search(r"(?<![\w.>])(std::)?(exit|abort|_Exit|quick_exit|terminate)\s*\(", code):
            problem(path, number, "no %s below apps/" % code.strip())
    if path.suffix in (".h", ".cpp", ".inl", ".cu") and layer != "apps":
        for number, text in state.check_text("\n".join(lines)):
            # Below and beside the devices a constant made at first use may hold text and tables.
            constant = layer not in state.LAYERS and re.search(r"static const |const static ", text)
            if "environment" not in text and not constant and str(path.relative_to(SRC)) not in MAY_HAVE_STATE:
                problem(path, number, text)

for path in list(ROOT.glob("CMakeLists.txt")) + list(SRC.rglob("CMakeLists.txt")) + list((ROOT / "tests").rglob("CMakeLists.txt")):
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if re.search(r"file\s*\(\s*GLOB", line):
            problem(path, number, "sources are listed, not globbed")

if BUILD is not None:
    exempt = {"%s.o" % pathlib.Path(name).name for name in MAY_HAVE_STATE}
    for layer in state.LAYERS:
        for compiled in sorted((BUILD / "src" / layer).rglob("*.cpp.o")):
            if compiled.name not in exempt:
                problems += state.check_object(compiled)
    for wide in sorted(BUILD.rglob("kernels_avx*.cpp.o")):
        symbols = subprocess.run(["nm", str(wide)], capture_output=True, text=True, check=True).stdout
        for name in re.findall(r"^\S+ [WVu] (\S+)$", symbols, re.M):
            code = subprocess.run(["objdump", "-d", "--disassemble=" + name, str(wide)],
                                  capture_output=True, text=True, check=True).stdout
            if re.search(r"%[yz]mm\d|\tv[a-z0-9]+ ", code):
                problems.append("%s: the shared inline function %s uses wide instructions" % (wide.name, name))

print("\n".join(problems) if problems else "layers: %d files, no violation" % len(sources))
sys.exit(1 if problems else 0)
