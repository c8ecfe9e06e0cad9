// llama-server's own endpoints: /completion, /tokenize, /detokenize.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/request_fields.h"

namespace strata::server {

struct LlamaCompletionRequest {
  Prompt prompt;
  GenerationFields fields;
  std::optional<engine::ConstraintSpec> constraint;
  bool emit_special = false;   // control tokens appear in the content ("special" or "emit_special")
  bool return_tokens = false;  // answer with the ids of the content
  // Parts of the answer that are wanted, "generation_settings/seed" for a part of a part.
  std::vector<std::string> response_fields;
};

// POST /completion. Accepts n_predict (or max_tokens), n_probs and the shared fields.
Result<LlamaCompletionRequest> parse_llama_completion(const Json& body, const ModelFacts& facts);

struct LlamaAnswerOptions {
  bool stream = false;
  bool return_tokens = false;
  bool logprobs = false;
  std::string prompt;  // as text
  Json settings;       // generation_settings()
  std::vector<std::string> response_fields;  // of the last object; empty: all
};

// How an answer is generated, by llama-server's names: what `fields` say, else what the model does.
Json generation_settings(const GenerationFields& fields, const engine::ModelInfo& info);

std::unique_ptr<Answer> make_llama_answer(AnswerInfo info, const LlamaAnswerOptions& options);

struct TokenizeRequest {
  Prompt content;  // may be empty
  bool parse_special = true;
  bool with_pieces = false;
};

// POST /tokenize. "add_special" is accepted and changes nothing: the model has no begin token.
Result<TokenizeRequest> parse_tokenize(const Json& body, const ModelFacts& facts);
// {"tokens": [ids]} or, with `pieces`, {"tokens": [{"id", "piece"}]}; a piece that is not UTF-8 is
// an array of bytes. `pieces` is empty or as long as `tokens`.
Json tokenize_answer(const std::vector<TokenId>& tokens, const std::vector<std::string>& pieces);

// POST /detokenize
Result<std::vector<TokenId>> parse_detokenize(const Json& body, const ModelFacts& facts);

}  // namespace strata::server
