#include "server/request_fields.h"

#include <charconv>
#include <limits>

namespace strata::server {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr size_t kMaxStops = 1024;
constexpr size_t kMaxStopBytes = 4096;
constexpr double kMaxBias = 100.0;

std::optional<float> as_float(std::optional<double> value) {
  return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

std::optional<TokenId> token_id(const Json& value, const ModelFacts& facts) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned()) {
    const auto id = value.get<uint64_t>();
    if (id < static_cast<uint64_t>(facts.vocabulary)) return static_cast<TokenId>(id);
  }
  return std::nullopt;
}

Status bad_token(std::string path, const Json& value, const ModelFacts& facts) {
  if (value.is_number_integer()) {
    return field_error(std::move(path),
                       fmt::format("{} is no token id of this model; ids are 0 to {}",
                                   to_text(value), facts.vocabulary - 1));
  }
  return field_error(std::move(path),
                     fmt::format("expected a token id, got {}", json_type_name(value)));
}

void read_bias(FieldReader& reader, const ModelFacts& facts, engine::SamplingParams& out) {
  const Json* field = reader.any("logit_bias");
  if (field == nullptr) return;
  const auto add = [&](const std::string& path, const Json& id_value, const Json& bias) {
    const auto id = token_id(id_value, facts);
    if (!id) return reader.set_status(bad_token(path, id_value, facts));
    if (bias.is_boolean() && !bias.get<bool>()) {
      out.logit_bias.emplace_back(*id, -std::numeric_limits<float>::infinity());
      return;
    }
    if (!bias.is_number()) {
      return reader.set_status(field_error(
          path, fmt::format("expected a number or false, got {}", json_type_name(bias))));
    }
    const double b = bias.get<double>();
    if (!(b >= -kMaxBias && b <= kMaxBias)) {
      return reader.set_status(field_error(
          path, fmt::format("{} is out of range; a bias is from -100 to 100", to_text(bias))));
    }
    out.logit_bias.emplace_back(*id, static_cast<float>(b));
  };
  if (field->is_object()) {
    for (const auto& [key, bias] : field->items()) {
      uint64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      const std::string path = fmt::format("logit_bias.{}", valid_utf8(key.substr(0, 32)));
      if (error != std::errc() || end != key.data() + key.size()) {
        return reader.set_status(field_error(path, "the keys of logit_bias are token ids"));
      }
      add(path, Json(id), bias);
    }
  } else if (field->is_array()) {
    for (size_t i = 0; i < field->size(); ++i) {
      const Json& pair = (*field)[i];
      const std::string path = fmt::format("logit_bias[{}]", i);
      if (!pair.is_array() || pair.size() != 2) {
        return reader.set_status(field_error(path, "expected a pair [token id, bias]"));
      }
      add(path, pair[0], pair[1]);
    }
  } else {
    reader.fail("logit_bias", fmt::format("expected an object of token id to bias, got {}",
                                          json_type_name(*field)));
  }
}

bool all_ids(const Json& array) {
  for (const Json& item : array) {
    if (!item.is_number()) return false;
  }
  return true;
}

std::vector<TokenId> ids_of(FieldReader& reader, const std::string& path, const Json& array,
                            const ModelFacts& facts) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const auto id = token_id(array[i], facts);
    if (!id) {
      reader.set_status(bad_token(fmt::format("{}[{}]", path, i), array[i], facts));
      return {};
    }
    ids.push_back(*id);
  }
  return ids;
}

// The field of a prompt, or nullptr after a failure.
const Json* prompt_field(FieldReader& reader, std::string_view name) {
  const Json* field = reader.any(name);
  if (!reader.ok()) return nullptr;
  if (field == nullptr) {
    reader.fail(name, "this field is required: a string or an array of token ids");
  }
  return field;
}

// One prompt: a string or an array of ids, not empty.
Prompt one_prompt(FieldReader& reader, const std::string& path, const Json& value,
                  const ModelFacts& facts) {
  if (!value.is_string() && !value.is_array()) {
    reader.set_status(field_error(
        path, fmt::format("expected a string or an array, got {}", json_type_name(value))));
    return {};
  }
  const bool empty =
      value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
  if (empty) {
    reader.set_status(field_error(path, "the prompt is empty"));
    return {};
  }
  if (value.is_string()) return {value.get<std::string>()};
  return {ids_of(reader, path, value, facts)};
}

void refuse(FieldReader& reader, std::string_view name, std::string_view what) {
  reader.fail(name, fmt::format("{} not supported by this version; leave the field out", what));
}

}  // namespace

Status check_body(const Json& body) {
  if (body.is_object()) return {};
  return invalid_argument("The request body must be a JSON object, not {}.", json_type_name(body));
}

