#include "server/llama_compat.h"

#include <algorithm>

#include "server/errors.h"
#include "server/openai_response.h"
#include "server/output_format.h"

namespace strata::server {
namespace {

constexpr int kMaxProbs = 20;  // the engine offers no more

Json prob(const engine::TopLogprob& one) {
  Json out = Json::object();
  out["id"] = one.token;
  out["token"] = valid_utf8(one.bytes);
  out["bytes"] = byte_array(one.bytes);
  out["logprob"] = one.logprob;
  return out;
}

Json probabilities(const std::vector<engine::TokenLogprob>& tokens) {
  Json out = Json::array();
  for (const auto& token : tokens) {
    Json entry = prob(token);
    Json top = Json::array();
    for (const auto& other : token.top) top.push_back(prob(other));
    entry["top_logprobs"] = std::move(top);
    out.push_back(std::move(entry));
  }
  return out;
}

// What `fields` name of an answer, under those names; what is not there is left out.
Json selected(Json answer, const std::vector<std::string>& fields) {
  if (fields.empty()) return answer;
  Json out = Json::object();
  for (const std::string& field : fields) {
    const Json* at = &answer;
    for (size_t begin = 0; at != nullptr && begin <= field.size();) {
      const size_t end = std::min(field.find('/', begin), field.size());
      const auto found = at->is_object() ? at->find(field.substr(begin, end - begin)) : at->end();
      at = found == at->end() ? nullptr : &*found;
      begin = end + 1;
    }
    if (at != nullptr) out[field] = *at;
  }
  return out;
}

class LlamaAnswer final : public Answer {
 public:
  LlamaAnswer(AnswerInfo info, const LlamaAnswerOptions& options)
      : info_(std::move(info)), options_(options) {}

  std::string begin() override { return {}; }

  std::string progress(int, const engine::PromptProgress& progress) override {
    if (!options_.stream) return {};
    Json out = Json::object();
    out["index"] = 0;
    out["content"] = "";
    out["stop"] = false;
    out["prompt_progress"] = progress_object(progress, start_);
    return sse_event(out);
  }

  std::string delta(int, const engine::TextDelta& delta) override {
    if (!options_.stream) {
      content_ += delta.text;
      if (options_.return_tokens) {
        tokens_.insert(tokens_.end(), delta.tokens.begin(), delta.tokens.end());
      }
      logprobs_.insert(logprobs_.end(), delta.logprobs.begin(), delta.logprobs.end());
      return {};
    }
    predicted_ += static_cast<int>(delta.tokens.size());
    if (delta.text.empty() && delta.logprobs.empty()) return {};
    Json out = Json::object();
    out["index"] = 0;
    out["content"] = delta.text;
    if (options_.return_tokens) out["tokens"] = delta.tokens;
    out["stop"] = false;
    out["tokens_predicted"] = predicted_;
    if (options_.logprobs) out["completion_probabilities"] = probabilities(delta.logprobs);
    return sse_event(out);
  }

  std::string finish(int, const engine::Finished& finished) override {
    final_ = final_object(finished);
    return options_.stream ? sse_event(selected(final_, options_.response_fields)) : std::string();
  }

  Json whole() override {
    if (options_.logprobs) final_["completion_probabilities"] = probabilities(logprobs_);
    return selected(std::move(final_), options_.response_fields);
  }

  std::string fail(const Status& status) override { return sse_event(error_object(status)); }

 private:
  Json final_object(const engine::Finished& finished) {
    const char* type = finished.reason == engine::FinishReason::kLength ? "limit"
                       : finished.reason != engine::FinishReason::kStop ? "none"
                       : finished.stop_string.empty()                   ? "eos"
                                                                        : "word";
    Json out = Json::object();
    out["index"] = 0;
    out["content"] = std::move(content_);
    if (options_.return_tokens) out["tokens"] = tokens_;
    out["stop"] = true;
    out["stop_type"] = type;
    out["stopping_word"] = finished.stop_string;
    out["model"] = info_.model;
    out["tokens_predicted"] = finished.usage.completion_tokens;
    out["tokens_evaluated"] = finished.usage.prompt_tokens;
    out["tokens_cached"] = finished.usage.cached_tokens;
    out["truncated"] = false;
    out["prompt"] = options_.prompt;
    out["generation_settings"] = options_.settings;
    out["timings"] = timings_object(finished.usage);
    return out;
  }

