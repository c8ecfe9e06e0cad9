#!/usr/bin/env python3
"""Checks constrained JSON against an independent validator (python3-jsonschema).

usage: grammar_schema_check.py PROBE SUITE_FOLDER SCHEMAS_FILE

For every schema of every draft of the public test suite and of our own list: it is refused with a sentence that
begins with a JSON pointer, or every text sampled through its token masks validates, every invalid
instance is rejected, and every valid one that stands in the form the grammar writes is accepted.
"""
import decimal
import itertools
import json
import pathlib
import subprocess
import sys

try:
    import jsonschema
    from jsonschema import Draft202012Validator, draft202012_format_checker
except ImportError:
    print("python3-jsonschema is not installed; skipped")
    sys.exit(77)

SAMPLES = 12
decimal.getcontext().prec = 1000  # the rest of a division of any two of our numbers is exact


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, encoding="utf-8")

    def ask(self, schema, instances, samples=SAMPLES):
        question = {"schema": schema, "instances": instances, "samples": samples}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the probe died on {json.dumps(schema)[:2000]}")
        return json.loads(line)


def exact(text):
    """JSON with decimal fractions, so that multiples are exact."""
    return json.loads(text, parse_float=decimal.Decimal)


def written(instance):
    return json.dumps(instance, ensure_ascii=False)


class Tally:
    def __init__(self):
        self.schemas = self.refused = self.samples = self.unfinished = 0
        self.accepted_valid = self.narrower = self.rejected_invalid = 0
        self.failures = []


