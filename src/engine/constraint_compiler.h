// From a ConstraintSpec to a matcher over the vocabulary of a model.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/constraint.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer.h"

namespace strata::engine {

// Thread-safe. Keeps the last few constraints with their token masks, so that requests that repeat
// one start at once.
class ConstraintCompiler {
 public:
  // `tokenizer` must outlive the compiler and its matchers.
  explicit ConstraintCompiler(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // A matcher at the beginning of an answer. kInvalidArgument with the field of the spec (else
  // "response_format", or "tools" for kToolCalls) and a sentence about the place at fault. Takes up to a second for large
  // constraints.
  Result<grammar::Matcher> compile(const ConstraintSpec& spec);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<grammar::MaskCache>>;

  std::shared_ptr<grammar::MaskCache> find(const std::string& key);
  std::shared_ptr<const grammar::Vocabulary> vocabulary();

  const text::Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // made when first needed
  std::list<Entry> recent_;                                // last used first
};

}  // namespace strata::engine
