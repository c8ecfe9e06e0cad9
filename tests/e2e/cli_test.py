"""The program strata on the command line, with its embedded model.

Golden values come from models/tiny/golden (see its README); nothing here is a former output of strata.
"""
import array
import json
import math
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

STRATA = os.environ["STRATA_BINARY"]
TINY = Path(__file__).resolve().parents[2] / "models" / "tiny"
MODEL = TINY / "strata-tiny-IQ-mix-mtp.gguf"
VOCABULARY = 4096
TIMEOUT = 60


def strata(*arguments, stdin=b"", check=None):
    """Runs strata; check: the exit code it must have."""
    done = subprocess.run([STRATA, *map(str, arguments)], input=stdin, capture_output=True, timeout=TIMEOUT)
    if check is not None:
        assert done.returncode == check, (done.returncode, arguments, done.stdout, done.stderr)
    done.out, done.err = done.stdout.decode(), done.stderr.decode()
    return done


def golden_prompts():
    return {record["name"]: record for record in json.loads((TINY / "golden" / "prompts.json").read_text())}


def floats(path):
    values = array.array("f")
    values.frombytes(Path(path).read_bytes())
    return values


def rms(values):
    return math.sqrt(sum(v * v for v in values) / len(values))


def split_header(number, count):
    """A GGUF file without tensors that says it is shard `number` of `count`."""
    def key(name, value):  # of type u32
        return struct.pack("<Q", len(name)) + name + struct.pack("<II", 4, value)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + key(b"split.no", number) + key(b"split.count", count)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def assert_refused(self, done, code, *parts):
        """One line on stderr that says what is wrong, nothing on stdout."""
        self.assertEqual(done.returncode, code, done.err)
        self.assertEqual(done.out, "")
        self.assertTrue(done.err.startswith("strata: "), done.err)
        self.assertEqual(done.err.count("\n"), 1, done.err)
        for part in parts:
            self.assertIn(part, done.err)


