#!/usr/bin/env python3
"""Finds state in C++ sources that outlives its owner: what a process remembers instead of an object.

A fact about a device, or a decision made from one, that is kept in a static, a global or a singleton is
the same for every device of the process. So the layers that know devices may have none of these:

  - function-local `static` or `thread_local` variables, constant or not, unless constexpr: their value
    is decided by whoever comes first
  - variables at namespace level or static members, unless constexpr, constinit const or extern "C" const
  - functions that hand out one instance
  - environment variables

    state.py FILE...                    prints problems; exit code 1 if there are any
    state.py --expect-problem FILE...   the other way round, for the tests of this check
"""
import re
import subprocess
import sys
from pathlib import Path

LAYERS = ("backend", "ops", "memory", "model", "engine")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def plain(text):
    """Comments, preprocessor lines, texts and characters as blanks; lines stay where they are."""
    text = re.sub(r'R"([^(\s]*)\(.*?\)\1"', blank, text, flags=re.S)
    text = re.sub(r'//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
                  lambda m: '""' + blank(m)[2:] if m.group(0).startswith('"') else blank(m), text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, text, flags=re.M)


CONSTANT = re.compile(r"\b(constexpr|consteval|STRATA_TABLE)\b|\bconstinit\s+const\b|\bconst\s+constinit\b")
NO_VARIABLE = re.compile(r"^(using|typedef|template|friend|static_assert|namespace|class|struct|union|enum|"
                         r"concept|requires|public|private|protected|return|asm|extern\s+template|operator)\b")
KEEPS_TEXT = ("initialiser", "lambda")


def scope_of(head, outer, depth):
    """What a brace after `head` opens."""
    head = re.sub(r"\[\[.*?\]\]", "", head).strip()
    if depth == 0 and re.search(r'\bnamespace\b[^=;()]*$|\bextern\s*""$', head):
        return "namespace"
    declares = re.sub(r"template\s*<.*>\s*(?=(class|struct|union|enum)\b)", "", head)
    if depth == 0 and re.search(r"^(typedef\s+|static\s+|const(expr)?\s+|inline\s+)*(class|struct|union|enum)\b[^=()]*$|"
                                r"^(class|struct|union)\s+(alignas\s*\([^)]*\)\s*)?[^=()]*$", declares):
        return "class" if not re.search(r"\benum\b", declares) else "initialiser"
    if re.search(r"\[[^\[\]]*\]\s*(\([^{}]*\))?\s*(mutable|noexcept|->\s*[\w:<>,&*\s]+|\s)*$", head) and (
            depth > 0 or "=" in head or "return" in head or outer == "function"):
        return "lambda"
    if re.search(r"(\)|\bconst|\bnoexcept|\boverride|\bfinal|\btry|\bdo|\belse|>)\s*$|\)\s*(const\s*)?(noexcept\s*)?(->[\w:<>,&*\s]+)$", head) or (
            not head) or re.search(r"\)\s*:\s*[\w:]+", head):
        if depth == 0 and not re.search(r"=\s*[\w:<>,\s]*$", head):
            return "function" if head or outer == "function" else "initialiser"
    return "initialiser"


def judge(statement, scope):
    """What is wrong with one declaration or statement in this kind of scope, or None."""
    s = re.sub(r"\[\[.*?\]\]", " ", statement)
    s = re.sub(r"\b(public|private|protected|default)\s*:|\bcase\b[^:]*:(?!:)", " ", s)
    s = re.sub(r"\bSTRATA_(DEVICE|ENTRY|HOST)\w*", " ", s).strip()
    if not s or CONSTANT.search(s.split("=")[0]):
        return None
    if scope == "function":
        if re.match(r"((inline|const|constinit|volatile)\s+)*(static|thread_local)\b", s) and not s.startswith("static_assert"):
            return "function-local static state"
        return None
    if re.search(r"\bthread_local\b", s):
        return "thread-local state"
    if re.search(r"\bstatic\b[^=({]*&\s*(instance|singleton|get_instance|global|shared)\s*\(\s*\)", s):
        return "a singleton"
    if NO_VARIABLE.match(s) or re.match(r'extern\s*""\s*const\b', s):
        return None
    # The declarator ends at the first brace, parenthesis or assignment.
    head = re.split(r"[={(]", s)[0].strip()
    rest = s[len(head):].lstrip()
    if rest.startswith("("):
        # A call of a constructor is a variable; names of types alone are a function.
        inside = re.match(r"\(([^()]*)\)\s*$", rest)
        if not (inside and re.search(r'^\s*(""|-?\d|true|false|nullptr)', inside.group(1))):
            return None
    if re.search(r"\boperator\b", head) or not re.search(r"[\w>*&\]]\s+[*&]*\s*[\w:]+\s*(\[[^\]]*\]\s*)*$", head):
        return None
    if scope == "class" and not re.search(r"\bstatic\b", head):
        return None
    return "state at namespace level" if scope == "namespace" else "a static member"


