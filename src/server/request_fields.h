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
  bool include_progress = false;  // streaming: tell how much of the prompt has been read
  bool ignore_eos = false;
  int choices = 1;  // answers to the prompt
};

// Part of a prompt: text still to be tokenized, or ready token ids.
using PromptPart = std::variant<std::string, std::vector<TokenId>>;
using Prompt = std::vector<PromptPart>;

// Fails unless `body` is an object.
Status check_body(const Json& body);

// temperature, top_k, top_p, min_p, typical_p, repetition_penalty (or repeat_penalty),
// presence_penalty, frequency_penalty, penalty_last_n (or repeat_last_n), seed, logit_bias,
// ignore_eos, stop, stream, stream_options.include_usage, return_progress. As other servers have it, a top_k below 0
// means "off" and a seed of -1 means "random". Everything but the token limit and logprobs.
void read_generation_fields(FieldReader& reader, const ModelFacts& facts, GenerationFields& out);

// Stop strings: one, or an array of them.
void read_stop(FieldReader& reader, std::string_view name, std::vector<std::string>& out);

// The first of `names` that is present, as a token limit: >= 0, or -1 for none.
std::optional<int> read_token_limit(FieldReader& reader, std::initializer_list<const char*> names);

// A string, an array of one string, an array of ids, an array of one array of ids, or text and ids
// side by side (llama-server's mixed prompt). Fails when the field is absent or empty.
Prompt read_prompt(FieldReader& reader, std::string_view name, const ModelFacts& facts);

// A string, an array of strings, an array of ids or an array of arrays of ids: one prompt or many.
// Fails when the field is absent or a prompt is empty.
std::vector<Prompt> read_prompts(FieldReader& reader, std::string_view name,
                                 const ModelFacts& facts);

// An array of token ids within the vocabulary.
std::vector<TokenId> read_token_ids(FieldReader& reader, std::string_view name,
                                    const ModelFacts& facts);

// n: how many answers, 1 to kMaxChoices.
int read_choices(FieldReader& reader);
inline constexpr int kMaxChoices = 128;
// Answers of one request: its prompts times n.
inline constexpr size_t kMaxAnswers = 1024;

// Refuses, by name, what would change the answer but is not supported here.
void refuse_unsupported(FieldReader& reader);
// Refuses tools, where no template could show them.
void refuse_tools(FieldReader& reader);

}  // namespace strata::server
