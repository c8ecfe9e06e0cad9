#!/usr/bin/env python3
"""Writes the expected texts of the template tests with the reference implementation (Python's
jinja2, set up as Hugging Face transformers sets it up for chat templates):

  NAME.cases.json    for every NAME.jinja: fills in "text", or "error" where rendering must fail
  expressions.json   the snippets of expressions.txt with their output, or null where they must fail

Run it in this folder after changing a template, a case or a snippet. Needs python3-jinja2.
"""
import datetime
import glob
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 5, 14, 7, 9)


class Generation(Extension):
    """{% generation %} marks what the assistant said; rendering passes its body through."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("render_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def render_body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def dump(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def main():
    env = environment()
    for path in sorted(glob.glob("*.jinja")):
        with open(path, encoding="utf-8", newline="") as file:
            template = env.from_string(file.read())
        cases_path = path.replace(".jinja", ".cases.json")
        with open(cases_path, encoding="utf-8") as file:
            cases = json.load(file)
        for case in cases:
            case.pop("text", None)
            case.pop("error", None)
            try:
                case["text"] = template.render(**case["variables"])
            except jinja2.exceptions.TemplateError as error:
                case["error"] = str(error)
        dump(cases_path, cases)

    with open("context.json", encoding="utf-8") as file:
        context = json.load(file)
    with open("expressions.txt", encoding="utf-8") as file:
        snippets = [s.rstrip("\n") for s in file.read().split("\n----\n")]
    results = []
    for snippet in snippets:
        snippet = snippet.replace("<NL>", "\n").replace("<CR>", "\r")
        try:
            text = env.from_string(snippet).render(**context)
        except Exception:  # every way to fail counts the same
            text = None
        results.append({"template": snippet, "text": text})
    dump("expressions.json", results)
    failing = sum(r["text"] is None for r in results)
    print(f"{len(results)} snippets, {failing} of which must fail")


if __name__ == "__main__":
    main()
