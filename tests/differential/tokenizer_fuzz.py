#!/usr/bin/env python3
"""Compares Strata's tokenizer with independent ones on made-up strings.

  tokenizer_fuzz.py --ours TOKENIZER_BATCH --vocabulary TOKENIZER_JSON [--count N] [--seed N]
      --peer-libs DIR --model GGUF    llama.cpp: the shared libraries of the npm package
                                      node-llama-cpp 3.22.1 (llama.cpp v0.5.0), folder
                                      @node-llama-cpp/linux-x64/bins/linux-x64, and a file it opens
      --hf DIR                        Hugging Face tokenizers: folder that holds
                                      node_modules/tokenizers (npm, 0.23.2); needs node

Install either package with `npm install --ignore-scripts --prefix DIR NAME@VERSION`. At least one
peer is needed. Exits 1 when a string differs that no rule below explains.

What is known to differ, and how it is kept out of the comparison:
- llama.cpp applies no NFC: its strings are normalised beforehand and ours run with --no-nfc.
- llama.cpp matches user-defined tokens (<think>) in plain text too: strings that hold one are
  compared with special tokens parsed only.
- Contractions: ours and llama.cpp fold ASCII letters only, Hugging Face also takes U+017F for an s:
  strings with an apostrophe before U+017F are not sent to it.
- Hugging Face normalises with tables of Unicode 9 (found by trying every code point): strings with
  a combining mark or a composite that came later are not sent to it.
- Unicode versions: a code point that this Python does not know as assigned is not made up for
  llama.cpp.
"""
import argparse
import ctypes
import glob
import json
import os
import random
import re
import struct
import subprocess
import sys
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
SPACES = [chr(c) for c in (9, 10, 11, 12, 13, 28, 31, 32, 32, 32, 0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x2010),
                           0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF)]
SCRIPTS = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x250, 0x2FF), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F), (0x5D0, 0x5EA),
           (0x600, 0x6FF), (0x700, 0x74F), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xF00, 0xFFF), (0x10A0, 0x10FF),
           (0x1100, 0x11FF), (0x1200, 0x137F), (0x1780, 0x17FF), (0x1E00, 0x1FFF), (0x2C00, 0x2DFF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
           (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFF00, 0xFFEF), (0x10000, 0x100FF), (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF),
           (0x2F800, 0x2FA1D)]
MARKS = [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x64B, 0x65F), (0x93A, 0x94F), (0xE47, 0xE4E), (0x1AB0, 0x1ABD), (0x20D0, 0x20F0),
         (0x3099, 0x309A), (0xFE00, 0xFE0F), (0x1D165, 0x1D169)]
DIGITS = [(0x30, 0x39), (0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xB2, 0xB3), (0xBC, 0xBE), (0x2150, 0x218B), (0x2460, 0x249B),
          (0x3007, 0x3007), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF)]
SYMBOLS = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E), (0xA1, 0xBF), (0x2010, 0x205E), (0x20A0, 0x20BF), (0x2100, 0x214F),
           (0x2190, 0x23FF), (0x2600, 0x27BF), (0x3001, 0x303F), (0x1F300, 0x1F64F), (0x1F900, 0x1F9FF), (0x1F1E6, 0x1F1FF), (0xE000, 0xE010)]
CONTRACTIONS = [a + b for a in ("'", "'", "\u2019") for b in ("s t re ve m ll d S T RE Ve M lL D Re \u017f x l v".split())]
MARKS_AFTER_UNICODE_9 = re.compile(
    "[\u07fd\u0897-\u089f\u08ca-\u08d3\u09fe\u0c3c\u0d3b\u0d3c\u0eba\u1715\u1abf-\u1ace\u1df6-\u1dfa\ua82c\U00010d24-\U00010d27"
    "\U00010eab\U00010eac\U00010efd-\U00010eff\U00010f46-\U00010f50\U00010f82-\U00010f85\U00011070\U0001133b\U0001145e\U00011839"
    "\U0001183a\U00011930\U00011935\U00011938\U0001193d\U0001193e\U00011943\U000119e0\U00011a34\U00011a47\U00011a99\U00011d42\U00011d44"
    "\U00011d45\U00011d97\U00011f41\U00011f42\U00016ff0\U00016ff1\U0001e08f\U0001e130-\U0001e136\U0001e2ae\U0001e2ec-\U0001e2ef"
    "\U0001e4ec-\U0001e4ef]")
