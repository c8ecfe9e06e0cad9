// The text side of a model file: its tokenizer, chat template and sampling defaults.
#pragma once

#include <memory>
#include <optional>

#include "engine/constraint_compiler.h"
#include "engine/engine.h"
#include "format/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace strata::engine {

class ModelText {
 public:
  // Fails, naming the key, when the vocabulary is missing or unusable. A missing chat template is
  // no failure: render_chat() then is.
  static Result<ModelText> read(const GgufFile& file);

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  bool has_chat_template() const { return template_.has_value(); }
  // Rows of the vocabulary that stand for a token; later ones are padding.
  int valid_tokens() const { return valid_tokens_; }
  const SamplingParams& sampling_defaults() const { return sampling_defaults_; }

  Result<RenderedChat> render_chat(const ChatRequest& request) const;
  // Thread-safe; errors as ConstraintCompiler::compile().
  Result<grammar::Matcher> compile(const ConstraintSpec& constraint) const {
    return constraints_->compile(constraint);
  }

 private:
  ModelText() = default;

  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<ConstraintCompiler> constraints_;
  std::optional<text::ChatTemplate> template_;
  SamplingParams sampling_defaults_;
  int valid_tokens_ = 0;
};

}  // namespace strata::engine
