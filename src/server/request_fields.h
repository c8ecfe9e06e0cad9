// The request fields that every generation endpoint shares.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/sampling_params.h"
#include "server/json_input.h"

namespace strata::server {

// What field checks need to know about the model.
struct ModelFacts {
  int vocabulary = 0;  // ids are in [0, vocabulary)
};

struct GenerationFields {
  engine::SamplingParams sampling;
  std::vector<std::string> stop;
  std::optional<int> max_tokens;
  bool stream = false;
  bool include_usage = false;
  bool ignore_eos = false;
};

// Part of a prompt: text still to be tokenized, or ready token ids.
using PromptPart = std::variant<std::string, std::vector<TokenId>>;
using Prompt = std::vector<PromptPart>;

// Fails unless `body` is an object.
Status check_body(const Json& body);

// temperature, top_k, top_p, min_p, typical_p, repetition_penalty (or repeat_penalty),
// presence_penalty, frequency_penalty, penalty_last_n (or repeat_last_n), seed, logit_bias,
// ignore_eos, stop, stream, stream_options.include_usage. As other servers have it, a top_k below 0
// means "off" and a seed of -1 means "random". Everything but the token limit and logprobs.
void read_generation_fields(FieldReader& reader, const ModelFacts& facts, GenerationFields& out);

// The first of `names` that is present, as a token limit: >= 0, or -1 for none.
std::optional<int> read_token_limit(FieldReader& reader, std::initializer_list<const char*> names);

// A string, an array of one string, an array of ids or an array of one array of ids. With
// `allow_mixed` an array may also hold text and ids side by side (llama-server's mixed prompt).
// Fails when the field is absent or empty.
Prompt read_prompt(FieldReader& reader, std::string_view name, const ModelFacts& facts,
                   bool allow_mixed);

// An array of token ids within the vocabulary.
std::vector<TokenId> read_token_ids(FieldReader& reader, std::string_view name,
                                    const ModelFacts& facts);

// Refuses, by name, what would change the answer but is not supported: tools, forced formats,
// grammars, several answers per request.
void refuse_unsupported(FieldReader& reader);

}  // namespace strata::server
