"""Damaged and hostile model files, made from the embedded one, through the program.

Whatever the file says, strata ends with 0, or with 1 and one sentence; it never crashes or hangs.
"""
import os
import random
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

STRATA = os.environ["STRATA_BINARY"]
MODEL = Path(__file__).resolve().parents[2] / "models" / "tiny" / "strata-tiny-IQ-mix-mtp.gguf"
TIMEOUT = 60
# Ids of the evaluated text: plain tokens, the end-of-text token of the n-gram hash, more tokens.
IDS = "40 41 42 4082 43 44 45 46 47 48"

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
WIDTH = {0: 1, 1: 1, 2: 2, 3: 2, U32: 4, I32: 4, F32: 4, BOOL: 1, U64: 8, 11: 8, 12: 8}
Q8_0, BF16 = 8, 30
BLOCK = {0: (1, 4), 1: (1, 2), Q8_0: (32, 34), 14: (256, 210), 17: (256, 74), 18: (256, 98), 20: (32, 18),
         23: (256, 136), BF16: (1, 2)}


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def u32(value):
    return U32, struct.pack("<I", value)


def i32(value):
    return I32, struct.pack("<i", value)


def f32(value):
    return F32, struct.pack("<f", value)


def string(value):
    return STRING, text(value)


def array(kind, values):
    code = {U32: "I", I32: "i", F32: "f", U64: "Q"}.get(kind)
    body = b"".join(text(v) if kind == STRING else struct.pack("<" + code, v) for v in values)
    return ARRAY, struct.pack("<IQ", kind, len(values)) + body