class Usage(Case):
    def test_help_and_version_go_to_stdout(self):
        self.assertRegex(strata("--version", check=0).out, r"^strata \d+\.\d+\.\d+\n$")
        general = strata("--help", check=0)
        self.assertEqual(general.err, "")
        self.assertEqual(general.out, strata("help", check=0).out)
        self.assertEqual(general.out, strata("help", "help", check=0).out)
        for command in ("run", "chat", "serve", "inspect", "tokenize", "eval"):
            self.assertIn(f"  {command} ", general.out)
            help_of = strata("help", command, check=0).out
            self.assertIn("Examples", help_of)
            self.assertEqual(help_of, strata(command, "--help", check=0).out)
        self.assertIn("| `--port N` | `8080` |", strata("help", "--options-markdown", check=0).out)

    def test_mistakes_of_use_exit_with_2(self):
        self.assertEqual(strata().returncode, 2)
        self.assert_refused(strata("rnu"), 2, 'did you mean "strata run"?')
        self.assert_refused(strata("help", "rnu"), 2, 'did you mean "strata run"?')
        self.assert_refused(strata("run", "--tepm", "1"), 2, "did you mean --temp?")
        self.assert_refused(strata("run", "-p", "x", "--temp", "hot"), 2, "--temp", "from 0 to 100", '"hot"')
        self.assert_refused(strata("run", "-p", "x", "--raw", "--system", "y"), 2, "--raw")
        self.assert_refused(strata("run", "-p", ""), 2, "empty")
        self.assert_refused(strata("serve", "--port", "65536"), 2, "from 0 to 65535")
        self.assert_refused(strata("eval"), 2, "--text", "--tokens")
        self.assert_refused(strata("tokenize", "a", "b", "c"), 2, "unexpected argument")
        self.assert_refused(strata("tokenize", "a", "--detokenize", "1"), 2, "give one of")

    def test_models_that_cannot_be_used_exit_with_1(self):
        missing = self.folder / "missing.gguf"
        data = MODEL.read_bytes()
        cut = self.file("cut.gguf", data[: len(data) // 2])
        text = self.file("text.gguf", "this is no model")
        other = self.file("other.gguf", data.replace(b"general.architecture" + (8).to_bytes(4, "little")
                                                     + (8).to_bytes(8, "little") + b"qwen4exp",
                                                     b"general.architecture" + (8).to_bytes(4, "little")
                                                     + (8).to_bytes(8, "little") + b"qwen9exp", 1))
        shard = self.file("part-00001-of-00002.gguf", split_header(0, 2))
        tokens = self.file("ids.txt", "1 2 3")
        for path in (missing, cut, text, self.folder):
            for command in (["run", path, "-p", "x"], ["inspect", path], ["tokenize", path, "x"],
                            ["eval", path, "--tokens", tokens], ["chat", path], ["serve", path, "--port", 0]):
                done = strata(*command)
                self.assertEqual(done.returncode, 1, (command, done.err))
                self.assertIn(str(path), done.err)
                if command[0] != "serve":
                    self.assert_refused(done, 1)
        self.assert_refused(strata("run", other, "-p", "x"), 1, "qwen9exp", "qwen4exp")
        self.assert_refused(strata("run", shard, "-p", "x"), 1, "part-00002-of-00002.gguf")

    def test_a_full_disk_is_reported(self):
        with open("/dev/full", "w") as full:
            for command in (["help"], ["inspect"], ["tokenize", "x"], ["run", "-p", "Hello!", "--no-think"]):
                done = subprocess.run([STRATA, *command], stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT)
                self.assertEqual(done.returncode, 1, command)
                self.assertIn(b"standard output", done.stderr)


class Run(Case):
    def test_answers_as_the_reference_does(self):
        for name, arguments in (("01-hello", ["-p", "Hello!", "--no-think"]),
                                ("02-sum", ["-p", "What is 17 + 25?", "--effort", "none"]),
                                ("05-world-low", ["-p", "Which river flows through Oakdale?", "--effort", "low",
                                                  "--system", "You are a helpful assistant."])):
            prompt = golden_prompts()[name]
            self.assertLess(prompt["greedy_stop"], prompt["greedy_safe"])
            expected = prompt["greedy_text"].split("<|im_end|>")[0].split("</think>")[-1].strip()
            done = strata("run", *arguments, "--temp", 0, check=0)
            self.assertEqual(done.out, expected + "\n")
            self.assertRegex(done.err, rf"^prompt {prompt['n']} tokens in \d+ ms \([\d.]+ tok/s\), "
                                       rf"{prompt['greedy_stop'] + 1} generated in \d+ ms \([\d.]+ tok/s\)\n$")

    def test_a_split_model_is_run_from_any_shard(self):
        shared = Path(os.environ.get("STRATA_SHARED", TINY.parents[2] / "shared"))
        shard = shared / "tiny-model" / "strata-tiny-IQ-mix-00002-of-00002.gguf"
        if not shard.exists():
            self.skipTest("the split model file is not on this machine")
        arguments = ["-p", "What is 17 + 25?", "--no-think", "--temp", 0, "-q"]
        self.assertEqual(strata("run", shard, *arguments, check=0).out, strata("run", *arguments, check=0).out)

    def test_an_answer_that_is_nothing_but_thinking_says_so(self):
        done = strata("run", "-p", "What is 17 + 25?", "-n", 3, "--temp", 0, check=0)
        self.assertEqual(done.out, "")
        self.assertIn("while the model was thinking", done.err)

    def test_prompts_come_from_options_files_and_stdin_alike(self):
        fixed = ["--no-think", "--temp", 0, "-q"]
        question = "What is 7 plus 12?"
        expected = strata("run", "-p", question, *fixed, check=0)
        self.assertEqual(expected.err, "")
        path = self.file("question.txt", question)
        self.assertEqual(strata("run", "-f", path, *fixed, check=0).out, expected.out)
        self.assertEqual(strata("run", *fixed, stdin=question.encode(), check=0).out, expected.out)
        self.assertEqual(strata("run", "-f", "-", *fixed, stdin=question.encode(), check=0).out, expected.out)
        self.assertEqual(strata("run", MODEL, "-p", question, *fixed, check=0).out, expected.out)

    def test_raw_text_goes_on_as_the_reference_does(self):
        prompt = golden_prompts()["00-one-token"]
        count = 40
        self.assertLess(count, prompt["greedy_safe"])
        done = strata("run", "--raw", "-p", prompt["text"], "-n", count, "--temp", 0, "--show-special", check=0)
        self.assertEqual(done.out.rstrip("\n"), prompt["greedy_text"][: len(done.out.rstrip("\n"))])
        self.assertGreater(len(done.out), count)

    def test_thinking_is_left_out_of_pipes_unless_asked_for(self):
        arguments = ["run", "-p", "What is 7 plus 12?", "--effort", "low", "--temp", 0]
        plain = strata(*arguments, check=0).out
        shown = strata(*arguments, "--show-thinking", check=0).out
        self.assertNotIn("think", plain)
        self.assertTrue(shown.startswith("<think>\n"), shown)
        self.assertTrue(shown.endswith("\n</think>\n\n" + plain), shown)

    def test_a_seed_fixes_the_answer(self):
        arguments = ["run", "--raw", "-p", "<|im_start|>", "-n", 24, "--temp", 3, "--top-k", 0, "--top-p", 1]
        answers = [strata(*arguments, "--seed", seed, check=0).out for seed in (1, 1, 2)]
        self.assertEqual(answers[0], answers[1])
        self.assertNotEqual(answers[0], answers[2])
        self.assertNotEqual(strata(*arguments, check=0).out, strata(*arguments, check=0).out)

    def test_sampling_options_reach_the_sampler(self):
        base = ["run", "-p", "What is 7 plus 12?", "--no-think", "--temp", 0, "-q"]
        first = int(strata("tokenize", "7 plus", "--ids-only", check=0).out.split()[0])
        self.assertFalse(strata(*base, "--logit-bias", f"{first}=-inf", check=0).out.startswith("7"))
        self.assertEqual(strata(*base, "--stop", " is", check=0).out, "7 plus 12\n")
        self.assertEqual(strata(*base, "--stop", "zz", "--stop", " plus", check=0).out, "7\n")
        self.assertEqual(strata(*base, "-n", 1, check=0).out, "7\n")
        lines = strata(*base, "--logprobs", 2, "-n", 2, check=0).err.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], rf'^{first} "7" -?[\d.]+  {first} "7" ')
        self.assert_refused(strata(*base, "--logit-bias", "4096=1"), 1, "4096")

    def test_weights_may_be_copied_into_memory(self):
        question = ("run", "-p", "What is 3 plus 4?", "--temp", 0)
        self.assertEqual(strata(*question, "--load", "ram", check=0).out, strata(*question, check=0).out)
        self.assert_refused(strata(*question, "--load", "disk"), 2, "--load", "mmap or ram", '"disk"')

    def test_limits_of_the_context_are_sentences(self):
        self.assert_refused(strata("run", "-p", "Hello! " * 20, "-c", 16), 1, "16", "--context")
        done = strata("run", "-p", "Hello!", "-c", 64, "--ignore-eos", "--temp", 0, check=0)
        self.assertRegex(done.err, r"prompt 55 tokens .* 10 generated")

    def test_ctrl_c_keeps_what_there_is_and_exits_with_130(self):
        process = subprocess.Popen([STRATA, "run", "--raw", "-p", "<|im_start|>", "--ignore-eos", "--temp", "0"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        first = process.stdout.read(8)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, err)
        self.assertTrue((first + rest).endswith(b"\n"))
        self.assertRegex(err.decode(), r"^prompt 1 tokens .* \d+ generated in ")

    def test_a_closed_pipe_ends_the_program(self):
        process = subprocess.Popen([STRATA, "run", "--raw", "-p", "<|im_start|>", "--ignore-eos"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        process.stdout.read(1)
        process.stdout.close()
        self.assertNotEqual(process.wait(timeout=TIMEOUT), 0)
        process.stderr.close()


class Chat(Case):
    def test_piped_lines_are_turns_and_commands(self):
        saved = self.folder / "chat.json"
        lines = ["What is 7 plus 12?", "/stats", "/retry", "/undo", "What is 7 plus \\", "12?",
                 f"/save {saved}", "/clear", "/undo"]
        done = strata("chat", "--no-think", "--temp", 0, stdin="\n".join(lines).encode())
        answers = done.out.splitlines()
        self.assertEqual(answers[:2], ["7 plus 12 is 19."] * 2)
        self.assertEqual(len(answers), 3)
        err = done.err.splitlines()
        self.assertEqual(len(err), 2, err)
        self.assertRegex(err[0], r"^prompt \d+ tokens in ")
        self.assertEqual(err[1], "strata: /undo: there is nothing to take back")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(saved.read_text())["messages"],
                         [{"role": "user", "content": "What is 7 plus \n12?"},
                          {"role": "assistant", "content": answers[2]}])

    def test_the_conversation_is_remembered(self):
        lines = ["My name is Ida. What is 2 plus 3?", "/stats", "And what is 7 plus 12?", "/stats"]
        done = strata("chat", "--no-think", "--temp", 0, stdin="\n".join(lines).encode(), check=0)
        first, second = (int(n) for n in re.findall(r"prompt (\d+) tokens", done.err))
        self.assertGreater(second, first + 10)

    def test_saved_chats_are_loaded_and_go_on(self):
        path = self.file("in.json", json.dumps({"messages": [
            {"role": "system", "content": "Answer in one sentence."},
            {"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hello!"}]}))
        out = self.folder / "out.json"
        lines = [f"/load {path}", "What is 7 plus 12?", f"/save {out}", "/quit", "never read"]
        done = strata("chat", "--no-think", "--temp", 0, stdin="\n".join(lines).encode(), check=0)
        self.assertEqual(done.out.count("\n"), 1)
        messages = json.loads(out.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user", "assistant"])

    def test_settings_change_while_it_runs(self):
        lines = ["/think off", "/temp 0", "/seed 3", "/system Answer in one sentence.", "What is 7 plus 12?",
                 "/think on", "/effort low", "/temp x", "/effort LOUD", "/sytem x", "/load /nonexistent"]
        done = strata("chat", stdin="\n".join(lines).encode())
        self.assertIn("19", done.out)
        errors = done.err.splitlines()
        self.assertIn("from 0 to 100", errors[0])
        self.assertIn("expected a word", errors[1])
        self.assertIn("did you mean /system?", errors[2])
        self.assertIn("/nonexistent", errors[3])

    def test_thinking_is_kept_apart_from_the_answer(self):
        saved = self.folder / "chat.json"
        lines = ["What is 7 plus 12?", f"/save {saved}"]
        done = strata("chat", "--effort", "low", "--temp", 0, stdin="\n".join(lines).encode(), check=0)
        reply = json.loads(saved.read_text())["messages"][1]
        self.assertEqual(done.out, reply["content"] + "\n")
        self.assertIn("19", reply["reasoning_content"])

    def test_a_terminal_gets_line_editing_dimmed_thinking_and_ctrl_c(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(STRATA, [STRATA, "chat", "--temp", "0", "--effort", "low"], {"TERM": "xterm", "PATH": "/bin"})
        watchdog = threading.Timer(TIMEOUT, os.kill, (pid, signal.SIGKILL))
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        self.addCleanup(os.close, terminal)
        seen = b""

        def wait_for(pattern):
            nonlocal seen
            deadline = time.monotonic() + TIMEOUT
            while not re.search(pattern, seen):
                self.assertLess(time.monotonic(), deadline, seen)
                if select.select([terminal], [], [], 0.1)[0]:
                    seen += os.read(terminal, 65536)
            seen = seen[re.search(pattern, seen).end():]

        wait_for(rb"> $")
        os.write(terminal, "What is 7 plus 13\x7f2? é\x7f\x7f\r".encode())
        wait_for(rb"\x1b\[2m[^\x1b]*19[^\x1b]*\x1b\[0m")
        wait_for(rb"7 plus 12 is 19\.\r\n")
        wait_for(rb"> $")
        os.write(terminal, b"half a line\x03")
        wait_for(rb"> $")
        os.write(terminal, b"/stats\r")
        wait_for(rb"prompt \d+ tokens")
        wait_for(rb"> $")
        os.write(terminal, b"\x04")
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)


class Serve(Case):
    def start(self, *arguments):
        process = subprocess.Popen([STRATA, "serve", "--port", "0", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        timer = threading.Timer(TIMEOUT, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        line = process.stdout.readline()
        self.assertRegex(line, r"^listening on http://127\.0\.0\.1:[1-9]\d*\n$")
        return process, line.split()[-1]

    def ask(self, url, body=None, key=None):
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = "Bearer " + key
        request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)

    def test_serves_the_embedded_model_and_stops_on_sigterm(self):
        process, url = self.start()
        self.assertRegex(process.stdout.readline(), r"^ready: strata-tiny \(.*strata-tiny\), \d+ tokens of context\n$")
        self.assertEqual(self.ask(url + "/v1/models")["data"][0]["id"], "strata-tiny")
        answer = self.ask(url + "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "What is 7 plus 12?"}], "temperature": 0,
            "enable_thinking": False})
        self.assertEqual(answer["choices"][0]["message"]["content"], "7 plus 12 is 19.")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=TIMEOUT), 0)

    def test_keys_and_alias_are_honoured(self):
        keys = self.file("keys.txt", "# the keys\n\n  secret-two  \r\n")
        process, url = self.start("--api-key", "secret-one", "--api-key-file", keys, "--alias", "my-model", MODEL)
        self.assertIn("my-model", process.stdout.readline())
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask(url + "/v1/models")
        self.assertEqual(refused.exception.code, 401)
        refused.exception.close()
        for key in ("secret-one", "secret-two"):
            self.assertEqual(self.ask(url + "/v1/models", key=key)["data"][0]["id"], "my-model")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=TIMEOUT), 0)

    def test_a_model_that_fails_to_load_ends_it_with_1(self):
        process, _ = self.start(self.folder / "missing.gguf")
        self.assertEqual(process.wait(timeout=TIMEOUT), 1)
        self.assertIn("missing.gguf", process.stderr.read())
        self.assertEqual(process.stdout.read(), "")

    def test_bad_listening_options_end_it_with_1(self):
        process, url = self.start()
        port = url.rsplit(":", 1)[1]
        self.assert_refused(strata("serve", "--port", port), 1, port)
        self.assert_refused(strata("serve", "--api-key-file", self.file("none.txt", "# none\n")), 1, "no key")
        self.assertEqual(strata("serve", "--host", "192.0.2.1", "--port", 0).returncode, 1)


