#define PCRE2_CODE_UNIT_WIDTH 8

#include "text/pretokenizer.h"

#include <limits>
#include <string>

#include <pcre2.h>

namespace strata::text {
namespace {

// Unicode's White_Space, members of a character class. Not \s: with UCP, PCRE2 counts U+180E too.
constexpr std::string_view kSpaceNoNewline =
    R"(\t\x0B\x0C \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// General categories L, M and N, members of a character class: what PCRE2's tables know (Unicode 14
// in 10.42) and, so that the split does not depend on the PCRE2 at hand, the code points that
// Unicode 15.0, 15.1 and 16.0 added.
constexpr std::string_view kLetter =
    R"(\p{L}\x{1C89}\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65})"
    R"(\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E})"
    R"(\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10})"
    R"(\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D})"
    R"(\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D})"
    R"(\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr std::string_view kMark =
    R"(\p{M}\x{897}\x{CF3}\x{ECE}\x{10D69}-\x{10D6D}\x{10EFC}-\x{10EFF}\x{11241}\x{113B8}-\x{113C0})"
    R"(\x{113C2}\x{113C5}\x{113C7}-\x{113CA}\x{113CC}-\x{113D0}\x{113D2}\x{113E1}\x{113E2}\x{11F00})"
    R"(\x{11F01}\x{11F03}\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{11F5A}\x{13440}\x{13447}-\x{13455})"
    R"(\x{1611E}-\x{1612F}\x{1E08F}\x{1E4EC}-\x{1E4EF}\x{1E5EE}\x{1E5EF})";
constexpr std::string_view kNumber =
    R"(\p{N}\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59})"
    R"(\x{16130}-\x{16139}\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9})"
    R"(\x{1E5F1}-\x{1E5FA})";

// The rules of "qwen35", written so that no alternative gives back more than one character: a match
// then costs time linear in what it looks at, no backtracking memory, and no match limit is met.
// Every alternative looks no further than the run that the alternatives after it consume.
std::string qwen35_rules() {
  const std::string_view contraction = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])";
  return fmt::format(
      "{contraction}"
      "|[^\\r\\n{L}{N}]?[{L}{M}]++"
      "|[{N}]"
      "| ?+[^\\r\\n{S}{L}{M}{N}]++[\\r\\n]*+"
      "|(?:[{S}]*+[\\r\\n]++)++"
      "|[\\r\\n{S}]+(?![^\\r\\n{S}])"
      "|[\\r\\n{S}]++",
      fmt::arg("contraction", contraction), fmt::arg("L", kLetter), fmt::arg("M", kMark),
      fmt::arg("N", kNumber), fmt::arg("S", kSpaceNoNewline));
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  const int length = pcre2_get_error_message(code, buffer, sizeof(buffer));
  if (length < 0) return fmt::format("error {}", code);
  return {reinterpret_cast<const char*>(buffer), static_cast<size_t>(length)};
}

}  // namespace

struct Pretokenizer::Pattern {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;

  Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

struct Pretokenizer::Cursor::Match {
  pcre2_match_data* data = nullptr;
};

void Pretokenizer::Cursor::MatchDeleter::operator()(Match* match) const {
  pcre2_match_data_free(match->data);
  delete match;
}

Pretokenizer::Pretokenizer(std::unique_ptr<Pattern> pattern) : pattern_(std::move(pattern)) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::create(std::string_view name, Engine engine) {
  if (name != "qwen35") {
    return unimplemented(
        "the pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not known to this build, which has "
        "\"qwen35\" only; use a model file of the Qwen3.5 family or a newer build",
        name);
  }
  const std::string rules = qwen35_rules();
  auto pattern = std::make_unique<Pattern>();
  int error = 0;
  PCRE2_SIZE error_at = 0;
  pattern->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rules.data()), rules.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &error_at, nullptr);
  if (pattern->code == nullptr) {
    return internal_error("the rules of pre-tokenizer \"{}\" do not compile at offset {}: {}", name,
                          error_at, pcre2_message(error));
  }
  pattern->limits = pcre2_match_context_create(nullptr);
  if (pattern->limits == nullptr) {
    return resource_exhausted("no memory for pre-tokenizer \"{}\"; free some and try again", name);
  }
  // The rules bound the work; PCRE2's own counter would stop long texts that are harmless.
  pcre2_set_match_limit(pattern->limits, std::numeric_limits<uint32_t>::max());
  // A system that forbids machine code made at run time refuses here; the interpreter gives the
  // same words.
  if (engine == Engine::kFastest) (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
  return Pretokenizer(std::move(pattern));
}

Result<Pretokenizer::Cursor> Pretokenizer::cursor() const {
  Cursor cursor;
  cursor.rules_ = this;
  cursor.match_.reset(new Cursor::Match);
  cursor.match_->data = pcre2_match_data_create(1, nullptr);
  if (cursor.match_->data == nullptr) {
    return resource_exhausted("no memory to split text into words; free some and try again");
  }
  return cursor;
}

void Pretokenizer::Cursor::reset(std::string_view valid_utf8) {
  text_ = valid_utf8;
  at_ = 0;
}

Result<std::string_view> Pretokenizer::Cursor::next() {
  const Pattern& pattern = *rules_->pattern_;
  const auto match = [&](uint32_t options) {
    return pcre2_match(pattern.code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                       PCRE2_NO_UTF_CHECK | options, match_->data, pattern.limits);
  };
  int found = match(0);
  // The interpreter keeps its frames on the heap, so it goes on where the machine stack is short.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMEMORY || found == PCRE2_ERROR_HEAPLIMIT) {
    return resource_exhausted(
        "out of memory while splitting text into words at byte {}; send a shorter text", at_);
  }
  if (found < 0) {
    return internal_error("the pre-tokenizer found no word at byte {} of a text of {}: {}", at_,
                          text_.size(), pcre2_message(found));
  }
  const size_t end = pcre2_get_ovector_pointer(match_->data)[1];
  if (end <= at_ || end > text_.size()) {
    return internal_error("the pre-tokenizer made an empty word at byte {}", at_);
  }
  const std::string_view word = text_.substr(at_, end - at_);
  at_ = end;
  return word;
}

}  // namespace strata::text