EMOJI = ["\U0001F469\u200D\U0001F467", "\u2764\uFE0F", "1\uFE0F\u20E3", "\U0001F1E9\U0001F1EA", "\U0001F44D\U0001F3FD"]


class Generator:
    def __init__(self, seed, pieces, added, any_code_point):
        self.r = random.Random(seed)
        self.pieces, self.added, self.any = pieces, added, any_code_point

    def char(self, ranges):
        while True:
            lo, hi = self.r.choice(ranges)
            c = self.r.randint(lo, hi)
            if not 0xD800 <= c <= 0xDFFF and (self.any or unicodedata.category(chr(c)) != "Cn"):
                return chr(c)

    def run(self, ranges, most=8):
        return "".join(self.char(ranges) for _ in range(self.r.randint(1, most)))

    def part(self):
        r, kind = self.r, self.r.randrange(15)
        if kind == 0:
            return self.run([r.choice(SCRIPTS)])
        if kind == 1:
            return "".join(r.choice(SPACES) for _ in range(r.randint(1, 5)))
        if kind == 2:
            return r.choice(CONTRACTIONS)
        if kind == 3:
            return self.run(DIGITS, 5)
        if kind == 4:
            return r.choice(EMOJI)
        if kind == 5:
            return r.choice(["", "a", "e", "\u0915", " "]) + self.run(MARKS, 4)
        if kind == 6:
            return self.run(SYMBOLS, 6)
        if kind == 7:
            return r.choice(["\n", "\r\n", "\r", "\n\n", "\n\n\n", " \n ", "\t\n"]) * r.randint(1, 2)
        if kind == 8:
            return r.choice(self.added)
        if kind == 9:
            token = r.choice(self.added)
            return token[r.randrange(len(token)):] if r.random() < 0.5 else token[:r.randrange(len(token))]
        if kind == 10:
            return "".join(r.choice(self.pieces) for _ in range(r.randint(1, 12)))
        if kind == 11:
            return self.char([(0, 0x10FFFF)])
        if kind == 12:
            return r.choice(" ,.!?-_/<|>'\"(){}[]=") * r.randint(1, 6)
        if kind == 13:
            return " " * r.randint(1, 20)
        return "".join(r.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ") for _ in range(r.randint(1, 24)))

    def string(self):
        return "".join(self.part() for _ in range(self.r.randint(1, 10)))


def every_code_point(any_code_point):
    """Strings that hold every code point between letters, digits, spaces and itself, also decomposed."""
    shapes = ["{0}", " {0}a", "a{0}1 {0}{0}\n", "'{0}s", "{1}", "e{0}\u0301"]
    for first in range(0, 0x110000, 32):
        known = [chr(c) for c in range(first, first + 32)
                 if not 0xD800 <= c <= 0xDFFF and (any_code_point or unicodedata.category(chr(c)) != "Cn")]
        for shape in shapes if known else []:
            yield "|".join(shape.format(c, unicodedata.normalize("NFD", c)) for c in known)


def hugging_face_agrees(text):
    """Whether the known differences leave this string out."""
    return not MARKS_AFTER_UNICODE_9.search(text) and "'\u017f" not in unicodedata.normalize("NFC", text)


def records(cases):
    return b"".join(p.encode() + struct.pack("<I", len(s.encode())) + s.encode() for p, s in cases)


def run_batch(command, cases):
    done = subprocess.run(command, input=records(cases), stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"tokenizer_fuzz.py: {command[0]} failed with {done.returncode}")
    lines = done.stdout.decode().split("\n")[:-1]
    if len(lines) != len(cases):
        sys.exit(f"tokenizer_fuzz.py: {command[0]} answered {len(lines)} of {len(cases)} strings")
    return [[int(x) for x in line.split()] for line in lines]


class ModelParams(ctypes.Structure):
    """llama_model_params of v0.5.0: pointers and numbers up to vocab_only, which alone is changed."""
    _fields_ = [("pointers", ctypes.c_void_p * 2), ("numbers", ctypes.c_int32 * 5), ("more", ctypes.c_void_p * 4),
                ("vocab_only", ctypes.c_bool), ("flags", ctypes.c_bool * 5)]


class Llama:
    def __init__(self, folder, model):
        def library(stem):
            found = sorted(glob.glob(os.path.join(folder, stem + ".v*.so")) + glob.glob(os.path.join(folder, stem + ".so*")))
            if not found:
                sys.exit(f"tokenizer_fuzz.py: no {stem} in {folder}")
            return ctypes.CDLL(found[0], mode=ctypes.RTLD_GLOBAL)
        library("libggml-base")
        ggml, lib = library("libggml"), library("libllama")
        ggml.ggml_backend_load_all_from_path(os.fsencode(folder))
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        lib.llama_log_set(self.quiet, None)
        lib.llama_model_default_params.restype = ModelParams
        lib.llama_model_load_from_file.restype = ctypes.c_void_p
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, ModelParams]
        lib.llama_model_get_vocab.restype = ctypes.c_void_p
        lib.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32,
                                       ctypes.c_bool, ctypes.c_bool]
        params = lib.llama_model_default_params()
        params.vocab_only = True
        loaded = lib.llama_model_load_from_file(os.fsencode(model), params)
        if not loaded:
            sys.exit(f"tokenizer_fuzz.py: llama.cpp does not open {model}")
        self.vocab, self.tokenize = lib.llama_model_get_vocab(loaded), lib.llama_tokenize

    def ids(self, policy, text):
        data = text.encode()
        out = (ctypes.c_int32 * (len(data) + 8))()
        n = self.tokenize(self.vocab, data, len(data), out, len(out), False, policy == "s")
        return list(out[:n])


