"""Devices on the command line and in the configuration file: what is found, and what is refused.

Emulated cards, and the vendors' back ends as far as this build has them; no card is needed.
"""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

STRATA = Path(os.environ["STRATA_BINARY"])
MUTATIONS = Path(os.environ["STRATA_MUTATIONS"])  # modules with a fault
MODULES = Path(os.environ["STRATA_MODULES"])      # modules that are none
TIMEOUT = 150
BUILD = json.loads((STRATA.parent / "BUILD.json").read_text())
BACK_ENDS = {entry["kind"]: entry for entry in BUILD["back_ends"]}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def strata(self, *arguments):
        """Runs strata in an empty folder, which must stay empty."""
        done = subprocess.run([STRATA, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT, cwd=self.folder)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual([p for p in self.folder.iterdir() if p.suffix != ".json"], [])
        return done

    def assert_refused(self, code, parts, *arguments):
        """One sentence on standard error that has `parts`, nothing on standard output."""
        done = self.strata(*arguments)
        self.assertEqual(done.returncode, code, (arguments, done.err))
        self.assertEqual(done.out, "")
        lines = [line for line in done.err.splitlines() if not line.startswith("[")]  # the log
        self.assertEqual(len(lines), 1, done.err)
        self.assertTrue(lines[0].startswith("strata: "), done.err)
        for part in parts:
            self.assertIn(part, lines[0])


class Names(Case):
    def test_names_that_are_no_device(self):
        for devices, parts in (
                ("rocm:0", ['no device "rocm:0"', "strata doctor"]),
                ("", ["expected names of devices"]),
                ("cuda", ["cuda:0"]),
                ("hip:", ["hip:0"]),
                ("cpu:0", ["named cpu"]),
                ("gfx1030", ['no device "gfx1030"']),
                ("emu:gfx1030,,cpu", ['no device ""']),
                ("emu:gfx1030,emu:gfx1030", ["emu:gfx1030 is named twice"]),
                ("cpu,cpu", ["cpu is named twice"])):
            for command in (["run", "-p", "x"], ["doctor"], ["kernels"]):
                self.assert_refused(2, parts, *command, "--devices", devices)

    def test_options_for_a_device_that_is_not_used(self):
        for option, parts in (("hip:1:kernels=reference", ['"hip:1"', "0 = cpu"]),
                              ("1:kernels=reference", ['"1"', "0 = cpu"]),
                              ("0:colour=red", ['no option "colour"', "reserve-mib"]),
                              ("0:reserve-mib=lots", ["number of MiB", '"lots"']),
                              ("0:gdn=fast", ["reference"]),
                              ("0", ["DEVICE:KEY=VALUE"])):
            self.assert_refused(2, parts, "run", "-p", "x", "--devices", "cpu", "--device-option", option)

    def test_a_back_end_that_this_build_lacks(self):
        for kind in ("cuda", "hip"):
            self.assert_refused(1, ["no %s back end" % kind, "-DSTRATA_ENABLE_%s=ON" % kind.upper()],
                                "run", "-p", "x", "--devices", kind + ":0", "--module-folder", self.folder)

    def test_a_back_end_of_another_version(self):
        self.assert_refused(1, ["another version", "9.9.9", "install program and back ends from one build"],
                            "run", "-p", "x", "--devices", "hip:0", "--module-folder", MODULES / "other_version")
        self.assert_refused(1, ["not a back end of Strata"],
                            "run", "-p", "x", "--devices", "hip:0", "--module-folder", MODULES / "bad_magic")

    def test_a_driver_that_is_too_old(self):
        self.assert_refused(1, ["hip: the driver is too old", "update the driver"],
                            "run", "-p", "x", "--devices", "hip:0", "--module-folder", MODULES / "old_driver")


class Config(Case):
    def refused(self, content, *parts):
        path = self.folder / "strata.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        self.assert_refused(2, parts, "run", "-p", "x", "--config", path)

    def test_mistakes(self):
        self.refused('{"context": 64,\n "devices": ', "strata.json", "not JSON from line 2")
        self.refused([1], "strata.json", "not a JSON object")
        self.refused({"contxt": 5}, "strata.json", '"contxt"', 'did you mean "context"')
        self.refused({"context": "many"}, "strata.json", '"context"', '"many"')
        self.refused({"context": {}}, "strata.json", '"context"', "got object")
        self.refused({"model": [1]}, "strata.json", '"model"', "got array")
        self.refused({"devices": "rocm:0"}, "strata.json", '"devices"', '"rocm:0"')
        self.refused({"devices": "cpu,cpu"}, "strata.json", '"devices"', "named twice")
        self.refused({"device-options": 5}, "strata.json", '"device-options"', "object of devices")
        self.refused({"device-options": {"0": 5}}, "strata.json", '"device-options"', "object of options")
        self.refused({"devices": "cpu", "device-options": {"hip:1": {"kernels": "reference"}}}, '"hip:1"', "0 = cpu")
        self.refused({"devices": "cpu", "device-options": {"0": {"colour": "red"}}}, '"colour"')
        self.refused({"gpu": 0}, "strata.json", '"backend"')
        self.refused('{"context": 64, "context": 128}', "strata.json", '"context" is there twice')
        self.refused('{"prompt-chunk": 64, "prompt_chunk": 128}', "strata.json", '"prompt_chunk" is there twice')
        self.refused('{"device-options": {"0": {"peer": "off", "peer": "on"}}}', '"peer" is there twice')
        self.refused({"config": "other.json"}, "strata.json", '"config"', "command line")
        self.refused({"backend": "hip"}, "strata.json", '"gpu"')
        self.refused({"backend": "rocm", "gpu": [0]}, "strata.json", '"rocm:0"')

    def test_a_file_that_cannot_be_read(self):
        self.assert_refused(2, ["missing.json", "No such file"], "run", "-p", "x", "--config", self.folder / "missing.json")
        self.assert_refused(2, ["Is a directory"], "run", "-p", "x", "--config", self.folder)


class Emulated(Case):
    def test_a_card_that_no_kernel_serves(self):
        for arch in ("gfx906", "gfx90c"):
            self.assert_refused(1, ["emu:%s" % arch, "no kernels for %s" % arch, "--devices"],
                                "run", "-p", "x", "--devices", "emu:gfx1030,emu:" + arch)

    def test_memory_that_runs_out(self):
        for n in (1, 2, 7, 40):
            self.assert_refused(1, ["emu:gfx1030", "RX 6950 XT", "do not fit"],
                                "run", "-p", "x", "--devices", "emu:gfx1030:fail-allocation=%d" % n)

    def test_no_fault_of_a_kernel_is_found_after_ready(self):
        for name, devices, parts in (
                ("ask_once", "emu:gfx1100,emu:gfx1030",
                 ["emu:gfx1030", "RX 6950 XT", "MatmulMatrix", "leave emu:gfx1030 out"]),
                ("wrong_bit", "emu:gfx1030,emu:gfx1100",
                 ["emu:gfx1100", "RX 7900 XTX", "gdn/gpu", "leave emu:gfx1100 out"]),
                (None, "emu:gfx1030,emu:gfx1100:drop-image=GdnStep",
                 ["RX 7900 XTX", "GdnStep", "rebuild the emu module for gfx1100"])):
            with self.subTest(name or "drop-image"):
                folder = MUTATIONS / name if name else STRATA.parent
                done = self.strata("serve", "--port", 0, "--devices", devices, "--module-folder", folder)
                self.assertEqual(done.returncode, 1, done.err)
                self.assertNotIn("ready", done.out)
                for part in parts:
                    self.assertIn(part, done.err)


class Look(Case):
    def test_the_doctor_shows_the_build_and_why_a_back_end_is_of_no_use(self):
        done = self.strata("doctor", "--json", "--devices", "cpu")
        self.assertEqual(done.returncode, 0, done.err)
        report = json.loads(done.out)
        self.assertEqual(report["build"], BUILD)
        self.assertRegex(BUILD["source_sha256"], "^[0-9a-f]{64}$")
        self.assertTrue(report["ok"])
        shown = {entry["kind"]: entry for entry in report["back_ends"]}
        for kind in ("cuda", "hip"):
            if kind not in BACK_ENDS:
                self.assertIn("-DSTRATA_ENABLE_%s=ON" % kind.upper(), shown[kind]["problem"])
        self.assertEqual(shown["emu"]["architectures"].split(), BACK_ENDS["emu"]["architectures"])
        if "hip" in shown and "architectures" in shown["hip"]:
            self.assertEqual(shown["hip"]["architectures"].split(), BACK_ENDS["hip"]["architectures"])

    def test_the_doctor_tests_what_all_devices_have(self):
        done = self.strata("doctor", "--json", "--devices", "cpu,emu:gfx1030")
        report = json.loads(done.out)
        self.assertEqual(done.returncode, 0, report["self_tests"])
        self.assertEqual(set(report["tested_types"]), set(BACK_ENDS["emu"]["quant_types"]))
        self.assertEqual([device["id"] for device in report["devices"]], ["cpu", "emu:gfx1030"])

    @unittest.skipUnless("hip" in BACK_ENDS, "this build has no HIP module")
    @unittest.skipIf(Path("/dev/kfd").exists(), "this machine has AMD's driver")
    def test_the_hip_module_without_a_card(self):
        report = json.loads(self.strata("doctor", "--json", "--devices", "cpu").out)
        problem, = (entry["problem"] for entry in report["back_ends"] if entry["kind"] == "hip")
        self.assertIn("AMD driver shows no devices", problem)
        self.assert_refused(1, ["AMD driver shows no devices", "/dev/kfd", "--devices"],
                            "run", "-p", "x", "--devices", "hip:0")
        done = self.strata("doctor", "--devices", "hip:0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("AMD driver shows no devices", done.out)

    @unittest.skipUnless("cuda" in BACK_ENDS, "this build has no CUDA module")
    @unittest.skipIf(Path("/dev/nvidiactl").exists(), "this machine has NVIDIA's driver")
    def test_the_cuda_module_without_a_card(self):
        self.assert_refused(1, ["cuda", "driver", "--devices"], "run", "-p", "x", "--devices", "cuda:0")

    def test_kernels_are_listed_per_device(self):
        done = self.strata("kernels", "--json", "--devices", "emu:gfx1030,emu:gfx1100")
        self.assertEqual(done.returncode, 0, done.err)
        first, second = json.loads(done.out)
        names = [{row["kernel"] for row in device["table"] if row["op"] == "matmul"} for device in (first, second)]
        self.assertNotIn("matmul/wmma_gfx11", names[0])
        self.assertIn("matmul/wmma_gfx11", names[1])
        for device, group in ((first, "gfx10"), (second, "gfx11")):
            types = {image["type"] for image in device["images"]} - {""}
            self.assertLessEqual(set(BACK_ENDS["emu"]["quant_types"]), types, group)


if __name__ == "__main__":
    unittest.main()