class Inspect(Case):
    def test_json_totals_add_up(self):
        summary = json.loads(strata("inspect", MODEL, "--json", "--tensors", "--metadata", check=0).out)
        self.assertEqual(summary["architecture"], "qwen4exp")
        self.assertEqual(summary["shards"][0]["bytes"], MODEL.stat().st_size)
        for key, field in (("tensors", None), ("bytes", "bytes")):
            listed = len(summary["tensors"]) if field is None else sum(t[field] for t in summary["tensors"])
            self.assertEqual(summary["total"][key], listed)
            for group in ("by_type", "by_part"):
                self.assertEqual(sum(row[key] for row in summary[group]), listed)
        values = sum(math.prod(t["shape"]) for t in summary["tensors"])
        # models/tiny/README.md: 21.75 M trunk and 2.66 M draft layer.
        self.assertAlmostEqual(values / 1e6, 21.75 + 2.66, delta=0.01)
        self.assertIn("general.architecture", [m["key"] for m in summary["metadata"]])

    def test_the_embedded_model_is_the_file_of_the_build(self):
        embedded, file = (json.loads(strata("inspect", *m, "--json", "--tensors", check=0).out) for m in ([], [MODEL]))
        self.assertEqual(embedded["tensors"], file["tensors"])
        self.assertEqual(embedded["shards"][0]["bytes"], file["shards"][0]["bytes"])

    def test_lists_appear_on_request(self):
        short = strata("inspect", check=0).out
        self.assertNotIn("blk.0.", short)
        self.assertIn("blk.0.", strata("inspect", "--tensors", check=0).out)
        self.assertIn("tokenizer.ggml.model", strata("inspect", "--metadata", check=0).out)
        self.assertNotIn("tensors", json.loads(strata("inspect", "--json", check=0).out).keys() - {"total"})


