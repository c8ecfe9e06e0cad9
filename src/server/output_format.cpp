#include "server/output_format.h"

#include <algorithm>
#include <array>

namespace strata::server {
namespace {

using engine::ConstraintKind;
using engine::ConstraintSpec;
using engine::ConstraintStart;

constexpr size_t kMaxChoices = 4096;

ConstraintSpec spec_of(ConstraintKind kind) {
  ConstraintSpec spec;
  spec.kind = kind;
  return spec;
}

ConstraintSpec schema_spec(const Json& schema) {
  ConstraintSpec spec = spec_of(ConstraintKind::kJsonSchema);
  spec.schema = schema;
  return spec;
}

ConstraintSpec text_spec(ConstraintKind kind, std::string text) {
  ConstraintSpec spec = spec_of(kind);
  spec.text = std::move(text);
  return spec;
}

// A GBNF grammar of the words alone.
std::string choice_grammar(const Json& words) {
  std::string out = "root ::= ";
  for (size_t i = 0; i < words.size(); ++i) {
    out += i == 0 ? "\"" : " | \"";
    for (const char c : words[i].get_ref<const std::string&>()) {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\x{:02X}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
    }
    out += '"';
  }
  return out + "\n";
}

Result<ConstraintSpec> choices(const Json& words, const std::string& path) {
  if (!words.is_array() || words.empty() || words.size() > kMaxChoices) {
    return field_error(path, fmt::format("expected an array of 1 to {} strings", kMaxChoices));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].is_string() || words[i].get_ref<const std::string&>().empty()) {
      return field_error(fmt::format("{}[{}]", path, i), "expected a string that is not empty");
    }
  }
  return text_spec(ConstraintKind::kGrammar, choice_grammar(words));
}

Result<ConstraintSpec> schema_field(const Json& value, const std::string& path) {
  if (value.is_object() || value.is_boolean()) return schema_spec(value);
  if (value.is_string()) {
    const Result<Json> parsed = parse_json(value.get_ref<const std::string&>());
    if (parsed.ok() && (parsed->is_object() || parsed->is_boolean())) return schema_spec(*parsed);
    return field_error(path, "this string is no JSON schema");
  }
  return field_error(path, fmt::format("expected a JSON schema, got {}", json_type_name(value)));
}

Result<ConstraintSpec> text_field(ConstraintKind kind, const Json& value, const std::string& path) {
  if (value.is_string()) return text_spec(kind, value.get<std::string>());
  return field_error(path, fmt::format("expected a string, got {}", json_type_name(value)));
}

struct Form {
  const char* field;       // of a chat body
  const char* structured;  // inside structured_outputs
};
constexpr std::array<Form, 4> kForms{{{"guided_json", "json"},
                                      {"guided_regex", "regex"},
                                      {"guided_choice", "choice"},
                                      {"guided_grammar", "grammar"}}};

Result<ConstraintSpec> guided(size_t form, const Json& value, const std::string& path) {
  switch (form) {
    case 0: return schema_field(value, path);
    case 1: return text_field(ConstraintKind::kRegex, value, path);
    case 2: return choices(value, path);
    default: return text_field(ConstraintKind::kGrammar, value, path);
  }
}

bool absent(const Json* value) { return value == nullptr || *value == ""; }

engine::ConstraintTool engine_tool(const Tool& tool) {
  engine::ConstraintTool out;
  out.name = tool.name;
  if (!tool.parameters.empty()) out.parameters = tool.parameters;
  out.strict = tool.strict;
  return out;
}

}  // namespace