void read_stop(FieldReader& reader, std::string_view name, std::vector<std::string>& out) {
  const Json* field = reader.any(name);
  if (field == nullptr) return;
  const auto add = [&](const std::string& path, const Json& value) {
    if (!value.is_string()) {
      return reader.set_status(
          field_error(path, fmt::format("expected a string, got {}", json_type_name(value))));
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty()) return;
    if (text.size() > kMaxStopBytes) {
      return reader.set_status(
          field_error(path, fmt::format("a stop string may have at most {} bytes", kMaxStopBytes)));
    }
    out.push_back(text);
  };
  if (field->is_string()) return add(reader.path_of(name), *field);
  if (!field->is_array()) {
    return reader.fail(name, fmt::format("expected a string or an array of strings, got {}",
                                           json_type_name(*field)));
  }
  if (field->size() > kMaxStops) {
    return reader.fail(name, fmt::format("at most {} stop strings are allowed, got {}", kMaxStops,
                                           field->size()));
  }
  for (size_t i = 0; i < field->size(); ++i) add(fmt::format("{}[{}]", reader.path_of(name), i), (*field)[i]);
}

void read_generation_fields(FieldReader& reader, const ModelFacts& facts, GenerationFields& out) {
  engine::SamplingParams& s = out.sampling;
  s.temperature = as_float(reader.number("temperature", {0, 100}));
  if (const auto k = reader.integer("top_k", -kMaxInt, kMaxInt)) {
    s.top_k = static_cast<int>(std::max<int64_t>(*k, 0));
  }
  s.top_p = as_float(reader.number("top_p", {0, 1}));
  s.min_p = as_float(reader.number("min_p", {0, 1}));
  // The ends of the ranges leave the best token alone.
  if ((s.top_p && *s.top_p == 0.0f) || (s.min_p && *s.min_p == 1.0f)) {
    s.top_k = 1;
    if (s.top_p == 0.0f) s.top_p = 1.0f;
    if (s.min_p == 1.0f) s.min_p = 0.0f;
  }
  s.typical_p = as_float(reader.number("typical_p", {0, 1, true, false}));
  s.repetition_penalty = as_float(reader.number("repeat_penalty", {0, 100, true, false}));
  if (const auto r = reader.number("repetition_penalty", {0, 100, true, false})) {
    s.repetition_penalty = as_float(r);
  }
  s.presence_penalty = as_float(reader.number("presence_penalty", {-2, 2}));
  s.frequency_penalty = as_float(reader.number("frequency_penalty", {-2, 2}));
  for (const char* name : {"repeat_last_n", "penalty_last_n"}) {
    if (const auto n = reader.integer(name, -1, kMaxInt)) s.penalty_last_n = static_cast<int>(*n);
  }
  // Seeds above 2^63 - 1 are whole numbers too, so they are not read as int64.
  if (const Json* seed = reader.any("seed")) {
    if (seed->is_number_unsigned()) {
      s.seed = seed->get<uint64_t>();
    } else if (const auto value = reader.integer("seed", INT64_MIN, INT64_MAX);
               value && *value != -1) {
      s.seed = static_cast<uint64_t>(*value);
    }
  }
  read_bias(reader, facts, s);
  read_stop(reader, "stop", out.stop);
  out.ignore_eos = reader.boolean("ignore_eos").value_or(false);
  out.stream = reader.boolean("stream").value_or(false);
  if (const Json* options = reader.object("stream_options")) {
    FieldReader inner(*options, "stream_options");
    out.include_usage = inner.boolean("include_usage").value_or(false);
    reader.set_status(inner.status());
  }
  out.include_progress = reader.boolean("return_progress").value_or(false);
}

std::optional<int> read_token_limit(FieldReader& reader, std::initializer_list<const char*> names) {
  std::optional<int> first;
  bool found = false;
  for (const char* name : names) {
    const auto value = reader.integer(name, -1, kMaxInt);
    if (!value || found) continue;
    found = true;
    if (*value >= 0) first = static_cast<int>(*value);
  }
  return first;
}

std::vector<TokenId> read_token_ids(FieldReader& reader, std::string_view name,
                                    const ModelFacts& facts) {
  const Json* array = reader.array(name);
  if (array == nullptr) {
    reader.fail(name, "this field is required: an array of token ids");
    return {};
  }
  return ids_of(reader, reader.path_of(name), *array, facts);
}

Prompt read_prompt(FieldReader& reader, std::string_view name, const ModelFacts& facts) {
  const Json* field = prompt_field(reader, name);
  if (field == nullptr) return {};
  const std::string path = reader.path_of(name);
  const bool wrapped = field->is_array() && field->size() == 1 && !field->front().is_number();
  if (wrapped) return one_prompt(reader, path + "[0]", field->front(), facts);
  if (!field->is_array() || field->empty() || all_ids(*field)) {
    return one_prompt(reader, path, *field, facts);
  }
  const auto is_text = [](const Json& v) { return v.is_string(); };
  if (field->front().is_array() || std::all_of(field->begin(), field->end(), is_text)) {
    reader.fail(name, fmt::format("one prompt per request, got {}", field->size()));
    return {};
  }
  Prompt parts;
  for (size_t i = 0; i < field->size(); ++i) {
    const Json& item = (*field)[i];
    if (item.is_string()) {
      parts.emplace_back(item.get<std::string>());
    } else if (const auto id = token_id(item, facts)) {
      if (parts.empty() || !std::holds_alternative<std::vector<TokenId>>(parts.back())) {
        parts.emplace_back(std::vector<TokenId>());
      }
      std::get<std::vector<TokenId>>(parts.back()).push_back(*id);
    } else {
      reader.set_status(bad_token(fmt::format("{}[{}]", path, i), item, facts));
      return {};
    }
  }
  return parts;
}

