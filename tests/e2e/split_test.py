"""A model spread over two emulated cards, as the users of the founding reports started it: their command
lines and configuration, the lines they read, what the server says of itself, and what is refused.
"""
import json
import os
import re
import struct
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

STRATA = Path(os.environ["STRATA_BINARY"])
MODEL = Path(__file__).resolve().parents[2] / "models" / "tiny" / "strata-tiny-IQ-mix-mtp.gguf"
LAYERS, EXPERTS = 8, 32
TIMEOUT = 200
BACK_ENDS = {entry["kind"] for entry in json.loads((STRATA.parent / "BUILD.json").read_text())["back_ends"]}


def profile(layers, experts):
    """An expert-profile.bin that ranks every pair."""
    pairs = [(layer, expert) for expert in range(experts) for layer in range(layers)]
    rank = {pair: i for i, pair in enumerate(pairs)}
    return (b"STRP" + struct.pack("<5I", 1, layers, experts, len(pairs), len(pairs)) +
            b"".join(struct.pack("<HH", *pair) for pair in pairs) +
            b"".join(struct.pack("<i", rank[layer, expert]) for layer in range(layers) for expert in range(experts)))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def strata(self, *arguments):
        done = subprocess.run([STRATA, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT, cwd=self.folder)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        return done

    def serve(self, *arguments):
        """-> url, when it is ready; self.log() is what it has said."""
        log = open(self.folder / "log", "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen([STRATA, *map(str, arguments), "--port", "0"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        timer = threading.Timer(TIMEOUT, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        url = process.stdout.readline().split()[-1]
        self.assertRegex(process.stdout.readline(), "^ready: ", self.log())
        return url

    def log(self):
        return (self.folder / "log").read_text()

    def ask(self, url, body=None):
        request = urllib.request.Request(url, json.dumps(body).encode() if body else None,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)

    def complete(self, url, words, tokens):
        """-> the answer to a prompt of many chunks, and how long it was."""
        answer = self.ask(url + "/v1/completions", {
            "prompt": " ".join("word %d" % i for i in range(words)), "max_tokens": tokens, "temperature": 0,
            "ignore_eos": True})
        return answer["choices"][0]["text"], answer["usage"]["prompt_tokens"]

    def expect_line(self, pattern, count=1):
        lines = [line for line in self.log().splitlines() if re.search(pattern, line)]
        self.assertEqual(len(lines), count, "%s in\n%s" % (pattern, self.log()))
        return lines[0]


NOT_BUILT = {"packs (--pack); the GGUF file is read", "expert caches (--expert-cache)",
             "drafts (--spec, --spec-min-p, --mtp)", "pictures (--vision)"}


class Seeds(Case):
    def test_the_first_report(self):
        """gfx1100 + gfx1201, its command line as written; a chunk of 64 stands for one of 8,192."""
        pack, drafts = self.folder / "iq3_xxs", self.folder / "rt"
        url = self.serve(
            "--serve", "--pack", pack, "--native", MODEL, "--ple-gguf", MODEL,
            "--expert-profile", self.file("expert-profile.bin", profile(LAYERS, EXPERTS)), "--expert-cache", "auto",
            "--prefill", "auto", "--spec", 4, "--spec-min-p", 0.5, "--mtp", drafts,
            "--max-context", 131072, "--kv", "int8", "--vision", "--layer-split", "auto",
            "--prompt-chunk", 64, "--devices", "emu:gfx1100:memory-mib=150,emu:gfx1201:memory-mib=150")
        left_out = self.expect_line("not in this version, and left out: ")
        for part in NOT_BUILT:
            self.assertIn(part, left_out)
        first = r"emu:gfx1100\S* gfx1100 Emulated AMD Radeon RX 7900 XTX"
        second = r"emu:gfx1201\S* gfx1201 Emulated AMD Radeon RX 9070 XT"
        self.expect_line(" info (%s, then %s|%s, then %s): " % (first, second, second, first))
        self.expect_line(r"layer split auto: K=\d predicted [\d.]+ ms per decode window; the caches hold 256 of 256 "
                         r"profiled pairs \(~100.0% of the routed mass\)")
        self.expect_line(r"layers 0-\d \((%s|%s)\), \d-7 \((%s|%s)\), one hand-off per window" %
                         (first, second, first, second))
        self.expect_line(r"prompts go from emu:gfx1\S+ to emu:gfx1\S+ directly: 24 direct copies arrived whole")

        text, length = self.complete(url, 60, 20)
        self.assertGreater(length, 3 * 64)
        self.expect_line(r"prompt %d tokens = 0 reused \+ %d read in \d+ ms \([\d.]+ tok/s\), 20 generated in \d+ ms "
                         r"\([\d.]+ tok/s\)" % (length, length))
        status = self.ask(url + "/v1/status")["engine"]
        self.assertEqual(set(status["not_built"]), NOT_BUILT)
        self.assertEqual([device["name"] for device in status["devices"]],
                         ["Emulated AMD Radeon RX 7900 XTX", "Emulated AMD Radeon RX 9070 XT"])
        self.assertEqual(len(status["layers"]), 2)
        for line in status["plan"]["lines"]:
            self.assertIn(line, self.log())
        self.assertIn(status["plan"]["order"], self.log())
        hand_off, = status["hand_offs"]
        self.assertEqual((hand_off["prompts"], hand_off["tokens"]), ("direct", "host"))
        # Prediction and measurement stand side by side, and a difference of more than a quarter is said.
        measured = status["measured"]
        self.assertEqual(measured["prompt"]["tokens"], length)
        off = [max(a / b, b / a) > 1.25 for a, b in (
            (measured["prompt"]["tok_s"], measured["prompt"]["predicted_tok_s"]),
            (measured["window"]["ms"], measured["window"]["predicted_ms"]))]
        self.assertEqual(any(off), "warnings" in measured, measured)
        if any(off):
            self.assertIn(measured["warnings"][0], self.expect_line("the plan was wrong: "))
        self.assertEqual(self.ask(url + "/health")["status"], "ok")
        kernels = self.ask(url + "/health?verbose")["kernels"]
        self.assertEqual([entry["device"] for entry in kernels], [device["id"] for device in status["devices"]])
        for entry in kernels:
            self.assertGreater(entry["rates"]["memory_gbs"], 0)
            self.assertIn(("matmul", "Q6_K"), {(row["op"], row["type"]) for row in entry["table"]})
            self.assertIn("GdnStep", {image["kernel"] for image in entry["images"]})

        alone = self.strata("run", MODEL, "--devices", "cpu", "--kv", "int8", "--raw", "-q", "--temp", 0, "-n", 20,
                            "--ignore-eos", "-p", " ".join("word %d" % i for i in range(60)))
        self.assertEqual(alone.returncode, 0, alone.err)
        self.assertEqual(alone.out.strip(), text.strip())

    def second_report(self, *gpus):
        config = self.file("strata.json", json.dumps({"backend": "emu", "gpu": gpus, "layer_split": "auto"}))
        return self.serve(
            "serve", MODEL, "--config", config,
            "--expert-profile", self.file("expert-profile.bin", profile(LAYERS, EXPERTS)), "--expert-cache", "auto",
            "--prefill", "auto", "--spec", 4, "--mtp", "--kv", "int8", "--kv-resident", 32768,
            "--max-context", 262144, "--vram-reserve-mib", 5120, "--prompt-chunk", 64,
            "--device-option", "1:peer=off")

    def test_the_second_report_in_both_orders(self):
        """gfx1030 + gfx1100 from a configuration file; 5 GiB stay free on each card."""
        small = [5120 + 250, 5120 + 240]
        cards = ["gfx1030:memory-mib=%d" % small[0], "gfx1100:memory-mib=%d" % small[1]]
        texts = []
        for gpus in (cards, cards[::-1]):
            with self.subTest(gpus=gpus):
                url = self.second_report(*gpus)
                self.expect_line(r"not in this version, and left out: .*keys and values partly in RAM \(--kv-resident\)")
                self.expect_line(r"layers 0-\d \(.*gfx1\S+ Emulated AMD Radeon RX [67]9.*\), \d-7 \(.*\), one hand-off per window")
                self.expect_line(r"prompts go from \S+ to \S+ through host memory: peer=off for emu:%s" % gpus[1])
                text, length = self.complete(url, 45, 4)
                self.assertGreater(length, 2 * 64)
                texts.append(text)
                stages = self.ask(url + "/v1/status")["engine"]["plan"]["stages"]
                self.assertEqual(len(stages), 2)
                for stage in stages:
                    memory = small[cards.index(stage["device"][4:])]
                    self.assertLessEqual(stage["bytes"]["free_before"], (memory - 5120) << 20)
                    self.assertLessEqual(stage["bytes"]["used"], stage["bytes"]["free_before"])
        self.assertEqual(texts[0], texts[1])

    @unittest.skipIf(Path("/dev/kfd").exists(), "this machine has AMD's driver")
    def test_the_second_report_as_it_was_written(self):
        """What is wrong here is the missing card, and nothing before it."""
        config = self.file("strata.json", '{"backend": "hip", "gpu": [0, 1], "layer_split": "auto"}')
        done = self.strata("serve", MODEL, "--port", 0, "--config", config, "--expert-profile",
                           self.file("p.bin", profile(LAYERS, EXPERTS)), "--expert-cache", "auto", "--prefill", "auto",
                           "--spec", 4, "--mtp", "--kv", "int8", "--kv-resident", 32768, "--max-context", 262144,
                           "--vram-reserve-mib", 5120)
        self.assertEqual(done.returncode, 1, done.err)
        self.assertIn("AMD driver shows no devices" if "hip" in BACK_ENDS else "no hip back end", done.err)


class Plans(Case):
    ASSUMED = "gfx1100:24GiB:800GB/s:RX 7900 XTX,gfx1201:16GiB:640GB/s:RX 9070 XT"

    def plan(self, *arguments, assume=ASSUMED):
        return self.strata("plan", MODEL, "--assume", assume, *arguments)

    def refused(self, parts, *arguments, **more):
        done = self.plan(*arguments, **more)
        self.assertIn(done.returncode, (1, 2), done.out)
        self.assertEqual(done.out, "")
        line, = [line for line in done.err.splitlines() if line.startswith("strata: ")]
        for part in parts:
            self.assertIn(part, line)

    def test_bad_input(self):
        self.refused(["4,3"], "--layer-split", "4,3")
        self.refused(["layers 0 to 7"], "--layer-split", "8")
        self.refused(["2 devices"], "--layer-split", "2,4")
        self.refused(["MiB are missing", "--context"], "--context", 262144, assume="gfx1100:20MiB:800GB/s")
        self.refused(["MiB are missing", "use --context "], "--context", 262144, assume="gfx1100:400MiB:800GB/s")
        other = self.file("other.bin", profile(48, 512))
        self.refused(["48 layers", "512 experts"], "--expert-profile", other)

    def test_what_was_chosen_and_what_was_rejected(self):
        given = self.plan("--layer-split", "[3]", "--context", 4096)
        self.assertEqual(given.returncode, 0, given.err)
        for part in ("0-2", "3-7", "layer split given: K=3 predicted", "one hand-off per window", "order: ", "rejected",
                     "layer split auto"):
            self.assertIn(part, given.out)
        alone = json.loads(self.plan("--split-skip-if-fits", "--json").out)
        self.assertEqual(len(alone["stages"]), 1)
        self.assertIn("it holds everything", alone["order"])
        as_given = json.loads(self.plan("--gpu-order", "as_given", "--layer-split", "4", "--json",
                                        assume="gfx1030:16GiB:500GB/s:link=1GB/s,gfx1100:24GiB:900GB/s").out)
        self.assertEqual([stage["device"] for stage in as_given["stages"]], ["gfx1030", "gfx1100"])
        self.assertIn("the order given", as_given["order"])


if __name__ == "__main__":
    unittest.main()
