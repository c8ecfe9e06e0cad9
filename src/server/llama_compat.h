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
};

// POST /completion. Accepts n_predict (or max_tokens), n_probs and the shared fields.
Result<LlamaCompletionRequest> parse_llama_completion(const Json& body, const ModelFacts& facts);

struct LlamaAnswerOptions {
  bool stream = false;
  bool return_tokens = false;
  bool logprobs = false;
};

std::unique_ptr<Answer> make_llama_answer(AnswerInfo info, const LlamaAnswerOptions& options);

struct TokenizeRequest {
  std::string content;
  bool parse_special = true;
  bool with_pieces = false;
};

// POST /tokenize. "add_special" is accepted and changes nothing: the model has no begin token.
Result<TokenizeRequest> parse_tokenize(const Json& body);
// {"tokens": [ids]} or, with `pieces`, {"tokens": [{"id", "piece"}]}; a piece that is not UTF-8 is
// an array of bytes. `pieces` is empty or as long as `tokens`.
Json tokenize_answer(const std::vector<TokenId>& tokens, const std::vector<std::string>& pieces);

// POST /detokenize
Result<std::vector<TokenId>> parse_detokenize(const Json& body, const ModelFacts& facts);

}  // namespace strata::server
