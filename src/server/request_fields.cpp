#include "server/request_fields.h"

#include <charconv>
#include <limits>

namespace strata::server {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr size_t kMaxStops = 16;
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

void read_stop(FieldReader& reader, std::vector<std::string>& out) {
  const Json* field = reader.any("stop");
  if (field == nullptr) return;
  const auto add = [&](const std::string& path, const Json& value) {
    if (!value.is_string()) {
      return reader.set_status(
          field_error(path, fmt::format("expected a string, got {}", json_type_name(value))));
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty()) return reader.set_status(field_error(path, "a stop string may not be empty"));
    if (text.size() > kMaxStopBytes) {
      return reader.set_status(
          field_error(path, fmt::format("a stop string may have at most {} bytes", kMaxStopBytes)));
    }
    out.push_back(text);
  };
  if (field->is_string()) return add("stop", *field);
  if (!field->is_array()) {
    return reader.fail("stop", fmt::format("expected a string or an array of strings, got {}",
                                           json_type_name(*field)));
  }
  if (field->size() > kMaxStops) {
    return reader.fail("stop", fmt::format("at most {} stop strings are allowed, got {}", kMaxStops,
                                           field->size()));
  }
  for (size_t i = 0; i < field->size(); ++i) add(fmt::format("stop[{}]", i), (*field)[i]);
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

void refuse(FieldReader& reader, std::string_view name, std::string_view what) {
  reader.fail(name, fmt::format("{} not supported by this version; leave the field out", what));
}

}  // namespace

Status check_body(const Json& body) {
  if (body.is_object()) return {};
  return invalid_argument("The request body must be a JSON object, not {}.", json_type_name(body));
}

void read_generation_fields(FieldReader& reader, const ModelFacts& facts, GenerationFields& out) {
  engine::SamplingParams& s = out.sampling;
  s.temperature = as_float(reader.number("temperature", {0, 100}));
  if (const auto k = reader.integer("top_k", -kMaxInt, kMaxInt)) {
    s.top_k = static_cast<int>(std::max<int64_t>(*k, 0));
  }
  s.top_p = as_float(reader.number("top_p", {0, 1, true, false}));
  s.min_p = as_float(reader.number("min_p", {0, 1, false, true}));
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
  read_stop(reader, out.stop);
  out.ignore_eos = reader.boolean("ignore_eos").value_or(false);
  out.stream = reader.boolean("stream").value_or(false);
  if (const Json* options = reader.object("stream_options")) {
    FieldReader inner(*options, "stream_options");
    out.include_usage = inner.boolean("include_usage").value_or(false);
    reader.set_status(inner.status());
  }
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

Prompt read_prompt(FieldReader& reader, std::string_view name, const ModelFacts& facts,
                   bool allow_mixed) {
  const Json* field = reader.any(name);
  if (!reader.ok()) return {};
  if (field == nullptr) {
    reader.fail(name, "this field is required: a string or an array of token ids");
    return {};
  }
  std::string path = reader.path_of(name);
  if (field->is_array() && !field->empty() && !all_ids(*field)) {
    const bool nested = field->front().is_array();
    const bool mixed = allow_mixed && !nested && field->size() > 1;
    if (mixed) {
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
      const auto is_text = [](const Json& v) { return v.is_string(); };
      if (std::all_of(field->begin(), field->end(), is_text)) {
        reader.fail(name, fmt::format("one prompt per request, got {}", field->size()));
      }
      return parts;
    }
    if (field->size() > 1 && (nested || field->front().is_string())) {
      reader.fail(name, fmt::format("one prompt per request, got {}", field->size()));
      return {};
    }
    field = &field->front();
    path += "[0]";
  }
  if (field->is_string()) {
    if (field->get_ref<const std::string&>().empty()) {
      reader.set_status(field_error(path, "the prompt is empty"));
      return {};
    }
    return {field->get<std::string>()};
  }
  if (!field->is_array()) {
    reader.set_status(field_error(
        path, fmt::format("expected a string or an array, got {}", json_type_name(*field))));
    return {};
  }
  if (field->empty()) {
    reader.set_status(field_error(path, "the prompt is empty"));
    return {};
  }
  return {ids_of(reader, path, *field, facts)};
}

void refuse_unsupported(FieldReader& reader) {
  for (const char* name : {"tools", "functions"}) {
    const Json* list = reader.array(name);
    if (list != nullptr && !list->empty()) refuse(reader, name, "tools are");
  }
  for (const char* name : {"tool_choice", "function_call"}) {
    const Json* choice = reader.any(name);
    if (choice != nullptr && *choice != "none" && *choice != "auto") {
      refuse(reader, name, "forcing a tool call is");
    }
  }
  if (const Json* format = reader.object("response_format")) {
    FieldReader inner(*format, "response_format");
    const auto type = inner.string("type");
    reader.set_status(inner.status());
    if (reader.ok() && type && *type != "text") {
      inner.fail("type", fmt::format("\"{}\" is not supported by this version; only \"text\" is",
                                     valid_utf8(type->substr(0, 64))));
      reader.set_status(inner.status());
    }
  }
  for (const char* name : {"grammar", "json_schema", "guided_json", "guided_regex", "guided_choice",
                           "guided_grammar", "structured_outputs"}) {
    const Json* value = reader.any(name);
    if (value != nullptr && *value != "") refuse(reader, name, "constrained output is");
  }
  for (const char* name : {"n", "best_of"}) {
    const auto count = reader.integer(name, 0, kMaxInt);
    if (count && *count != 1) {
      reader.fail(name, fmt::format("only 1 answer per request is supported, got {}", *count));
    }
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
}

}  // namespace strata::server