def compare(name, cases, ours, theirs):
    bad = [i for i in range(len(cases)) if ours[i] != theirs[i]]
    print(f"{name}: {len(cases)} strings, {sum(map(len, ours))} tokens, {len(bad)} differ")
    for i in bad[:10]:
        print(f"  {cases[i][0]} {ascii(cases[i][1])[:300]}\n    ours   {ours[i][:40]}\n    theirs {theirs[i][:40]}")
    return len(bad)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ours", required=True)
    ap.add_argument("--vocabulary", required=True)
    ap.add_argument("--peer-libs")
    ap.add_argument("--model")
    ap.add_argument("--hf")
    ap.add_argument("--count", type=int, default=30000)
    ap.add_argument("--seed", type=int, default=1)
    o = ap.parse_args()
    if not o.hf and not (o.peer_libs and o.model):
        ap.error("name a peer: --peer-libs with --model, or --hf")

    with open(o.vocabulary, encoding="utf-8") as f:
        vocabulary = json.load(f)
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    unbyte = {chr(b): b for b in printable}
    unbyte.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    pieces = []
    for token in vocabulary["model"]["vocab"]:
        try:
            pieces.append(bytes(unbyte[c] for c in token).decode())
        except UnicodeDecodeError:
            continue
    added = [t["content"] for t in vocabulary["added_tokens"]]
    user = [t["content"] for t in vocabulary["added_tokens"] if not t["special"]]
    bad = 0

    if o.peer_libs:
        g = Generator(o.seed, pieces, added, any_code_point=False)
        cases = []
        for _ in range(o.count):
            s = unicodedata.normalize("NFC", g.string())
            plain = g.r.random() < 0.3 and not any(u in s for u in user)
            cases.append(("p" if plain else "s", s))
        cases += [("s", unicodedata.normalize("NFC", s)) for s in every_code_point(any_code_point=False)]
        llama = Llama(o.peer_libs, o.model)
        bad += compare("llama.cpp", cases, run_batch([o.ours, o.vocabulary, "--no-nfc"], cases), [llama.ids(*c) for c in cases])
    if o.hf:
        g = Generator(o.seed + 1, pieces, added, any_code_point=True)
        cases = []
        while len(cases) < o.count:
            s = g.string()
            if hugging_face_agrees(s):
                cases.append(("p" if g.r.random() < 0.3 else "s", s))
        for s in every_code_point(any_code_point=True):
            cases.append(("s", "|".join(part for part in s.split("|") if hugging_face_agrees(part))))
        peer = ["node", os.path.join(HERE, "tokenizer_hf.cjs"), o.hf, o.vocabulary]
        bad += compare("Hugging Face tokenizers", cases, run_batch([o.ours, o.vocabulary], cases), run_batch(peer, cases))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
