"""The check for state of the process (state.py), on sources that have some and on sources that have none."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import state  # beside this file

COMPILER = sys.argv.pop(1)
PRELUDE = """#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>
struct Device { bool matrix_units() const; std::string arch() const; };
Device& current();
bool detect();
"""

# name: text, and whether a compiled file shows it too.
BAD = {
    "function-local static": "bool f(Device& d) {\n  static bool is_gfx11 = d.arch() == \"gfx11\";\n  return is_gfx11;\n}\n",
    "function-local static const": "bool f(Device& d) {\n  static const bool x = d.matrix_units();\n  return x;\n}\n",
    "const static": "bool f(Device& d) {\n  const static bool x = d.matrix_units();\n  return x;\n}\n",
    "static with braces": "int f(Device& d) {\n  static int rows{d.matrix_units() ? 8 : 4};\n  return rows;\n}\n",
    "static in an inner block": "int f(Device& d, int n) {\n  if (n > 3) {\n    static int best = d.matrix_units();\n    return best;\n  }\n  return 0;\n}\n",
    "static in a lambda": "int f(Device& d) {\n  const auto choose = [&](int n) {\n    static const int best = d.matrix_units() + n;\n    return best;\n  };\n  return choose(3);\n}\n",
    "static in a member": "struct T {\n  int f(Device& d) const {\n    static int best = d.matrix_units();\n    return best;\n  }\n};\nint g(Device& d) { return T().f(d); }\n",
    "static set later": "int f(Device& d) {\n  static int best;\n  if (best == 0) best = d.matrix_units() ? 8 : 4;\n  return best;\n}\n",
    "once flag": "int f(Device& d) {\n  static std::once_flag once;\n  int x = 0;\n  std::call_once(once, [&] { x = d.matrix_units(); });\n  return x;\n}\n",
    "meyers singleton": "struct Table { int rows = 0; };\nTable& table() {\n  static Table only;\n  return only;\n}\n",
    "auto singleton": "struct Table { int rows = 0; static auto& instance() {\n  static Table only;\n  return only;\n} };\nint f() { return Table::instance().rows; }\n",
    "thread local": "thread_local int current_device = 0;\nint f() { return ++current_device; }\n",
    "local thread local": "int f() {\n  thread_local int device = 0;\n  return ++device;\n}\n",
    "global": "namespace strata {\nint device_count = 0;\nint f() { return ++device_count; }\n}\n",
    "global in an unnamed namespace": "namespace {\nstd::map<std::string, int> cache;\n}\nint f() { return cache[\"x\"]++; }\n",
    "global constant from a fact": "namespace {\nconst bool kHasMatrixUnits = detect();\n}\nbool f() { return kHasMatrixUnits; }\n",
    "inline global": "inline bool has_matrix_units = false;\nbool f() { return has_matrix_units = detect(); }\n",
    "file static": "static int best_rows = 4;\nint f() { return best_rows++; }\n",
    "global with braces": "std::vector<int> forms{1, 2};\nint f() { return forms[0]; }\n",
    "global pointer": "Device* chosen = nullptr;\nDevice* f() { return chosen; }\nvoid g(Device* d) { chosen = d; }\n",
    "global array": "int best[8];\nint f(int i) { return best[i]++; }\n",
    "static member": "struct T { static int best; };\nint T::best = 4;\nint f() { return T::best++; }\n",
    "inline static member": "struct T { inline static int best = 4; };\nint f() { return T::best++; }\n",
}
ONLY_TEXT = {
    "environment": "bool f() { return std::getenv(\"STRATA_KERNELS\") != nullptr; }\n",
    "unused template": "template <class T>\nint f(T& d) {\n  static int best = d.rows();\n  return best;\n}\n",
    "singleton declared": "struct Table {\n  static Table& instance();\n};\n",
}
GOOD = {
    "constants": "namespace {\nconstexpr int kRows = 8;\nconstexpr const char* kNames[] = {\"a\", \"b\"};\n}\nint f(int i) { return kRows + kNames[i][0]; }\n",
    "local constant": "int f(int i) {\n  static constexpr int kForms[] = {1, 2, 4};\n  return kForms[i];\n}\n",
    "inline constant": "inline constexpr int kMost = 7;\nint f() { return kMost; }\n",
    "functions": "static int helper(Device& d) { return d.matrix_units(); }\nint f(Device& d) { return helper(d); }\nint g(const std::string& name, int n = 3);\n",
    "members": "struct T {\n  static T from(int n) { return {n}; }\n  static constexpr int kMost = 3;\n  int best = 4;\n  std::vector<int> rows{};\n  bool operator==(const T&) const = default;\n};\nint f() { return T::from(2).best; }\n",
    "locals": "int f(Device& d) {\n  const bool x = d.matrix_units();\n  int y{3};\n  for (int i = 0; i < 3; ++i) y += i;\n  const auto g = [&](int n) { return n + y; };\n  return x ? g(1) : y;\n}\n",
    "texts and comments": "// static bool x = false;\n/* int global = 0; */\nconst char* f() { return \"static int best = 0; {\"; }\n",
    "enums": "enum class Form { kOne, kTwo };\nint f(Form x) { return x == Form::kOne; }\n",
}


class State(unittest.TestCase):
    def compiled(self, text):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "a.cpp", Path(folder) / "a.o"
            source.write_text(PRELUDE + text)
            subprocess.run([COMPILER, "-std=c++20", "-O1", "-c", source, "-o", target], check=True)
            return state.check_object(target)

    def test_finds_state_in_sources(self):
        for name, text in {**BAD, **ONLY_TEXT}.items():
            with self.subTest(name):
                self.assertTrue(state.check_text(text), text)

    def test_names_the_line(self):
        self.assertEqual([line for line, _ in state.check_text(BAD["static in a lambda"])], [3])
        self.assertEqual([line for line, _ in state.check_text(BAD["global"])], [2])

    def test_finds_state_in_compiled_files(self):
        everything = self.compiled("".join("namespace case%d {\n%s}\n" % case for case in enumerate(BAD.values())))
        for index, name in enumerate(BAD):
            with self.subTest(name):
                self.assertTrue([p for p in everything if "case%d" % index in p], everything)

    def test_leaves_sources_without_state_alone(self):
        for name, text in GOOD.items():
            with self.subTest(name):
                self.assertEqual(state.check_text(text), [])
        together = "".join("namespace case%d {\n%s}\n" % case for case in enumerate(GOOD.values()))
        self.assertEqual(self.compiled(together), [])


if __name__ == "__main__":
    unittest.main()
