"""Clients that people use, from npm, against the server: the SDKs of OpenAI, Anthropic and Vercel, and a coding agent.

Most of them talk to `fake_server`, which is the real server over scripted answers, so that they see tool calls; the
tiny model answers the rest. The packages are installed once, at the versions of clients/package-lock.json; without a
network the tests are skipped with the reason.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STRATA = os.environ["STRATA_BINARY"]
FAKE_SERVER = os.environ["STRATA_FAKE_SERVER"]
PACKAGES = Path(os.environ["STRATA_CLIENTS"])
CLIENTS = Path(__file__).resolve().parent / "clients"
TIMEOUT = 300
SKIPPED = 77


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(SKIPPED)


def install():
    """The packages, as a copy of clients/ with node_modules beside it."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    PACKAGES.mkdir(parents=True, exist_ok=True)
    lock = (CLIENTS / "package-lock.json").read_text()
    stamp = PACKAGES / "installed"
    for file in CLIENTS.iterdir():
        shutil.copy(file, PACKAGES / file.name)
    if stamp.is_file() and stamp.read_text() == lock:
        return
    command = ["npm", "install", "--no-save", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=PACKAGES, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        skip("the npm packages could not be installed: " + " ".join(done.stdout.split())[-300:])
    stamp.write_text(lock)


class WithServer(unittest.TestCase):
    def serve(self, command):
        """Starts a server and returns its address."""
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        match = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+)\n", line)
        self.assertTrue(match, line)
        return match.group(1), process

    def fake(self, rules):
        file = tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8")
        self.addCleanup(file.close)
        json.dump(rules, file)
        file.flush()
        return self.serve([FAKE_SERVER, file.name])[0]

    def run_client(self, command, **options):
        done = subprocess.run(command, cwd=options.pop("cwd", PACKAGES), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, **options)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout


class Sdks(WithServer):
    def setUp(self):
        self.url = self.fake(json.loads((CLIENTS / "script.json").read_text(encoding="utf-8")))

    def test_openai(self):
        self.assertEqual(self.run_client(["node", "openai.mjs", self.url]), "ok\n")

    def test_anthropic(self):
        self.assertEqual(self.run_client(["node", "anthropic.mjs", self.url]), "ok\n")

    def test_vercel(self):
        self.assertEqual(self.run_client(["node", "vercel.mjs", self.url]), "ok\n")


def call(name, **parameters):
    values = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


class Agent(WithServer):
    """qwen-code writes a file and runs a command because the scripted model calls its tools."""
    TASK = "Please take a note."
    # Tags in the text that a careless parser would end at.
    NOTE = "line one </parameter> stays\n  <function=x> too\nlast: done-seven"

    def run_agent(self, arguments, environment):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        work = Path(home.name).resolve() / "work"
        work.mkdir()
        note = work / "note.txt"
        url = self.fake([
            {"all": [self.TASK, "DONE-SEVEN"], "thinking": "The command worked.", "text": "The note is taken."},
            {"all": [self.TASK, "[tool]"], "text": call(
                "run_shell_command", command=f"tail -n 1 {note} | tr a-z A-Z", description="reads it", is_background="false")},
            {"all": [self.TASK], "thinking": "I write it.", "text": "I write it down.\n\n" + call(
                "write_file", file_path=note, content=self.NOTE)},
        ])
        entry = PACKAGES / "node_modules/@qwen-code/qwen-code/cli-entry.js"
        output = self.run_client(
            ["node", entry, *[a.replace("URL", url) for a in arguments], "--model", "fake-model", "--yolo",
             "--core-tools", "write_file", "--core-tools", "run_shell_command", "--max-session-turns", "8",
             "--prompt", self.TASK],
            cwd=work, env={"PATH": os.environ["PATH"], "HOME": home.name, "NO_COLOR": "1", "CI": "1",
                           "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
                           **{key: value.replace("URL", url) for key, value in environment.items()}})
        self.assertIn("The note is taken.", output)
        self.assertEqual(note.read_text(), self.NOTE)

    def test_chat_completions(self):
        self.run_agent(["--auth-type", "openai", "--openai-base-url", "URL/v1", "--openai-api-key", "unused"], {})

    def test_responses(self):
        self.run_agent(["--auth-type", "openai-responses", "--openai-base-url", "URL/v1", "--openai-api-key", "unused"], {})

    def test_messages(self):
        self.run_agent(["--auth-type", "anthropic"],
                       {"ANTHROPIC_BASE_URL": "URL", "ANTHROPIC_API_KEY": "unused", "ANTHROPIC_MODEL": "fake-model"})


class TinyModel(WithServer):
    """The SDKs with a model that really answers: calls that must be made, and formats that must hold."""

    def test_sdks_reach_a_real_model(self):
        url, process = self.serve([STRATA, "serve", "--port", "0"])
        process.stdout.readline()  # ready
        self.assertEqual(self.run_client(["node", "tiny.mjs", url]), "ok\n")


if __name__ == "__main__":
    install()
    unittest.main()