class Tokenize(Case):
    def test_ids_are_those_of_the_reference_and_come_back(self):
        cases = json.loads((TINY / "golden" / "tokenizer.json").read_text())
        cases = [case for case in cases if case["text"]]
        self.assertGreater(len(cases), 5)
        for case in cases:
            ids = strata("tokenize", "--ids-only", stdin=case["text"].encode(), check=0).out.split()
            self.assertEqual([int(i) for i in ids], case["ids"], case["text"])
            self.assertEqual(strata("tokenize", "--detokenize", " ".join(ids), check=0).out, case["back"])

    def test_one_line_per_token(self):
        self.assertEqual(strata("tokenize", "<|im_end|>", check=0).out, '4084 "<|im_end|>"\n')
        self.assertNotIn("4084 ", strata("tokenize", "--plain", "<|im_end|>", check=0).out)
        path = self.file("text.txt", "<|im_end|>")
        self.assertEqual(strata("tokenize", MODEL, "-f", path, check=0).out, '4084 "<|im_end|>"\n')

    def test_ids_outside_the_vocabulary_are_refused(self):
        self.assert_refused(strata("tokenize", "--detokenize", "4096"), 1, "4096")
        self.assert_refused(strata("tokenize", "--detokenize", "none"), 1, "no token ids")