  AnswerInfo info_;
  LlamaAnswerOptions options_;
  int predicted_ = 0;
  std::string content_;
  std::vector<TokenId> tokens_;
  std::vector<engine::TokenLogprob> logprobs_;
  Json final_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Json generation_settings(const GenerationFields& fields, const engine::ModelInfo& info) {
  const engine::SamplingParams &asked = fields.sampling, &model = info.sampling_defaults;
  const auto value = [&](auto member, auto neutral) {
    return (asked.*member).value_or((model.*member).value_or(neutral));
  };
  using Params = engine::SamplingParams;
  Json out = Json::object();
  out["n_predict"] = fields.max_tokens.value_or(-1);
  out["seed"] = asked.seed ? Json(*asked.seed) : Json(-1);
  out["temperature"] = value(&Params::temperature, 1.0f);
  out["top_k"] = value(&Params::top_k, 0);
  out["top_p"] = value(&Params::top_p, 1.0f);
  out["min_p"] = value(&Params::min_p, 0.0f);
  out["typical_p"] = value(&Params::typical_p, 1.0f);
  out["repeat_penalty"] = value(&Params::repetition_penalty, 1.0f);
  out["repeat_last_n"] = value(&Params::penalty_last_n, -1);
  out["presence_penalty"] = value(&Params::presence_penalty, 0.0f);
  out["frequency_penalty"] = value(&Params::frequency_penalty, 0.0f);
  out["stop"] = fields.stop;
  out["max_tokens"] = fields.max_tokens.value_or(-1);
  out["ignore_eos"] = fields.ignore_eos;
  out["stream"] = fields.stream;
  out["n_probs"] = asked.top_logprobs.value_or(0);
  return out;
}

Result<LlamaCompletionRequest> parse_llama_completion(const Json& body, const ModelFacts& facts) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  LlamaCompletionRequest out;
  FieldReader reader(body);
  out.prompt = read_prompt(reader, "prompt", facts);
  refuse_unsupported(reader);
  refuse_tools(reader);
  read_generation_fields(reader, facts, out.fields);
  out.constraint = read_output_format(reader);
  out.fields.max_tokens = read_token_limit(reader, {"n_predict", "max_tokens"});
  if (const auto probs = reader.integer("n_probs", 0, kMaxProbs); probs && *probs > 0) {
    out.fields.sampling.top_logprobs = static_cast<int>(*probs);
  }
  for (const char* name : {"n", "n_cmpl"}) {
    if (const auto n = reader.integer(name, 0, kMaxChoices); n && *n > 1) {
      reader.fail(name, "several answers are made by /v1/completions; leave the field out");
    }
  }
  out.return_tokens = reader.boolean("return_tokens").value_or(false);
  if (const Json* wanted = reader.array("response_fields")) {
    for (const Json& name : *wanted) {
      if (!name.is_string()) {
        reader.fail("response_fields", "expected names of fields");
        break;
      }
      out.response_fields.push_back(name.get<std::string>());
    }
  }
  reader.boolean("cache_prompt");
  const bool special = reader.boolean("special").value_or(false);
  out.emit_special = reader.boolean("emit_special").value_or(special);
  if (const Json* images = reader.array("image_data"); images != nullptr && !images->empty()) {
    reader.fail("image_data", "images are not supported by this version");
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

std::unique_ptr<Answer> make_llama_answer(AnswerInfo info, const LlamaAnswerOptions& options) {
  return std::make_unique<LlamaAnswer>(std::move(info), options);
}

Result<TokenizeRequest> parse_tokenize(const Json& body, const ModelFacts& facts) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  TokenizeRequest out;
  FieldReader reader(body);
  const Json* content = reader.any("content");
  if (content == nullptr) {
    reader.fail("content", "this field is required: the text to tokenize");
  } else if (!content->is_array()) {
    if (auto text = reader.string("content")) out.content = {*std::move(text)};
  } else if (!content->empty()) {
    out.content = read_prompt(reader, "content", facts);
  }
  reader.boolean("add_special");
  out.parse_special = reader.boolean("parse_special").value_or(true);
  out.with_pieces = reader.boolean("with_pieces").value_or(false);
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

Json tokenize_answer(const std::vector<TokenId>& tokens, const std::vector<std::string>& pieces) {
  Json list = Json::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (pieces.empty()) {
      list.push_back(tokens[i]);
      continue;
    }
    Json entry = Json::object();
    entry["id"] = tokens[i];
    entry["piece"] = is_valid_utf8(pieces[i]) ? Json(pieces[i]) : byte_array(pieces[i]);
    list.push_back(std::move(entry));
  }
  return Json{{"tokens", std::move(list)}};
}

Result<std::vector<TokenId>> parse_detokenize(const Json& body, const ModelFacts& facts) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  FieldReader reader(body);
  std::vector<TokenId> tokens = read_token_ids(reader, "tokens", facts);
  STRATA_RETURN_IF_ERROR(reader.status());
  return tokens;
}

}  // namespace strata::server
