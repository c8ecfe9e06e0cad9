"""strata bench on the embedded model: what it prints, and that its figures agree with each other."""
import csv
import io
import json
import os
import signal
import subprocess
import time
import unittest

STRATA = os.environ["STRATA_BINARY"]
TIMEOUT = 60
SMALL = ["--prompts", "40,8", "--depths", "8,0", "--batch", "3,1", "--steps", "4", "--repeat", "3", "--threads", "1"]


def bench(*arguments):
    done = subprocess.run([STRATA, "bench", *arguments], capture_output=True, text=True, timeout=TIMEOUT)
    return done


class Bench(unittest.TestCase):
    def test_json_has_every_measure_and_consistent_figures(self):
        done = bench(*SMALL, "--json", "--prompt-chunk", "16", "--kv", "f32")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        report = json.loads(done.stdout)
        self.assertEqual(report["settings"], {"kv": "f32", "prompt_chunk": 16, "steps": 4, "repeat": 3})
        self.assertEqual(report["device"]["workers"], 1)
        self.assertEqual((report["model"]["experts"], report["model"]["experts_used"]), (32, 4))
        self.assertGreater(report["memory"]["buffer_bytes"], report["memory"]["cache_bytes"])
        self.assertGreater(report["memory"]["bytes_per_s"], 1e8)
        kinds = [(r["test"], r["depth"], r["rows"], r["tokens"]) for r in report["results"]]
        self.assertEqual(kinds, [("prompt", 0, 1, 8), ("prompt", 0, 1, 40),
                                 ("decode", 0, 1, 4), ("decode", 8, 1, 4), ("decode", 8, 3, 4)])
        for result in report["results"]:
            seconds, rate = sorted(result["seconds"]), result["tokens_per_s"]
            self.assertEqual(len(seconds), 3)
            tokens = result["rows"] * result["tokens"]
            for key, time_taken in (("most", seconds[0]), ("median", seconds[1]), ("least", seconds[2])):
                self.assertAlmostEqual(rate[key] * time_taken / tokens, 1, places=9)
        one, three = report["results"][3], report["results"][4]
        self.assertAlmostEqual(one["bytes_per_s"], one["step_bytes"] * one["tokens_per_s"]["median"], delta=1)
        self.assertAlmostEqual(one["memory_share"] * report["memory"]["bytes_per_s"] / one["bytes_per_s"], 1, places=9)
        # Three sequences share the dense weights and read up to three times the rest.
        self.assertGreater(three["step_bytes"], one["step_bytes"])
        self.assertLess(three["step_bytes"], 3 * one["step_bytes"])
        # The file without its table and draft layer is more than a token reads; the head alone is less.
        self.assertLess(one["step_bytes"], report["model"]["file_bytes"])
        self.assertGreater(one["step_bytes"], 256 * 4096 * 6.5 / 8)

    def test_the_kernels_named_are_those_asked_for(self):
        done = bench("--prompts", "4", "--depths", "none", "--repeat", "1", "--kernels", "router,gdn", "--json")
        kernels = json.loads(done.stdout)["kernels"]
        self.assertEqual(kernels["reference"], ["gdn", "router"])
        self.assertEqual(sum(len(ops) for ops in kernels.values()), 15)

    def test_table_and_csv_show_the_same_rows(self):
        table = bench(*SMALL)
        self.assertEqual((table.returncode, table.stderr), (0, ""))
        for part in ("1 worker", "GB/s read", "strata-tiny", "4 of 32 experts", "kv f16"):
            self.assertIn(part, table.stdout)
        rows = list(csv.DictReader(io.StringIO(bench(*SMALL, "--csv").stdout)))
        self.assertEqual([(r["test"], r["depth"], r["rows"]) for r in rows],
                         [("prompt", "0", "1"), ("prompt", "0", "1"), ("decode", "0", "1"), ("decode", "8", "1"),
                          ("decode", "8", "3")])
        lines = [line.split() for line in table.stdout.splitlines() if line.startswith(("prompt ", "decode "))]
        self.assertEqual([(l[0], l[2], l[3]) for l in lines], [(r["test"], r["depth"], r["rows"]) for r in rows])
        for row in rows:
            self.assertNotIn(None, row)
            self.assertLessEqual(float(row["least"]), float(row["tokens_per_s"]))
            self.assertEqual(row["step_bytes"] == "", row["test"] == "prompt")

    def test_mistakes_are_named(self):
        for arguments, part in ((["--json", "--csv"], "one of --csv and --json"),
                                (["--prompts", "none", "--depths", "none"], "nothing to measure"),
                                (["--prompts", "0"], "whole numbers from 1"),
                                (["--batch", "1,x"], "separated by commas"),
                                (["--repeat", "0"], "from 1 to 1000")):
            done = bench(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(part, done.stderr)
        done = bench("--prompts", "40000", "--depths", "none")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("32768", done.stderr)
        self.assertIn("--prompts", done.stderr)

    def test_a_signal_ends_it(self):
        process = subprocess.Popen([STRATA, "bench", "--prompts", "30000", "--threads", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out, err), (130, b"", b""))


if __name__ == "__main__":
    unittest.main()