Result<std::optional<ConstraintSpec>> format_of(const Json& format, const std::string& path) {
  using Answer = std::optional<ConstraintSpec>;
  FieldReader reader(format, path);
  const auto type = reader.string("type");
  if (!type) reader.fail("type", "this field is required");
  STRATA_RETURN_IF_ERROR(reader.status());
  if (*type == "text") return Answer();
  if (*type != "json_object" && *type != "json_schema") {
    reader.fail("type", fmt::format("\"{}\" is not known; use text, json_object or json_schema",
                                    valid_utf8(std::string_view(*type).substr(0, 64))));
    return reader.status();
  }
  const Json* schema = reader.any("schema");
  std::string where = reader.path_of("schema");
  if (const Json* inner = reader.object("json_schema"); inner != nullptr && *type == "json_schema") {
    FieldReader named(*inner, reader.path_of("json_schema"));
    named.string("name");
    named.boolean("strict");
    if (schema == nullptr) {
      schema = named.any("schema");
      where = named.path_of("schema");
    }
    reader.set_status(named.status());
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  if (schema != nullptr) {
    STRATA_ASSIGN_OR_RETURN(ConstraintSpec spec, schema_field(*schema, where));
    spec.field = path;
    return Answer(std::move(spec));
  }
  if (*type == "json_schema") {
    return field_error(path + ".json_schema.schema", "this field is required");
  }
  return Answer(spec_of(ConstraintKind::kJsonObject));
}

std::optional<ConstraintSpec> read_output_format(FieldReader& reader) {
  std::optional<ConstraintSpec> found;
  std::string found_in;
  const auto take = [&](const std::string& field, Result<ConstraintSpec> spec) {
    if (!reader.ok()) return;
    if (!spec.ok()) return reader.set_status(spec.status());
    if (found) {
      return reader.fail(field, fmt::format("cannot be used together with {}", found_in));
    }
    found = *std::move(spec);
    found->field = field;
    found_in = field;
  };
  if (const Json* format = reader.object("response_format")) {
    auto spec = format_of(*format, "response_format");
    if (!spec.ok()) {
      reader.set_status(spec.status());
    } else if (*spec) {
      take("response_format", **std::move(spec));
    }
  }
  if (const Json* schema = reader.any("json_schema"); !absent(schema)) {
    take("json_schema", schema_field(*schema, "json_schema"));
  }
  if (const Json* grammar = reader.any("grammar"); !absent(grammar)) {
    take("grammar", text_field(ConstraintKind::kGrammar, *grammar, "grammar"));
  }
  for (size_t i = 0; i < kForms.size(); ++i) {
    const Json* value = reader.any(kForms[i].field);
    if (!absent(value)) take(kForms[i].field, guided(i, *value, kForms[i].field));
  }
  if (const Json* outputs = reader.object("structured_outputs")) {
    FieldReader inner(*outputs, "structured_outputs");
    for (size_t i = 0; i < kForms.size(); ++i) {
      const Json* value = inner.any(kForms[i].structured);
      const std::string path = inner.path_of(kForms[i].structured);
      if (!absent(value)) take(path, guided(i, *value, path));
    }
    if (inner.boolean("json_object").value_or(false)) {
      take("structured_outputs.json_object", spec_of(ConstraintKind::kJsonObject));
    }
    if (inner.any("structural_tag") != nullptr) {
      inner.fail("structural_tag", "structural tags are not supported by this version");
    }
    reader.set_status(inner.status());
  }
  return found;
}

std::optional<ConstraintSpec> read_output_format(FieldReader& reader, const char* own_field,
                                                 std::optional<ConstraintSpec> own) {
  std::optional<ConstraintSpec> other = read_output_format(reader);
  if (!own) return other;
  if (other) {
    reader.fail(own_field,
                "cannot be used together with another field that says what the answer may be");
  }
  return own;
}

std::optional<ConstraintSpec> constraint_of(const ToolUse& use,
                                            std::optional<ConstraintSpec> format) {
  if (use.set == nullptr || use.set->empty()) return format;
  const auto& tools = use.set->tools();
  const bool required = use.choice == ToolUse::Choice::kRequired;
  const bool strict = std::any_of(tools.begin(), tools.end(), [](const Tool& t) { return t.strict; });
  if (!required && !format && !strict) return std::nullopt;
  // A call that must be made leaves no room for a format of the text.
  ConstraintSpec spec =
      format && !required ? *std::move(format) : spec_of(ConstraintKind::kToolCalls);
  for (const Tool& tool : tools) {
    if (use.named.empty() || tool.name == use.named) spec.tools.push_back(engine_tool(tool));
  }
  spec.parallel_calls = use.parallel;
  if (spec.kind == ConstraintKind::kToolCalls && !required) {
    spec.start = ConstraintStart::kOnTrigger;
    spec.start_text = "<tool_call>";
  }
  return spec;
}

}  // namespace strata::server