def check_text(text):
    """(line, problem) of each piece of state in a source text."""
    problems = []
    code = plain(text)
    for number, line in enumerate(code.split("\n"), 1):
        if re.search(r"\b(getenv|secure_getenv|setenv|putenv|environ)\b", line):
            problems.append((number, "environment variables are not read; add an option"))
    stack = [("namespace", "", 0, 0)]  # scope, text before it, its line, depth of parentheses outside
    statement, start, line, depth = "", 1, 1, 0

    def close(scope):
        text = statement.strip()
        problem = judge(text, scope)
        if problem:
            problems.append((start, "%s: a fact belongs to the object it is about: %s" % (
                problem, " ".join(text.split())[:80])))

    for c in code:
        if c == "\n":
            line += 1
        scope = "function" if stack[-1][0] == "lambda" else stack[-1][0]
        if scope == "initialiser" and c not in "{}":
            continue
        if c == "{":
            kind = scope_of(statement, scope, depth)
            if kind == "function":
                close_head = judge(statement.strip(), scope) if scope != "function" else None
                if close_head == "a singleton":
                    close(scope)
            stack.append((kind, statement, start, depth))
            statement, start, depth = "", line, 0
        elif c == "}":
            if scope not in KEEPS_TEXT and statement.strip():
                close(scope)
            if len(stack) == 1:
                continue
            kind, before, start, depth = stack.pop()
            statement = before + "{}" if kind in KEEPS_TEXT else ""
        elif c == ";" and depth == 0:
            close(scope)
            statement = ""
        else:
            if c in "([":
                depth += 1
            elif c in ")]":
                depth -= 1
            if not statement.strip():
                start = line
                statement = ""
            statement += c
    return sorted(set(problems))


# What the compiler itself puts among the variables: the personality routine's address, type names.
COMPILER = re.compile(r"^(DW\.ref\.|__gcov|__odr_asan|__asan|__tsan|__sanitizer|\.L|_ZTI|_ZTS|_ZTV|__dso_handle)")


def check_object(path):
    """Variables that a compiled file keeps: writable data, and guards of what is made at first use."""
    listing = subprocess.run(["objdump", "-t", str(path)], capture_output=True, text=True, check=True).stdout
    problems = []
    for match in re.finditer(r"^[0-9a-f]{16} .{7} (\S+)\t([0-9a-f]{16}) (?:\.\w+ )?(\S+)$", listing, re.M):
        section, size, name = match.group(1), int(match.group(2), 16), match.group(3)
        writable = re.match(r"\.(bss|data|tbss|tdata)\b", section) and ".rel.ro" not in section
        if writable and size and not COMPILER.match(name) and name != section:
            problems.append("%s: %s is state of the process; a fact belongs to the object it is about" % (
                Path(path).name, name))
    return problems


def main():
    expected = "--expect-problem" in sys.argv
    found = 0
    for path in (a for a in sys.argv[1:] if not a.startswith("--")):
        problems = (["%s: %s" % (path, p) for p in check_object(path)] if path.endswith(".o") else
                    ["%s:%d: %s" % (path, line, text) for line, text in check_text(Path(path).read_text())])
        print("\n".join(problems) or "%s: no state" % path)
        found += bool(problems)
    sys.exit(bool(found) != expected)


if __name__ == "__main__":
    main()
