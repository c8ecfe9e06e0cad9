#!/usr/bin/env python3
"""Compares Strata's logits with an independent engine's on random F32 models of many shapes.

  compare_logits.py --strata BUILD/strata --package DIR [--cases N]

DIR holds node_modules/ with the npm package node-llama-cpp 3.22.1 (llama.cpp v0.5.0). Both sides
compute in float32 with a float32 cache; Strata selects cells by that release's own rule
(--qsa lc050). NMSE = sum (a - b)^2 / sum b^2 over all positions must stay below 1e-8. Two seeds of
each shape; the prompts are long enough for sparse attention and hold end-of-text tokens.
"""
import argparse
import array
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1e-8
VOCABULARY = 384

# Options of make-tiny-gguf.mjs, tokens of the prompt.
SHAPES = [
    ([], 60),
    (["--layers", "8"], 300),
    (["--layers", "6", "--interval", "3"], 130),
    (["--no-ple"], 70),
    (["--experts", "16", "--used", "5", "--ff", "96"], 90),
    (["--embd", "128", "--set", "nHead=2,nKV=1,headDim=64,nRot=64,idxHeads=4,idxDim=64"], 90),
    (["--set", "nHead=8,nKV=4,headDim=96,nRot=32,hcRank=20,hc=2"], 65),
    (["--set", "kHeads=1,vHeads=6,dConv=3"], 65),
    (["--ratio", "8", "--top-k", "32"], 150),
    (["--layers", "8", "--top-k", "64"], 700),
    (["--set", "perNgram=4,pleKernel=3"], 64),
    ([], 1),
]


def floats(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        raise SystemExit("%s\nexit code %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return done.stdout


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--strata", required=True)
    ap.add_argument("--package", required=True)
    ap.add_argument("--cases", type=int)
    a = ap.parse_args()
    libs = os.path.join(a.package, "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")
    cases = [(seed, options, count) for options, count in SHAPES for seed in (1, 2)][:a.cases]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        model, ids = os.path.join(folder, "m.gguf"), os.path.join(folder, "ids.txt")
        peer, ours = os.path.join(folder, "peer.f32"), os.path.join(folder, "ours.f32")
        for seed, options, count in cases:
            run(["node", os.path.join(HERE, "make-tiny-gguf.mjs"), model, "--seed", str(seed), *options])
            rng = random.Random(seed * 1000 + count)
            tokens = [rng.randrange(VOCABULARY - 16) for _ in range(count)]
            if count > 20:
                eos = int(run([a.strata, "tokenize", model, "<|endoftext|>", "--ids-only"]))
                for place in (0, 9, 10, 17):
                    tokens[place] = eos
            with open(ids, "w") as file:
                file.write(" ".join(map(str, tokens)))
            run([sys.executable, os.path.join(HERE, "peer/capi.py"), "--libs", libs, "--model", model, "--tokens-file", ids,
                 "--logits", peer, "--threads", "2", "--flash", "0", "--ctk", "f32", "--ctv", "f32", "--no-repack"])
            run([a.strata, "eval", model, "--tokens", ids, "--logits", ours, "--activations", "float", "--kv", "f32",
                 "--qsa", "lc050", "--chunk", "512"])
            x, y = floats(ours), floats(peer)
            if len(x) != len(y) or len(y) % count:
                raise SystemExit("%d logits against %d" % (len(x), len(y)))
            nmse = sum((p - q) ** 2 for p, q in zip(x, y)) / sum(q * q for q in y)
            verdict = "ok" if nmse < LIMIT else "FAILED"
            bad += nmse >= LIMIT
            print("seed %d, %3d tokens, %s: NMSE %.2e %s" % (seed, count, " ".join(options) or "default shape", nmse, verdict), flush=True)
    print("%d of %d cases beyond %.0e" % (bad, len(cases), LIMIT))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
