#include "engine/model_text.h"

#include <algorithm>
#include <ctime>

#include "engine/sampler.h"
#include "engine/sampling_defaults.h"

namespace strata::engine {

namespace {

// Values a model file may carry for sampling; absent keys stay absent.
Result<SamplingParams> read_sampling(const GgufFile& file) {
  SamplingParams p;
  STRATA_ASSIGN_OR_RETURN(p.temperature, file.find<float>("general.sampling.temp"));
  STRATA_ASSIGN_OR_RETURN(p.top_k, file.find<int32_t>("general.sampling.top_k"));
  STRATA_ASSIGN_OR_RETURN(p.top_p, file.find<float>("general.sampling.top_p"));
  STRATA_ASSIGN_OR_RETURN(p.min_p, file.find<float>("general.sampling.min_p"));
  STRATA_ASSIGN_OR_RETURN(p.repetition_penalty,
                          file.find<float>("general.sampling.penalty_repeat"));
  STRATA_ASSIGN_OR_RETURN(p.penalty_last_n,
                          file.find<int32_t>("general.sampling.penalty_last_n"));
  return p;
}

Result<text::TokenizerSpec> read_vocabulary(const GgufFile& file) {
  STRATA_ASSIGN_OR_RETURN(const auto model, file.require<std::string_view>("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return failed_precondition(
        "{}: tokenizer.ggml.model is '{}'; only byte-level BPE ('gpt2') is supported", file.path(),
        model);
  }
  text::TokenizerSpec spec;
  STRATA_ASSIGN_OR_RETURN(spec.pre, file.require<std::string_view>("tokenizer.ggml.pre"));
  STRATA_ASSIGN_OR_RETURN(const auto tokens, file.require<std::span<const std::string_view>>(
                                                 "tokenizer.ggml.tokens"));
  spec.tokens.assign(tokens.begin(), tokens.end());
  STRATA_ASSIGN_OR_RETURN(spec.types,
                          file.require<std::vector<int32_t>>("tokenizer.ggml.token_type"));
  STRATA_ASSIGN_OR_RETURN(const auto merges, file.require<std::span<const std::string_view>>(
                                                 "tokenizer.ggml.merges"));
  spec.merges.assign(merges.begin(), merges.end());
  STRATA_ASSIGN_OR_RETURN(spec.bos, file.find<int32_t>("tokenizer.ggml.bos_token_id"));
  STRATA_ASSIGN_OR_RETURN(spec.eos, file.find<int32_t>("tokenizer.ggml.eos_token_id"));
  STRATA_ASSIGN_OR_RETURN(spec.pad, file.find<int32_t>("tokenizer.ggml.padding_token_id"));
  return spec;
}

// The clock on the wall, which templates print as a date.
std::chrono::sys_seconds local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return std::chrono::sys_seconds(std::chrono::seconds(timegm(&local)));
}

// Ends a rendered chat behind the text of its last message.
Status cut_behind_last_text(const nlohmann::ordered_json& messages, text::RenderedPrompt& prompt) {
  constexpr const char* kBlanks = " \t\r\n";
  std::string wanted;
  const auto content = messages.back().find("content");
  if (content != messages.back().end() && content->is_string()) {
    wanted = content->get<std::string>();
  } else if (content != messages.back().end() && content->is_array()) {
    for (const auto& part : *content) wanted += part.value("text", "");
  }
  wanted.erase(wanted.find_last_not_of(kBlanks) + 1);
  const auto last = std::find_if(prompt.pieces.rbegin(), prompt.pieces.rend(),
                                 [](const jinja::Piece& piece) { return !piece.from_template; });
  size_t end = 0;
  if (last != prompt.pieces.rend()) end = last->text.find_last_not_of(kBlanks) + 1;
  const size_t start = std::min(wanted.find_first_not_of(kBlanks), wanted.size());
  const std::string_view core = std::string_view(wanted).substr(start);
  if (core.empty() || end == 0 || !std::string_view(last->text).substr(0, end).ends_with(core)) {
    return Status(StatusCode::kInvalidArgument,
                  "the last message cannot be continued: the chat template does not write its text "
                  "at the end of the turn; give it text and no tool calls",
                  "messages");
  }
  last->text.resize(end);
  prompt.pieces.erase(last.base(), prompt.pieces.end());
  prompt.text.clear();
  for (const auto& piece : prompt.pieces) prompt.text += piece.text;
  return {};
}

}  // namespace

Result<ModelText> ModelText::read(const GgufFile& file) {
  ModelText out;
  STRATA_ASSIGN_OR_RETURN(const text::TokenizerSpec spec, read_vocabulary(file));
  auto tokenizer = text::Tokenizer::create(spec);
  if (!tokenizer.ok()) return tokenizer.status().with_context(file.path());
  out.tokenizer_ = std::make_unique<text::Tokenizer>(std::move(*tokenizer));
  out.constraints_ = std::make_unique<ConstraintCompiler>(*out.tokenizer_);
  for (TokenId id = 0; id < out.tokenizer_->vocab_size(); ++id) {
    if (!out.tokenizer_->token_bytes(id).empty()) out.valid_tokens_ = id + 1;
  }
  STRATA_ASSIGN_OR_RETURN(const auto source,
                          file.find<std::string_view>("tokenizer.chat_template"));
  if (source) {
    const auto text_of = [&](std::optional<TokenId> id) {
      return id ? std::string(out.tokenizer_->token_bytes(*id)) : std::string();
    };
    auto chat = text::ChatTemplate::create(std::string(*source), text_of(out.tokenizer_->bos()),
                                           text_of(out.tokenizer_->eos()));
    if (!chat.ok()) return chat.status().with_context(file.path());
    out.template_ = std::move(*chat);
  }
  STRATA_ASSIGN_OR_RETURN(const SamplingParams from_file, read_sampling(file));
  out.sampling_defaults_ = with_defaults(from_file, model_defaults());
  SamplingParams checked = out.sampling_defaults_;
  checked.seed = 0;
  const auto usable = resolve(checked, {}, out.tokenizer_->vocab_size());
  if (!usable.ok()) {
    return failed_precondition("{}: the general.sampling keys are unusable: {}", file.path(),
                               usable.status().message());
  }
  return out;
}

Result<RenderedChat> ModelText::render_chat(const ChatRequest& request) const {
  if (!template_) {
    return failed_precondition(
        "this model file has no chat template; use /v1/completions with a prompt of your own");
  }
  const bool opens_turn = request.add_generation_prompt && !request.continue_final;
  STRATA_ASSIGN_OR_RETURN(text::RenderedPrompt rendered,
                          template_->render({.messages = request.messages,
                                             .tools = request.tools,
                                             .kwargs = request.template_kwargs,
                                             .add_generation_prompt = opens_turn,
                                             .now = local_time()}));
  if (request.continue_final) {
    STRATA_RETURN_IF_ERROR(cut_behind_last_text(request.messages, rendered));
  }
  std::vector<text::Span> spans;
  spans.reserve(rendered.pieces.size());
  for (const auto& piece : rendered.pieces) spans.push_back({piece.text, piece.from_template});
  RenderedChat out;
  STRATA_ASSIGN_OR_RETURN(out.tokens, tokenizer_->encode_spans(spans));
  out.starts_in_reasoning = opens_turn && text::starts_in_reasoning(rendered);
  out.text = std::move(rendered.text);
  return out;
}

}  // namespace strata::engine