def poison(name, pattern, at=0, count=None):
    """A change of a Gguf: bytes of a tensor, from `at` on, are `pattern` again and again."""
    def change(model):
        data = bytearray(model.tensors[name][2])
        end = len(data) if count is None else at + count * len(pattern)
        data[at:end] = pattern * ((end - at) // len(pattern))
        model.tensors[name][2] = bytes(data)
    return change


class Gguf:
    """A version 3 file taken apart. keys: name -> (type, encoded value); tensors: name -> [dims, type, bytes]."""

    def __init__(self, data):
        at = 24
        tensors, keys = struct.unpack_from("<QQ", data, 8)

        def skip(kind, at):
            if kind == STRING:
                return at + 8 + struct.unpack_from("<Q", data, at)[0]
            if kind != ARRAY:
                return at + WIDTH[kind]
            item, count = struct.unpack_from("<IQ", data, at)
            at += 12
            if item != STRING:
                return at + count * WIDTH[item]
            for _ in range(count):
                at = skip(STRING, at)
            return at

        self.keys, self.tensors = {}, {}
        self.fuzzed = []  # byte ranges of everything but the long lists of the vocabulary
        for _ in range(keys):
            begin, end = at, skip(STRING, at)
            name = data[begin + 8:end].decode()
            kind, = struct.unpack_from("<I", data, end)
            at = skip(kind, end + 4)
            self.keys[name] = (kind, data[end + 4:at])
            self.fuzzed.append((begin, min(at, begin + 200)))
        infos = []
        for _ in range(tensors):
            begin, end = at, skip(STRING, at)
            rank, = struct.unpack_from("<I", data, end)
            dims = list(struct.unpack_from(f"<{rank}Q", data, end + 4))
            kind, offset = struct.unpack_from("<IQ", data, end + 4 + 8 * rank)
            infos.append((data[begin + 8:end].decode(), dims, kind, offset))
            at = end + 16 + 8 * rank
            self.fuzzed.append((begin, at))
        self.head = at
        base = at + -at % 32
        for name, dims, kind, offset in infos:
            elements, size = BLOCK[kind]
            count = 1
            for extent in dims:
                count *= extent
            self.tensors[name] = [dims, kind, data[base + offset:base + offset + count // elements * size]]

    def build(self):
        out = [b"GGUF", struct.pack("<IQQ", 3, len(self.tensors), len(self.keys))]
        for name, (kind, value) in self.keys.items():
            out.append(text(name) + struct.pack("<I", kind) + value)
        offset = 0
        for name, (dims, kind, data) in self.tensors.items():
            out.append(text(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims) + struct.pack("<IQ", kind, offset))
            offset += len(data) + -len(data) % 32
        head = b"".join(out)
        out = [head + b"\0" * (-len(head) % 32)]
        out += [data + b"\0" * (-len(data) % 32) for _, _, data in self.tensors.values()]
        return b"".join(out)


class Case(unittest.TestCase):
    original = MODEL.read_bytes()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "hostile.gguf"
        self.ids = Path(folder.name) / "ids.txt"
        self.ids.write_text(IDS)

    def strata(self, *arguments):
        done = subprocess.run([STRATA, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        return done

    def evaluate(self):
        return self.strata("eval", self.path, "--tokens", self.ids, "-q")

    def assert_refused(self, done, *parts):
        self.assertEqual(done.returncode, 1, (done.returncode, done.err[-2000:]))
        self.assertEqual(done.out, "")
        lines = [line for line in done.err.splitlines() if " warn " not in line]
        self.assertEqual(len(lines), 1, done.err[-2000:])
        self.assertTrue(lines[0].startswith("strata: "), done.err)
        for part in parts:
            self.assertIn(part, lines[0])

    def refuse(self, change, *parts):
        """Applies `change` to the file taken apart; evaluating the result must fail with `parts` in the sentence."""
        model = Gguf(self.original)
        change(model)
        self.path.write_bytes(model.build())
        with self.subTest(parts=parts):
            self.assert_refused(self.evaluate(), "hostile.gguf", *parts)

    def refuse_key(self, name, value, *parts):
        full = name if name.startswith(("general.", "tokenizer.")) else "qwen4exp." + name

        def change(model):
            if value is None:
                del model.keys[full]
            else:
                model.keys[full] = value
        self.refuse(change, *(parts or (full,)))


class Handmade(Case):
    def test_the_file_taken_apart_and_put_together_again_is_used(self):
        self.path.write_bytes(Gguf(self.original).build())
        done = self.evaluate()
        self.assertEqual(done.returncode, 0, done.err)
        whole = self.strata("eval", MODEL, "--tokens", self.ids, "-q")
        self.assertEqual(done.out, whole.out)

    def test_truncated_anywhere(self):
        head = Gguf(self.original).head
        size = len(self.original)
        for length in (0, 3, 4, 8, 23, 24, 31, 100, head // 2, head - 1, head, size // 2, size - 65536, size - 64):
            self.path.write_bytes(self.original[:length])
            with self.subTest(length=length):
                self.assert_refused(self.evaluate(), "hostile.gguf")
                self.assert_refused(self.strata("inspect", self.path), "hostile.gguf")

    def test_numbers_of_the_architecture(self):
        for name, value in (("block_count", 0), ("block_count", 10), ("block_count", 2**32 - 1), ("context_length", 0),
                            ("embedding_length", 0), ("attention.head_count", 0), ("attention.head_count_kv", 0),
                            ("attention.head_count_kv", 3), ("attention.key_length", 0), ("attention.value_length", 128),
                            ("rope.dimension_count", 0), ("rope.dimension_count", 63), ("rope.dimension_count", 512),
                            ("attention.indexer.head_count", 0), ("attention.indexer.key_length", 0),
                            ("attention.indexer.top_k", 0), ("ssm.conv_kernel", 0), ("ssm.group_count", 0),
                            ("ssm.time_step_rank", 0), ("ssm.state_size", 0),
                            ("ssm.inner_size", 511), ("expert_count", 0), ("expert_used_count", 0),
                            ("expert_used_count", 33), ("expert_feed_forward_length", 0), ("hyper_connection.count", 1),
                            ("hyper_connection.low_rank", 0), ("ple.ngram_size", 1), ("ple.heads_per_ngram", 0),
                            ("ple.conv_kernel", 0), ("embedding_length_per_layer_input", 0),
                            ("nextn_predict_layers", 10)):
            parts = ("blk.",) if (name, value) == ("block_count", 10) else ("qwen4exp." + name,)
            self.refuse_key(name, u32(value), *parts)

    def test_floats_that_are_none(self):
        for name in ("rope.freq_base", "attention.layer_norm_rms_epsilon", "attention.scale"):
            for value in (float("nan"), float("inf"), -1.0):
                self.refuse_key(name, f32(value))
        self.refuse_key("general.sampling.temp", f32(float("nan")))
        self.refuse_key("general.sampling.top_k", i32(-3), "general.sampling", "top_k", "-3")

    def test_keys_of_another_type_or_missing(self):
        for name in ("block_count", "context_length", "attention.layer_norm_rms_epsilon", "rope.freq_base",
                     "expert_used_count", "ple.eos_token_id"):
            self.refuse_key(name, string("9"))
            self.refuse_key(name, None)
        self.refuse_key("block_count", f32(9.0))
        self.refuse_key("block_count", (U64, struct.pack("<Q", 2**63 + 9)))
        self.refuse_key("attention.compress_ratios", u32(4))
        self.refuse_key("rope.dimension_sections", string("11"))
        self.refuse_key("ple.layers", array(STRING, ["1"]))
        self.refuse_key("general.architecture", None)
        self.refuse_key("general.architecture", string("llama"), "llama", "qwen4exp")
        self.refuse_key("general.architecture", u32(1))

    def test_lists_of_the_architecture(self):
        for values in ([0, 0, 0], [0] * 4096, [0, 0, 0, 2**32 - 1, 0, 0, 0, 4, 0], [0, 0, 0, 5000, 0, 0, 0, 4, 0]):
            self.refuse_key("attention.compress_ratios", array(U32, values))
        for values in ([11, 11], [-1, 11, 10, 0], [11, 2**31 - 1, 10, 0], [11, 11, 2**31 - 1, 0], [33, 11, 10, 0]):
            self.refuse_key("rope.dimension_sections", array(I32, values))
        self.refuse_key("attention.recurrent_layers", array(U32, [1, 1, 1]))
        self.refuse_key("attention.recurrent_layers", array(U32, [1] * 9), "blk.3.")
        for values in ([3], [8], [2**32 - 1], [1, 2]):
            self.refuse_key("ple.layers", array(U32, values))

    def test_constants_of_the_hash(self):
        moduli = [1999, 2003, 2011, 2017, 2027, 2029, 2039, 2053]
        offsets = [0, 1999, 4002, 6013, 8030, 10057, 12086, 14125]
        self.refuse_key("ple.head_vocab_sizes", array(U64, [0] + moduli[1:]))
        self.refuse_key("ple.head_vocab_sizes", array(U64, moduli[:7]))
        self.refuse_key("ple.head_offsets", array(U64, offsets + [1]), "head_offsets have 8 and 9 entries")
        self.refuse_key("ple.layer_multipliers", array(U64, [1, 2]))
        # The table has 16256 rows.
        for name, values in (("ple.head_vocab_sizes", moduli[:7] + [16256 - 14125 + 1]),
                             ("ple.head_offsets", offsets[:7] + [16256 - 2053 + 1])):
            self.refuse_key(name, array(U64, values), "row 16256", "per_layer_token_embd.weight")
        for name in ("ple.head_vocab_sizes", "ple.head_offsets"):
            self.refuse_key(name, array(U64, [2**64 - 1] * 8), "ple.head")

    def test_a_context_of_every_size_is_allowed_or_refused_with_a_sentence(self):
        for context in (1, 2, 2**18, 2**30):
            model = Gguf(self.original)
            model.keys["qwen4exp.context_length"] = u32(context)
            self.path.write_bytes(model.build())
            done = self.strata("run", self.path, "--raw", "-p", "owl", "-n", "2", "-q")
            with self.subTest(context=context):
                if done.returncode == 0:
                    self.assertGreater(context, 1)
                else:
                    self.assert_refused(done)

    def test_vocabulary(self):
        model = Gguf(self.original)
        kind, types = model.keys["tokenizer.ggml.token_type"]
        self.assertEqual(kind, ARRAY)
        self.refuse_key("tokenizer.ggml.merges", None)
        self.refuse_key("tokenizer.ggml.merges", array(STRING, []))
        self.refuse_key("tokenizer.ggml.merges", array(STRING, ["a"]), "merge 0")
        self.refuse_key("tokenizer.ggml.merges", array(STRING, ["a b", "zzzz yyyy"]), "merge 1", "zzzz")
        self.refuse_key("tokenizer.ggml.tokens", None)
        self.refuse_key("tokenizer.ggml.tokens", array(STRING, ["a"] * 4096), "tokens 0 and 1")
        self.refuse_key("tokenizer.ggml.token_type", (ARRAY, types[:4] + struct.pack("<Q", 100) + types[12:412]))
        self.refuse_key("tokenizer.ggml.token_type", (ARRAY, types[:-4] + struct.pack("<i", 99)), "type 99")
        self.refuse_key("tokenizer.ggml.model", string("llama"))
        self.refuse_key("tokenizer.ggml.model", None)
        self.refuse_key("tokenizer.ggml.pre", string("gpt-9"), "gpt-9")
        self.refuse_key("tokenizer.ggml.eos_token_id", u32(4096))
        self.refuse_key("tokenizer.ggml.bos_token_id", u32(2**32 - 1))

    def test_chat_templates(self):
        for source in ("{% for %}", "{{ 'x' ", "{% if x %}", "{{ " + "(" * 100_000, "{% import 'x' as y %}"):
            self.refuse_key("tokenizer.chat_template", string(source), "template")
        for source, part in (("{{ raise_exception('never this one') }}", "never this one"), ("{{ nothing.at.all }}", ""),
                             ("{% for i in range(1000000000) %}{{ i }}{% endfor %}", ""),
                             ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ""),
                             ("{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}"
                              "{% endfor %}{{ ns.s }}", ""),
                             ("", "")):
            model = Gguf(self.original)
            model.keys["tokenizer.chat_template"] = string(source)
            self.path.write_bytes(model.build())
            with self.subTest(source=source):
                self.assert_refused(self.strata("run", self.path, "-p", "Hello!"), part)
                self.assertEqual(self.evaluate().returncode, 0)
        model = Gguf(self.original)
        del model.keys["tokenizer.chat_template"]
        self.path.write_bytes(model.build())
        self.assert_refused(self.strata("run", self.path, "-p", "Hello!"), "chat template")
        done = self.strata("run", self.path, "--raw", "-p", "Hello!", "-n", 2, "-q")
        self.assertEqual(done.returncode, 0, done.err)

    def test_tensors_renamed_missing_reshaped_and_of_other_types(self):
        def rename(model):
            model.tensors["blk.1.ssm_A"] = model.tensors.pop("blk.1.ssm_a")
        self.refuse(rename, "blk.1.ssm_a", "missing")
        for name in ("token_embd.weight", "output_hc_norm.weight", "per_layer_token_embd.weight",
                     "blk.3.indexer.k_proj.weight", "blk.7.ffn_down_exps.weight", "blk.1.ple_conv1d.weight"):
            self.refuse(lambda model: model.tensors.pop(name), name)

        for name, dims in (("blk.0.ssm_alpha.weight", [4, 256]), ("blk.0.ssm_conv1d.weight", [1024, 4]),
                           ("blk.0.ffn_down_exps.weight", [64, 256, 16]), ("blk.0.hc_attn_norm.weight", [0]),
                           ("blk.0.hc_attn_norm.weight", [2**62, 4]), ("blk.0.hc_attn_norm.weight", [2**63 + 5]),
                           ("output.weight", [256, 2048]), ("token_embd.weight", [256, 4096, 1, 1, 1, 1, 1, 1, 1]),
                           ("per_layer_token_embd.weight", [64, 8128])):
            def reshape(model):
                model.tensors[name][0] = dims
            self.refuse(reshape, name)

        for name, kind in (("blk.0.ssm_a", 999), ("blk.0.ssm_a", 4), ("blk.0.attn_qkv.weight", 36),
                           ("blk.0.ffn_down_shexp.weight", 14), ("blk.0.ssm_a", 24)):
            def retype(model):
                model.tensors[name][1] = kind
            self.refuse(retype, name)

    def test_weights_that_are_not_numbers(self):
        nan32, nan_half = b"\0\0\xc0\x7f", b"\0\x7e"
        self.refuse(poison("blk.0.hc_attn_norm.weight", nan32), "not finite")
        self.refuse(poison("blk.3.attn_k_norm.weight", nan32), "not finite")
        self.refuse(poison("blk.0.ssm_a", nan32), "not finite")
        self.refuse(poison("output.weight", b"\xff"), "not finite")
        # One row of the embedding that no proof of the load reads: 136 bytes a row, its scale first.
        self.refuse(poison("token_embd.weight", nan_half, at=45 * 136, count=1), "not finite")

    def test_no_rounding_of_activations_hides_what_is_not_a_number(self):
        for name, nan in (("blk.5.ffn_gate_inp.weight", b"\0\0\xc0\x7f"), ("output_hc_up.weight", b"\xc0\x7f"),
                          ("blk.2.ssm_alpha.weight", b"\xc0\x7f")):
            self.refuse(poison(name, nan), "not finite")

    def test_long_names_and_counts(self):
        self.refuse(lambda model: model.keys.update({"x" * 70_000: u32(1)}))
        for at, count in ((8, 2**63), (8, 2**32), (16, 2**63), (16, 2**32), (8, 0), (16, 0)):
            data = bytearray(self.original)
            data[at:at + 8] = struct.pack("<Q", count)
            self.path.write_bytes(data)
            with self.subTest(at=at, count=count):
                self.assert_refused(self.evaluate(), "hostile.gguf")
        for version, part in ((0, "version"), (1, "version"), (4, "version"), (2**32 - 1, "version"), (3 << 24, "big-endian")):
            data = bytearray(self.original)
            data[4:8] = struct.pack("<I", version)
            self.path.write_bytes(data)
            self.assert_refused(self.evaluate(), part)


class Random(Case):
    """Mutations of the index, from a fixed seed so that a failure can be had again."""
    ROUNDS = int(os.environ.get("STRATA_HOSTILE_ROUNDS", "120"))
    NUMBERS = (0, 1, 2, 7, 8, 9, 31, 32, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63,
               2**64 - 1)

    def mutate(self, rng, model):
        """-> [(offset, bytes)] to be written over the file."""
        changes = []
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            begin, end = rng.choice(model.fuzzed)
            at = rng.randrange(begin, end)
            kind = rng.randrange(4)
            if kind == 0:
                changes.append((at, bytes([self.original[at] ^ 1 << rng.randrange(8)])))
            elif kind == 1:
                changes.append((at, bytes([rng.randrange(256)])))
            elif kind == 2:
                changes.append((at, struct.pack("<I", rng.choice(self.NUMBERS) & 0xFFFFFFFF)))
            else:
                changes.append((at, struct.pack("<Q", rng.choice(self.NUMBERS))))
        return changes

    def test_mutations_end_well(self):
        model = Gguf(self.original)
        self.path.write_bytes(self.original)
        refused = 0
        with open(self.path, "r+b", buffering=0) as file:
            for round_ in range(self.ROUNDS):
                changes = self.mutate(random.Random(round_), model)
                for at, data in changes:
                    file.seek(at)
                    file.write(data)
                for done in (self.strata("inspect", self.path, "--metadata", "--tensors"), self.evaluate()):
                    with self.subTest(round=round_, changes=changes, command=done.args[1]):
                        if done.returncode == 0:
                            self.assertNotEqual(done.out, "")
                        else:
                            refused += 1
                            self.assert_refused(done)
                for at, data in changes:
                    file.seek(at)
                    file.write(self.original[at:at + len(data)])
        self.assertGreater(refused, self.ROUNDS // 2)
        self.assertEqual(self.evaluate().returncode, 0)


if __name__ == "__main__":
    unittest.main()
