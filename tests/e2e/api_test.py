"""`strata serve` with the embedded model: thinking, tools, the Messages and Responses APIs, TLS.

Golden values come from models/tiny/golden (see its README); nothing here is a former output of strata.
"""
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest
from pathlib import Path

from http_test import IM_END, IM_START, STRATA, TIMEOUT, Served, golden_prompts, user

TOOL = {"type": "function", "function": {"name": "get_weather", "description": "tells the weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}}


class Apis(Served):
    CHAT = "/v1/chat/completions"

    def prompt_of(self, body):
        return self.ask("/apply-template", body)["prompt"]

    def test_thinking_is_asked_for_in_the_words_of_every_api(self):
        off = self.prompt_of(user("Q", enable_thinking=False))
        low = self.prompt_of(user("Q", chat_template_kwargs={"reasoning_effort": "low"}))
        medium = self.prompt_of(user("Q", chat_template_kwargs={"reasoning_effort": "medium"}))
        full = self.prompt_of(user("Q"))
        self.assertEqual(len({off, low, medium, full}), 4)
        self.assertTrue(off.endswith("</think>\n\n"))
        self.assertTrue(full.endswith("<think>\n"))
        for expected, bodies in (
                (off, ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, {"reasoning": {"effort": "none"}},
                       {"reasoning_budget_tokens": 0})),
                (low, ({"reasoning_effort": "minimal"}, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}})),
                (medium, ({"reasoning_effort": "medium"},)),
                (full, ({"reasoning_effort": "high"}, {"reasoning_effort": "xhigh"}, {"thinking": {"type": "enabled"}}))):
            for body in bodies:
                self.assertEqual(self.prompt_of(user("Q", **body)), expected, body)

    def test_a_budget_closes_the_thinking(self):
        prompt = golden_prompts()["02-sum"]
        for budget in (1, 4, 9):
            body = user("What is 17 + 25?", temperature=0, max_tokens=80)
            free, _, usage = self.chat("What is 17 + 25?", temperature=0, max_tokens=80)
            free_tokens = usage["completion_tokens_details"]["reasoning_tokens"]
            self.assertGreater(free_tokens, budget + 4)
            answer = self.ask(self.CHAT, {**body, "reasoning_budget_tokens": budget})
            message = answer["choices"][0]["message"]
            used = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
            # The budget, and the tokens up to the closing one; a character is never cut.
            self.assertGreaterEqual(used, budget + 1)
            self.assertLessEqual(used, budget + 6)
            self.assertNotIn("think>", message["content"])
            self.assertTrue((free["reasoning_content"] + free["content"]).startswith(message["reasoning_content"].rstrip("\n")))
            events = self.stream(self.CHAT, {**body, "reasoning_budget_tokens": budget})
            self.assertEqual("".join(e["choices"][0]["delta"].get("content") or "" for e in events), message["content"])
        self.assertTrue(prompt)

    def test_the_template_shows_tools_calls_and_results(self):
        messages = [{"role": "user", "content": "Weather in Oakdale?"},
                    {"role": "assistant", "content": None, "reasoning_content": "I ask.", "tool_calls": [
                        {"id": "c1", "type": "function", "function": {
                            "name": "get_weather", "arguments": json.dumps({"city": "Oakdale", "days": 2})}}]},
                    {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]
        prompt = self.prompt_of({"messages": messages, "tools": [TOOL]})
        self.assertIn(json.dumps(TOOL["function"]["name"]), prompt)
        self.assertIn("<think>\nI ask.\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOakdale\n</parameter>\n"
                      "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>" + IM_END, prompt)
        self.assertIn(f"{IM_START}user\n<tool_response>\nsunny\n</tool_response>{IM_END}\n", prompt)
        self.assertNotIn("get_weather", self.prompt_of({"messages": messages[:1], "tools": [TOOL], "tool_choice": "none"}))
        # The same conversation through the other APIs is the same prompt.
        tokens = len(self.ask("/tokenize", {"content": prompt})["tokens"])
        counted = self.ask("/v1/messages/count_tokens", {
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": [{"name": "get_weather", "description": "tells the weather",
                       "input_schema": TOOL["function"]["parameters"]}],
            "messages": [messages[0], {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I ask.", "signature": "x"},
                {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Oakdale", "days": 2}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]}]})
        self.assertEqual(counted["input_tokens"], tokens)
        response = self.ask("/v1/responses", {
            "max_output_tokens": 1, "tools": [{"type": "function", **TOOL["function"]}], "input": [
                messages[0], {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I ask."}]},
                {"type": "function_call", "call_id": "c1", "name": "get_weather",
                 "arguments": json.dumps({"city": "Oakdale", "days": 2})},
                {"type": "function_call_output", "call_id": "c1", "output": "sunny"}]})
        self.assertEqual(response["usage"]["input_tokens"], tokens)
        self.assertEqual(response["status"], "incomplete")

    def test_one_answer_through_every_api(self):
        text = golden_prompts()["02-sum"]["greedy_text"].split(IM_END)[0]
        messages = [{"role": "user", "content": "What is 17 + 25?"}]
        message = self.ask("/v1/messages", {"messages": messages, "max_tokens": 50, "temperature": 0})
        self.assertEqual((message["content"], message["stop_reason"]), ([{"type": "text", "text": text}], "end_turn"))
        self.assertEqual(message["usage"]["output_tokens"], golden_prompts()["02-sum"]["greedy_stop"] + 1)
        cut = self.ask("/v1/messages", {"messages": messages, "max_tokens": 50, "temperature": 0, "stop_sequences": ["= 4"]})
        self.assertEqual((cut["stop_reason"], cut["stop_sequence"], cut["content"][0]["text"]),
                         ("stop_sequence", "= 4", text[:text.index("= 4")]))
        response = self.ask("/v1/responses", {"input": messages, "temperature": 0, "reasoning": {"effort": "none"}})
        self.assertEqual(response["output"][0]["content"][0]["text"], text)
        again = self.ask("/v1/responses", {"input": "And 3 + 4?", "temperature": 0, "reasoning": {"effort": "none"},
                                           "previous_response_id": response["id"], "max_output_tokens": 3})
        rendered = self.prompt_of({"enable_thinking": False, "messages": [
            *messages, {"role": "assistant", "content": text}, {"role": "user", "content": "And 3 + 4?"}]})
        self.assertEqual(again["usage"]["input_tokens"], len(self.ask("/tokenize", {"content": rendered})["tokens"]))

    def test_several_answers_with_a_seed_differ_and_repeat(self):
        body = {"prompt": IM_START, "max_tokens": 12, "temperature": 1.5, "top_k": 0, "top_p": 1, "n": 3, "seed": 11}
        texts = [choice["text"] for choice in self.ask("/v1/completions", body)["choices"]]
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual([choice["text"] for choice in self.ask("/v1/completions", body)["choices"]], texts)

    def test_progress_is_told_when_asked_for(self):
        body = {"prompt": [40] * 1500, "max_tokens": 1, "temperature": 0}
        events = self.stream("/v1/completions", {**body, "return_progress": True})
        progress = [event["prompt_progress"] for event in events if "prompt_progress" in event]
        self.assertGreaterEqual(len(progress), 3)
        self.assertEqual({step["total"] for step in progress}, {1500})
        read = [step["processed"] for step in progress]
        self.assertEqual(read, sorted(read))
        self.assertEqual(read[-1], 1500)
        self.assertFalse(any("prompt_progress" in event for event in self.stream("/v1/completions", body)))

    def test_a_client_that_sends_no_more_still_gets_its_answers(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while data := client.recv(65536):
                answer += data
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 3, answer)

    def test_constrained_answers_obey(self):
        shape = {"type": "object", "required": ["city", "days"], "additionalProperties": False, "properties": {
            "city": {"type": "string", "enum": ["Oakdale", "Elm"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}}
        hot = {"temperature": 1.5, "max_tokens": 200, "enable_thinking": False}
        for seed in range(4):
            message, _, _ = self.chat("x", **hot, seed=seed, response_format={
                "type": "json_schema", "json_schema": {"name": "n", "schema": shape}})
            value = json.loads(message["content"])
            self.assertTrue(value["city"] in ("Oakdale", "Elm") and 1 <= value["days"] <= 9, value)
            # The form binds what comes after the thinking, not the thinking.
            message, _, _ = self.chat("x", **{**hot, "enable_thinking": True}, seed=seed, reasoning_budget_tokens=8,
                                      response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": shape}})
            self.assertIn(json.loads(message["content"])["city"], ("Oakdale", "Elm"))
            self.assertTrue(message["reasoning_content"])
            message, _, _ = self.chat("x", **hot, seed=seed, guided_choice=["up \"and\" away", "down"])
            self.assertIn(message["content"], ("up \"and\" away", "down"))
            message, _, _ = self.chat("x", **hot, seed=seed, guided_regex="[ab]{3}-[0-9]{2}")
            self.assertRegex(message["content"], r"^[ab]{3}-[0-9]{2}$")
            for thinking in (False, True):
                answer = self.ask(self.CHAT, user("x", **{**hot, "enable_thinking": thinking}, seed=seed, tools=[TOOL],
                                                  tool_choice="required", reasoning_budget_tokens=12 if thinking else None))
                choice = answer["choices"][0]
                self.assertIn(choice["finish_reason"], ("tool_calls", "length"))
                calls = choice["message"]["tool_calls"]
                self.assertEqual(calls[0]["function"]["name"], "get_weather")
                self.assertIsInstance(json.loads(calls[0]["function"]["arguments"]), dict)


class Tls(unittest.TestCase):
    def setUp(self):
        if shutil.which("openssl") is None:
            self.skipTest("the openssl program is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.certificate, self.key = Path(folder.name) / "cert.pem", Path(folder.name) / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                        "-keyout", self.key, "-out", self.certificate], check=True, stderr=subprocess.DEVNULL)

    def serve(self, *arguments):
        process = subprocess.Popen([STRATA, "serve", "--port", "0", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_https_with_a_checked_certificate(self):
        process = self.serve("--ssl-cert-file", self.certificate, "--ssl-key-file", self.key)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("listening on https://127.0.0.1:"), line)
        port = int(line.rsplit(":", 1)[1])
        process.stdout.readline()  # ready
        context = ssl.create_default_context(cafile=self.certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT, context=context)
        for stream in (False, True):
            body = json.dumps(user("What is 17 + 25?", temperature=0, enable_thinking=False, stream=stream))
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read().decode()
            self.assertEqual(response.status, 200, data)
            self.assertTrue(data.endswith("data: [DONE]\n\n") if stream else "17 + 25 = 42" in data, data)
        large = "x" * 3_000_000
        connection.request("POST", "/tokenize", json.dumps({"content": large}))
        self.assertGreater(len(json.loads(connection.getresponse().read())["tokens"]), 1000)
        connection.close()
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        with self.assertRaises((http.client.HTTPException, ConnectionError)):
            plain.request("GET", "/health")
            plain.getresponse()
        process.terminate()
        self.assertEqual(process.wait(timeout=TIMEOUT), 0)

    def test_files_that_cannot_be_used_are_named(self):
        for arguments, words in (
                (("--ssl-cert-file", self.certificate), "the key is missing"),
                (("--ssl-key-file", self.key), "the certificate is missing"),
                (("--ssl-cert-file", "/nothing.pem", "--ssl-key-file", self.key), "/nothing.pem"),
                (("--ssl-cert-file", self.key, "--ssl-key-file", self.key), str(self.key)),
                (("--ssl-cert-file", self.certificate, "--ssl-key-file", self.certificate), str(self.certificate))):
            process = self.serve(*arguments)
            _, errors = process.communicate(timeout=TIMEOUT)
            self.assertNotEqual(process.returncode, 0)
            self.assertIn(words, errors)


if __name__ == "__main__":
    unittest.main()
