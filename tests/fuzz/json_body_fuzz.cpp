// Feeds request bodies to every parser behind the POST endpoints. Beyond not crashing: what is
// refused is refused with a message that can be written as JSON, and what is accepted obeys the
// contract of the engine.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/anthropic_request.h"
#include "server/errors.h"
#include "server/llama_compat.h"
#include "server/openai_request.h"
#include "server/responses_request.h"

namespace {

using namespace strata;
using namespace strata::server;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_refusal(const Status& status) {
  require(!status.message().empty());
  const Response response = error_response(status);
  require(response.status >= 400 && is_valid_utf8(response.body));
  require(parse_json(response.body).ok());
}

void check_fields(const GenerationFields& f, const ModelFacts& facts) {
  const engine::SamplingParams& s = f.sampling;
  require(!s.temperature || *s.temperature >= 0);
  require(!s.top_k || *s.top_k >= 0);
  require(!s.top_p || (*s.top_p >= 0 && *s.top_p <= 1));
  require(!s.min_p || (*s.min_p >= 0 && *s.min_p <= 1));
  require(!f.max_tokens || *f.max_tokens >= 0);
  require(f.stop.size() <= 16);
  for (const auto& stop : f.stop) require(!stop.empty());
  for (const auto& [id, bias] : s.logit_bias)
    require(id >= 0 && id < facts.vocabulary && bias <= 100);
}

void check_prompt(const Prompt& prompt, const ModelFacts& facts) {
  require(!prompt.empty());
  for (const auto& part : prompt) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) {
      for (const TokenId id : *ids) require(id >= 0 && id < facts.vocabulary);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto body = parse_json(text);
  if (!body.ok()) {
    check_refusal(body.status());
    return 0;
  }
  require(parse_json(to_text(*body)).ok());
  const ModelFacts facts{1000};
  if (const auto chat = parse_chat_completion(*body, facts); chat.ok()) {
    require(chat->chat.messages.is_array() && !chat->chat.messages.empty());
    check_fields(chat->fields, facts);
  } else {
    check_refusal(chat.status());
  }
  if (const auto completion = parse_completion(*body, facts); completion.ok()) {
    check_fields(completion->fields, facts);
    for (const Prompt& prompt : completion->prompts) check_prompt(prompt, facts);
    require(completion->prompts.size() * static_cast<size_t>(completion->fields.choices) <=
            kMaxAnswers);
  } else {
    check_refusal(completion.status());
  }
  if (const auto llama = parse_llama_completion(*body, facts); llama.ok()) {
    check_fields(llama->fields, facts);
    check_prompt(llama->prompt, facts);
  } else {
    check_refusal(llama.status());
  }
  if (const auto messages = parse_messages(*body, facts, true); messages.ok()) {
    check_fields(messages->job.fields, facts);
    require(messages->job.fields.max_tokens.has_value());
  } else {
    check_refusal(messages.status());
  }
  ResponseStore store(4, 1 << 16);
  store.put("resp_1", {Json::object(), Json::array(),
                       Json::array({Json{{"role", "user"}, {"content", "x"}}})});
  if (const auto responses = parse_responses(*body, facts, store); responses.ok()) {
    check_fields(responses->job.fields, facts);
    require(!responses->job.chat.messages.empty());
  } else {
    check_refusal(responses.status());
  }
  if (const auto chat = parse_chat_prompt(*body); !chat.ok()) check_refusal(chat.status());
  if (const auto tokenize = parse_tokenize(*body, facts); !tokenize.ok()) check_refusal(tokenize.status());
  if (const auto ids = parse_detokenize(*body, facts); !ids.ok()) check_refusal(ids.status());
  return 0;
}