class Eval(Case):
    # 1e-4 of the RMS is the tolerance of the golden tests; this row set has no tie of the indexer.
    TOLERANCE = 1e-4

    def ids(self, prompt):
        return self.file("ids.txt", json.dumps(prompt["ids"]))

    def test_logits_match_an_exact_evaluation_whatever_the_chunk(self):
        for name, chunk in (("02-sum", 512), ("06-scripts", 7), ("12-recall-640", 100)):
            prompt = golden_prompts()[name]
            out = self.folder / "out.f32"
            done = strata("eval", "--tokens", self.ids(prompt), "--logits", out, "--activations", "float",
                          "--chunk", chunk, check=0)
            self.assertEqual(done.out, "")
            golden = floats(TINY / "golden" / "iq-mix" / f"{name}.iq-mix.last16.f32")
            logits = floats(out)
            self.assertEqual(len(logits), prompt["n"] * VOCABULARY)
            worst = max(abs(a - b) for a, b in zip(logits[-len(golden):], golden))
            self.assertLessEqual(worst, self.TOLERANCE * rms(golden), name)

    def test_greedy_tokens_match_the_reference(self):
        for name in ("01-hello", "10-copy"):
            prompt = golden_prompts()[name]
            count = prompt["greedy_safe"]
            done = strata("eval", MODEL, "--tokens", self.ids(prompt), "--greedy", count, "--activations", "float",
                          check=0)
            self.assertEqual([int(i) for i in done.out.split()], prompt["greedy"][:count], name)
            self.assertEqual(done.out.count("\n"), 1)

    def test_comparing_with_itself_finds_nothing_and_with_int8_something(self):
        ids = self.ids(golden_prompts()["02-sum"])
        out = self.folder / "out.f32"
        strata("eval", "--tokens", ids, "--logits", out, "--activations", "float", "-q", check=0)
        compare = ["eval", "--tokens", ids, "--compare", out, "--json"]
        same = json.loads(strata(*compare, "--activations", "float", check=0).out)["divergence"]
        self.assertEqual((same["mean_kl"], same["max_kl"], same["mean_difference"], same["top1_agreement"]),
                         (0, 0, 0, 1))
        self.assertEqual(same["positions"], 22)
        rounded = json.loads(strata(*compare, check=0).out)["divergence"]
        self.assertGreater(rounded["mean_kl"], 0)
        self.assertLess(rounded["mean_kl"], 0.01)
        self.assertGreaterEqual(rounded["max_kl"], rounded["p99_kl"])
        self.assertIn("top-1 agreement    100.000 %",
                      strata("eval", "--tokens", ids, "--compare", out, "--activations", "float", check=0).out)

    def test_perplexity_is_that_of_the_logits(self):
        prompt = golden_prompts()["01-hello"]
        ids = self.ids(prompt)
        result = json.loads(strata("eval", "--tokens", ids, "--activations", "float", "--json", check=0).out)
        text = self.file("text.txt", prompt["text"])
        from_text = json.loads(strata("eval", "--text", text, "--activations", "float", "--json", check=0).out)
        self.assertEqual(from_text, result)
        out = self.folder / "out.f32"
        strata("eval", "--tokens", ids, "--logits", out, "--activations", "float", check=0)
        logits = floats(out)
        losses = []
        for position, following in enumerate(prompt["ids"][1:]):
            row = logits[position * VOCABULARY:(position + 1) * VOCABULARY]
            losses.append(math.log(sum(math.exp(x) for x in row)) - row[following])
        mean = sum(losses) / len(losses)
        spread = math.sqrt(sum((x - mean) ** 2 for x in losses) / (len(losses) - 1) / len(losses))
        p = result["perplexity"]
        self.assertEqual(p["positions"], prompt["n"] - 1)
        self.assertAlmostEqual(p["mean_nll"], mean, places=6)
        self.assertAlmostEqual(p["nll_error"], spread, places=6)
        self.assertAlmostEqual(p["perplexity"], math.exp(mean), places=4)

    def test_a_text_longer_than_the_context_is_read_in_windows(self):
        prompt = golden_prompts()["02-sum"]
        windowed, alone = self.folder / "windowed.f32", self.folder / "alone.f32"
        strata("eval", "--tokens", self.ids(prompt), "--logits", windowed, "--context", 10, check=0)
        second = self.file("second.txt", json.dumps(prompt["ids"][10:20]))
        strata("eval", "--tokens", second, "--logits", alone, check=0)
        start = 10 * VOCABULARY * 4
        self.assertEqual(windowed.read_bytes()[start:2 * start], alone.read_bytes())
        counted = json.loads(strata("eval", "--tokens", self.ids(prompt), "--context", 10, "--json", check=0).out)
        self.assertEqual(counted["perplexity"]["positions"], 9 + 9 + 1)

    def test_ctrl_c_says_what_was_written_and_exits_with_130(self):
        out = self.folder / "out.f32"
        ids = self.file("ids.txt", " ".join(["1 2 3"] * 500_000))
        process = subprocess.Popen([STRATA, "eval", "--tokens", ids, "--logits", out, "--chunk", "1"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + TIMEOUT
        while not out.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stdout, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, stdout), (130, ""), err)
        written = int(re.search(r"only the first (\d+) of 1500000 positions", err).group(1))
        self.assertEqual(out.stat().st_size, written * VOCABULARY * 4)

    def test_inputs_that_do_not_fit_are_refused(self):
        ids = self.file("ids.txt", "1 2 3")
        short = self.file("short.f32", b"\0" * 100)
        nan = self.file("nan.f32", array.array("f", [math.nan] * 3 * VOCABULARY).tobytes())
        self.assert_refused(strata("eval", "--tokens", ids, "--compare", short), 1, "short.f32", "100 bytes")
        self.assert_refused(strata("eval", "--tokens", ids, "--compare", nan), 1, "not finite")
        self.assert_refused(strata("eval", "--tokens", ids, "--logits", nan, "--compare", nan), 2, "overwrite")
        self.assert_refused(strata("eval", "--tokens", ids, "--logits", "/nonexistent/x"), 1, "/nonexistent/x")
        self.assert_refused(strata("eval", "--tokens", ids, "--logits", "/dev/full"), 1, "/dev/full")
        self.assert_refused(strata("eval", "--tokens", ids, "--greedy", 10, "--context", 12), 1, "--context")
        self.assert_refused(strata("eval", "--tokens", self.file("big.txt", "1 4096")), 1, "4096")
        self.assert_refused(strata("eval", "--tokens", self.file("none.txt", "no ids")), 1, "none.txt")
        self.assert_refused(strata("eval", "--tokens", self.file("one.txt", "1")), 1, "at least two")
        self.assert_refused(strata("eval", "--text", self.folder / "missing"), 1, "missing")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