# Keywords by the kind of value they speak of: without "type" a schema is taken to mean these kinds.
SPEAKS_OF = {
    dict: ("properties", "required", "additionalProperties", "patternProperties", "propertyNames",
           "minProperties", "maxProperties"),
    list: ("items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    str: ("minLength", "maxLength", "pattern", "format"),
    (int, float): ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
TYPING = ("type", "enum", "const", "$ref", "anyOf", "allOf", "oneOf")

# Groups of the suite in which valid instances fall outside the narrower form that json_schema.h
# describes.
NARROWER = {
    "bignum/integer": "at most 18 digits",
    "bignum/number": "at most 18 digits",
    "zeroTerminatedFloats/some languages do not distinguish between different types of numeric value":
        "integers have no fraction",
    "date-time/validation of date-time strings": "capital T and Z",
    "uri/validation of URIs": "hosts are names",
    "iri/validation of IRIs": "hosts are names",
    "format/validation of date-time strings": "capital T and Z",
    "format/validation of URIs": "hosts are names",
    "ref/ref overrides any sibling keywords": "siblings of $ref apply, as since draft 2019-09",
    "ref/root pointer ref": "undeclared properties",
    "additionalProperties/additionalProperties are allowed by default": "undeclared properties",
    "allOf/allOf": "undeclared properties",
    "anyOf/anyOf complex types": "undeclared properties",
    "properties/object properties validation": "undeclared properties",
    "patternProperties/patternProperties validates properties matching a regex":
        "undeclared properties",
    "patternProperties/regexes are not anchored by default and are case sensitive":
        "undeclared properties",
}
# oneOf is read as anyOf, contentMediaType and contentEncoding are annotations, and "regex" is a
# format that is not enforced.
LOOSER = ("oneOf/", "content/", "ecmascript-regex/ECMA 262 regex non-compliance")


def untyped(schema, instance):
    """The schema does not say that a value of this kind is meant."""
    if not isinstance(schema, dict) or any(k in schema for k in TYPING):
        return False
    kinds = [kind for kind, words in SPEAKS_OF.items() if any(w in schema for w in words)]
    return bool(kinds) and (isinstance(instance, bool) or
                            not any(isinstance(instance, kind) for kind in kinds))


def orders(instance):
    """The instance with its properties in every order."""
    if not isinstance(instance, dict) or len(instance) > 4:
        return [instance]
    return [dict(items) for items in itertools.permutations(instance.items())]


def check(probe, tally, validator, schema, tests, where):
    tally.schemas += 1
    ways = [[written(o) for o in orders(t["data"])] for t in tests]
    reply = probe.ask(schema, [text for way in ways for text in way])
    if "error" in reply:
        tally.refused += 1
        if not reply["error"].startswith("#") and "nothing finite" not in reply["error"]:
            tally.failures.append(f"{where}: refused without a place: {reply['error']}")
        return
    looser = where.startswith(LOOSER)
    tally.unfinished += reply["unfinished"]
    if reply["unfinished"] > SAMPLES // 2:
        tally.failures.append(f"{where}: {reply['unfinished']} of {SAMPLES} samples have no end")
    for text in reply["samples"]:
        tally.samples += 1
        try:
            problem = next(validator.iter_errors(exact(text)), None)
        except ValueError as error:
            problem = error
        if problem and not looser:
            tally.failures.append(f"{where}: sampled {text!r}: {str(problem)[:200]}")
    accepts = iter(reply["accepts"])
    for test, way in zip(tests, ways):
        accepted = any([next(accepts) for _ in way])
        if accepted and not test["valid"] and not looser:
            tally.failures.append(f"{where}: accepted {written(test['data'])}, which is invalid")
        elif accepted:
            tally.accepted_valid += 1
        elif not test["valid"]:
            tally.rejected_invalid += 1
        elif where in NARROWER or untyped(schema, test["data"]):
            tally.narrower += 1
        else:
            tally.failures.append(f"{where}: rejected {written(test['data'])}, which is valid")


# Annotations here: not regular, or lists of characters per script.
NOT_ENFORCED = ("regex", "idn-email", "idn-hostname", "color")
# The name of a folder, and what its validator and its formats are called.
DRAFTS = {"draft3": "Draft3", "draft4": "Draft4", "draft6": "Draft6", "draft7": "Draft7",
          "draft2019-09": "Draft201909", "draft2020-12": "Draft202012"}


def run_suite(probe, folder):
    tally = Tally()
    validator_class = getattr(jsonschema, DRAFTS[folder.name] + "Validator")
    formats = getattr(jsonschema, DRAFTS[folder.name].lower() + "_format_checker")
    for path in sorted(folder.rglob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = group["schema"]
            named = schema.get("format") if isinstance(schema, dict) else None
            if named in NOT_ENFORCED or (named == "time" and folder.name == "draft3"):
                continue  # a time of draft 3 has no zone
            validator = validator_class(exact(json.dumps(schema)), format_checker=formats)
            check(probe, tally, validator, group["schema"], group["tests"],
                  f"{path.stem}/{group['description']}")
    return tally


def run_own(probe, path):
    tally = Tally()
    for entry in json.loads(path.read_text(encoding="utf-8")):
        schema = entry["schema"]
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(exact(json.dumps(schema)),
                                         format_checker=draft202012_format_checker)
        tests = [{"data": d, "valid": v == "valid"} for v in ("valid", "invalid")
                 for d in entry.get(v, [])]
        for test in tests:
            if validator.is_valid(exact(json.dumps(test["data"]))) != test["valid"] and not entry.get("narrower"):
                tally.failures.append(f"{entry['name']}: the list is wrong on {test['data']}")
        refused = tally.refused
        check(probe, tally, validator, schema, tests, entry["name"])
        if (tally.refused > refused) != entry.get("refused", False):
            tally.failures.append(f"{entry['name']}: refused or accepted against expectation")
    return tally


def main():
    probe = Probe(sys.argv[1])
    tallies = [("own", run_own(probe, pathlib.Path(sys.argv[3])))]
    suite = pathlib.Path(sys.argv[2])
    drafts = [folder for folder in sorted(suite.glob("draft*")) if folder.name in DRAFTS]
    for folder in drafts:
        tallies.append((folder.name, run_suite(probe, folder)))
    if not drafts:
        print(f"{suite} is missing (Debian: json-schema-test-suite); only our own schemas are used")
    failed = False
    for name, t in tallies:
        print(f"{name}: {t.schemas} schemas, {t.refused} refused; {t.samples} samples, "
              f"{t.unfinished} unfinished; valid instances: {t.accepted_valid} accepted, "
              f"{t.narrower} outside the narrower form; invalid instances: {t.rejected_invalid} "
              f"rejected; {len(t.failures)} failures")
        for failure in t.failures:
            print("  " + failure)
        # A check that looked at nothing has not passed.
        failed |= bool(t.failures) or t.samples < 10 * (t.schemas - t.refused) or t.samples == 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
