#!/usr/bin/env python3
"""Measures Strata and an independent engine (llama.cpp v0.5.0 from the npm package node-llama-cpp) in
turn on the same file and prints how many times faster Strata is.

  with_peer.py FOLDER python3 compare.py --strata BUILD/strata --package {package} --model M.gguf

with_peer.py (tests/differential) installs the package into FOLDER once. That release refuses files
that hold a draft layer. Every size of --sizes is a prompt, and so many tokens stand before those
decoded. A round measures one size after the other: peer with the first of its thread counts, Strata,
peer with the next, Strata, ...; each measurement is a process of its own that warms up first.
Compared are the medians over all rounds, Strata's against the better thread count of the peer,
measure by measure. Strata chooses its threads itself unless --strata-threads says otherwise; with
"1,2" its runs take turns, its better count is compared, and two threads must not be slower than one
(by more than the 3 % that --slack grants).

Exit code 0 when every goal is met, 1 when one is missed or a program fails.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CAPI = os.path.join(HERE, "../../tests/differential/peer/capi.py")


def numbers(text):
    return [int(part) for part in text.split(",")]


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit("%s\nexit code %d\n%s" % (" ".join(command), done.returncode, done.stderr.strip()[-2000:]))
    return json.loads(done.stdout)


class Samples:
    """Rates in tokens per second by measure and thread count."""

    def __init__(self):
        self.rates = {}

    def add(self, measure, threads, rates):
        self.rates.setdefault(measure, {}).setdefault(threads, []).extend(rates)

    def best(self, measure):
        """The thread count with the highest median, and that median."""
        medians = {threads: statistics.median(rates) for threads, rates in self.rates[measure].items()}
        threads = max(medians, key=medians.get)
        return threads, medians[threads]

    def spread(self, measure, threads):
        rates = self.rates[measure][threads]
        return "%.2f .. %.2f" % (min(rates), max(rates))


def run_peer(a, libs, size, threads, peer):
    # A decode without tokens before it does not exist there: one token comes first.
    out = run_json([sys.executable, CAPI, "--libs", libs, "--model", a.model, "--threads", str(threads),
                    "--bench", "%d,%d,%d" % (max(size, 1), a.steps, a.repeat)])
    runs = out["bench"]["runs"]
    if size > 0:
        peer.add(("prompt", size), threads, [run["promptTokPerSec"] for run in runs])
    peer.add(("decode", size), threads, [run["decodeTokPerSec"] for run in runs])


def run_strata(a, size, threads, ours, shares):
    out = run_json([a.strata, "bench", a.model, "--json", "--quiet", "--threads", str(threads), "--batch", "none",
                    "--prompts", str(size) if size > 0 else "none", "--depths", str(size), "--steps", str(a.steps),
                    "--repeat", str(a.repeat)])
    for result in out["results"]:
        ours.add((result["test"], size), threads,
                 [result["tokens"] / seconds for seconds in result["seconds"]])
        if result["test"] == "decode":
            shares.setdefault(size, {}).setdefault(threads, []).append(
                (result["bytes_per_s"], out["memory"]["bytes_per_s"],
                 result["step_bytes"] > out["memory"]["cache_bytes"]))
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--strata", required=True)
    ap.add_argument("--package", required=True, help="folder with node_modules/")
    ap.add_argument("--model", required=True)
    ap.add_argument("--sizes", type=numbers, default=[0, 128, 512], help="tokens (default 0,128,512)")
    ap.add_argument("--steps", type=int, default=16, help="tokens decoded after each size")
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--repeat", type=int, default=1, help="repeats in each process, after its warm-up")
    ap.add_argument("--peer-threads", type=numbers, default=[1, 2])
    ap.add_argument("--strata-threads", type=numbers, default=[0], help="0: measured by Strata")
    ap.add_argument("--goal", type=float, default=2.0, help="times the peer's rate")
    ap.add_argument("--memory-goal", type=float, default=0.7, help="decode: share of the measured bandwidth")
    ap.add_argument("--slack", type=float, default=0.03, help="by which two threads may seem slower than one")
    ap.add_argument("--json", help="write all samples to this file")
    a = ap.parse_args()
    libs = os.path.join(a.package, "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")

    peer, ours, shares, info = Samples(), Samples(), {}, None
    turn = 0
    for number in range(a.rounds):
        for size in a.sizes:
            for threads in a.peer_threads:
                run_peer(a, libs, size, threads, peer)
                info = run_strata(a, size, a.strata_threads[turn % len(a.strata_threads)], ours, shares)
                turn += 1
                print("round %d of %d, %d tokens: peer with %d thread%s, Strata"
                      % (number + 1, a.rounds, size, threads, "" if threads == 1 else "s"), file=sys.stderr, flush=True)
        # Where a round ends as it began, the next one starts with another count, so that every count
        # stands after every count of the peer.
        if len(a.peer_threads) * len(a.sizes) % len(a.strata_threads) == 0:
            turn += 1

    print("strata %s (%s, %s) on %s [%s]" % (info["strata"]["version"], info["strata"]["compiler"],
                                            info["strata"]["build"], info["device"]["name"],
                                            " ".join(info["device"]["features"])))
    print("%s, kv f16, %d steps, %d rounds of %d\n" % (a.model, a.steps, a.rounds, a.repeat))
    print("%-14s %8s %22s %3s %8s %22s %3s %7s  goal" % ("measure", "peer t/s", "", "thr", "ours t/s", "", "thr", "ratio"))
    missed = []

    def judge(name, met):
        if not met:
            missed.append(name)
        return "met" if met else "MISSED"

    for measure in sorted(ours.rates, key=lambda m: (m[0] != "prompt", m[1])):
        name = "%s %d" % measure if measure[0] == "prompt" else "decode at %d" % measure[1]
        peer_threads, peer_rate = peer.best(measure)
        our_threads, our_rate = ours.best(measure)
        ratio = our_rate / peer_rate
        print("%-14s %8.2f %22s %3d %8.2f %22s %3s %6.2fx  %s %.3gx" % (
            name, peer_rate, peer.spread(measure, peer_threads), peer_threads, our_rate,
            ours.spread(measure, our_threads), our_threads or "auto", ratio, judge(name, ratio >= a.goal), a.goal))
    print()
    for size, by_threads in sorted(shares.items()):
        threads, _ = ours.best(("decode", size))
        samples = by_threads[threads]
        # Neighbours slow single measurements of memory down; its bandwidth is the best that was seen.
        bandwidth = max(memory for all_samples in by_threads.values() for _, memory, _ in all_samples)
        rate = statistics.median(rate for rate, _, _ in samples)
        line = "decode at %d reads %.1f GB/s, %.1f %% of %.1f GB/s" % (size, rate / 1e9, 100 * rate / bandwidth,
                                                                     bandwidth / 1e9)
        if samples[0][2]:
            line += ": %s %.0f %%" % (judge("bandwidth at %d" % size, rate >= a.memory_goal * bandwidth),
                                      100 * a.memory_goal)
        print(line if samples[0][2] else line + " (a step fits the cache: no goal)")
    for measure, by_threads in ours.rates.items():
        if 1 in by_threads and 2 in by_threads:
            one, two = (statistics.median(by_threads[n]) for n in (1, 2))
            name = "%s %d with two threads" % measure
            print("%s: %.2f times one: %s" % (name, two / one, judge(name, two >= (1 - a.slack) * one)))
    if a.json:
        with open(a.json, "w") as file:
            flat = lambda samples: [{"test": m[0], "size": m[1], "threads": t, "tokens_per_s": rates}
                                    for m, by in samples.rates.items() for t, rates in by.items()]
            json.dump({"strata": info, "model": a.model, "peer_samples": flat(peer), "our_samples": flat(ours)}, file,
                      indent=2)
    print("\nall goals met" if not missed else "\nmissed: " + ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