std::vector<Prompt> read_prompts(FieldReader& reader, std::string_view name,
                                 const ModelFacts& facts) {
  const Json* field = prompt_field(reader, name);
  if (field == nullptr) return {};
  const std::string path = reader.path_of(name);
  if (!field->is_array() || field->empty() || field->front().is_number()) {
    return {one_prompt(reader, path, *field, facts)};
  }
  if (field->size() > kMaxAnswers) {
    reader.fail(name, fmt::format("at most {} prompts per request, got {}", kMaxAnswers,
                                  field->size()));
    return {};
  }
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < field->size() && reader.ok(); ++i) {
    const Json& item = (*field)[i];
    const std::string item_path = fmt::format("{}[{}]", path, i);
    if (item.type() != field->front().type()) {
      reader.set_status(field_error(
          item_path, fmt::format("expected {}, as the prompt before it, got {}",
                                 json_type_name(field->front()), json_type_name(item))));
      return {};
    }
    prompts.push_back(one_prompt(reader, item_path, item, facts));
  }
  return prompts;
}

int read_choices(FieldReader& reader) {
  return static_cast<int>(reader.integer("n", 1, kMaxChoices).value_or(1));
}

void refuse_tools(FieldReader& reader) {
  if (const Json* list = reader.array("tools"); list != nullptr && !list->empty()) {
    refuse(reader, "tools", "tools without a chat are");
  }
}

void refuse_unsupported(FieldReader& reader) {
  if (const Json* list = reader.array("functions"); list != nullptr && !list->empty()) {
    reader.fail("functions", "this old form is not supported; use tools");
  }
  if (const Json* call = reader.any("function_call");
      call != nullptr && *call != "none" && *call != "auto") {
    reader.fail("function_call", "this old form is not supported; use tool_choice");
  }
  if (const Json* modalities = reader.array("modalities")) {
    for (const Json& one : *modalities) {
      if (one != "text") refuse(reader, "modalities", "output other than text is");
    }
  }
  if (reader.any("audio") != nullptr) refuse(reader, "audio", "audio is");
  if (reader.any("web_search_options") != nullptr) {
    refuse(reader, "web_search_options", "web search is");
  }
  // Samplers and limits of other servers that would be missed in the answer. Their "off" is fine.
  for (const char* name : {"mirostat", "mirostat_mode", "dry_multiplier", "xtc_probability",
                           "dynatemp_range", "min_tokens", "adaptive_target", "top_a",
                           "t_max_predict_ms"}) {
    const Json* value = reader.any(name);
    if (value != nullptr && (!value->is_number() || value->get<double>() > 0)) {
      refuse(reader, name, "this is");
    }
  }
  if (const Json* value = reader.any("top_n_sigma");
      value != nullptr && (!value->is_number() || value->get<double>() > 0)) {
    refuse(reader, "top_n_sigma", "this sampler is");
  }
  // 1 is their "off".
  for (const char* name : {"length_penalty", "tfs_z"}) {
    const Json* value = reader.any(name);
    if (value != nullptr && (!value->is_number() || value->get<double>() != 1.0)) {
      refuse(reader, name, "this is");
    }
  }
  if (!reader.boolean("skip_special_tokens").value_or(true)) {
    refuse(reader, "skip_special_tokens", "control tokens in the answer are");
  }
  for (const char* name : {"use_beam_search", "include_stop_str_in_output", "return_token_ids",
                           "return_tokens_as_token_ids", "post_sampling_probs"}) {
    if (reader.boolean(name).value_or(false)) refuse(reader, name, "this is");
  }
  for (const char* name :
       {"stop_token_ids", "bad_words", "allowed_token_ids", "samplers", "logits_processors",
        "documents", "lora"}) {
    const Json* value = reader.any(name);
    if (value != nullptr && !value->empty() && *value != "") refuse(reader, name, "this is");
  }
  for (const char* name : {"chat_template", "truncate_prompt_tokens", "prompt_embeds"}) {
    if (const Json* value = reader.any(name); value != nullptr && *value != "") {
      refuse(reader, name, "this is");
    }
  }
  if (reader.any("prompt_logprobs") != nullptr) {
    refuse(reader, "prompt_logprobs", "log-probabilities of the prompt are");
  }
}

}  // namespace strata::server
