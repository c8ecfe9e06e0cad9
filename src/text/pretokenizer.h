// Cuts text into the words that byte-pair merges may not cross. The rules are regular expressions,
// matched by PCRE2 and compiled to machine code where the system allows it.
//
// "qwen35" (spec 7.2, tokenizer.json of the family):
//   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ | \p{N}
//   | ' '?[^\s\p{L}\p{M}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
// \s is Unicode's White_Space. Letters, marks and numbers are those of Unicode 16. The contractions
// fold ASCII letters only.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace strata::text {

class Pretokenizer {
 public:
  enum class Engine {
    kFastest,      // machine code where the system lets a process make some, else the interpreter
    kInterpreter,  // never machine code
  };

  // `name` is the value of tokenizer.ggml.pre. Fails with kUnimplemented on a name without rules.
  static Result<Pretokenizer> create(std::string_view name, Engine engine = Engine::kFastest);

  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // Walks over the words of one text. The Pretokenizer and the text must outlive it. Cursors of
  // different threads may share a Pretokenizer.
  class Cursor {
   public:
    // Starts over on another text, which must be valid UTF-8.
    void reset(std::string_view valid_utf8);
    bool done() const { return at_ == text_.size(); }
    // The next word, never empty; the words put together are the text. Only while !done(). Time
    // over all words is linear in the text, memory constant. Fails when the system is out of
    // memory.
    Result<std::string_view> next();

   private:
    friend class Pretokenizer;
    struct Match;
    struct MatchDeleter {
      void operator()(Match* match) const;
    };
    std::string_view text_;
    size_t at_ = 0;
    const Pretokenizer* rules_ = nullptr;
    std::unique_ptr<Match, MatchDeleter> match_;
  };

  Result<Cursor> cursor() const;

 private:
  struct Pattern;
  explicit Pretokenizer(std::unique_ptr<Pattern> pattern);

  std::unique_ptr<Pattern> pattern_;
};

}  // namespace strata::text
