#include "text/grammar/schema_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/grammar/json_schema.h"

namespace strata::grammar {

namespace {

std::string pointer_token(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
        hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Keywords that restrict values in a way the grammar does not follow, each with what would make it
// harmless.
struct Refused {
  const char* keyword;
  bool (*harmless)(const Json& schema, const Json& value);
};

bool never(const Json&, const Json&) { return false; }
bool is_false(const Json&, const Json& v) { return v.is_boolean() && !v.get<bool>(); }
bool is_true_schema(const Json&, const Json& v) {
  return (v.is_boolean() && v.get<bool>()) || (v.is_object() && v.empty());
}
bool is_empty(const Json&, const Json& v) { return v.is_object() && v.empty(); }
bool without_branches(const Json& schema, const Json&) {
  return !schema.contains("then") && !schema.contains("else");
}
bool unique_by_itself(const Json& schema, const Json& v) {
  if (is_false(schema, v)) return true;
  const auto most = schema.find("maxItems");
  return most != schema.end() && most->is_number() && most->get<double>() <= 1;
}

constexpr std::array<Refused, 14> kRefused{{{"not", never},
                                            {"if", without_branches},
                                            {"contains", never},
                                            {"uniqueItems", unique_by_itself},
                                            {"dependencies", is_empty},
                                            {"dependentRequired", is_empty},
                                            {"dependentSchemas", is_empty},
                                            {"unevaluatedItems", is_true_schema},
                                            {"unevaluatedProperties", is_true_schema},
                                            {"$dynamicRef", never},
                                            {"$recursiveRef", never},
                                            {"divisibleBy", never},
                                            {"extends", never},
                                            {"disallow", never}}};

}  // namespace

Result<SchemaReader> SchemaReader::create(const Json& root) {
  auto index = std::make_shared<Index>();
  std::vector<std::pair<const Json*, int>> work{{&root, 0}};
  while (!work.empty()) {
    const auto [node, depth] = work.back();
    work.pop_back();
    if (depth > kMaxSchemaDepth) {
      return invalid_argument("#: the schema is nested more than {} levels deep", kMaxSchemaDepth);
    }
    if (!node->is_structured()) continue;
    for (const auto& [name, member] : node->items()) {
      work.push_back({&member, depth + 1});
      index->places.emplace(&member, Index::Place{node, name});
      if (!node->is_object() || !member.is_string()) continue;
      const auto& text = member.get_ref<const std::string&>();
      if (name == "$anchor") index->anchors.emplace(text, node);
      if ((name == "$id" || name == "id") && text.starts_with('#')) {
        index->anchors.emplace(text.substr(1), node);
      }
    }
  }
  SchemaReader out;
  out.root_ = &root;
  out.index_ = std::move(index);
  return out;
}

std::string SchemaReader::pointer_of(const Json& node) const {
  std::vector<const std::string*> names;
  for (const Json* at = &node;;) {
    const auto place = index_->places.find(at);
    if (place == index_->places.end()) break;
    names.push_back(&place->second.name);
    at = place->second.parent;
  }
  std::string out = "#";
  for (; !names.empty(); names.pop_back()) out += "/" + pointer_token(*names.back());
  return out;
}

Status SchemaReader::check_keywords(const Json& node) const {
  for (const Refused& r : kRefused) {
    const auto found = node.find(r.keyword);
    if (found == node.end() || r.harmless(node, *found)) continue;
    return error(*found,
                 "the keyword {} is not supported here; remove it or say the same another way",
                 r.keyword);
  }
  return {};
}

Result<const Json*> SchemaReader::resolve(const Json& node, const std::string& reference) const {
  if (!reference.starts_with('#')) {
    return error(node, "the reference {} leaves the schema; only references that begin with # work",
                 reference);
  }
  const std::string fragment = percent_decoded(std::string_view(reference).substr(1));
  if (!fragment.empty() && fragment[0] != '/') {
    const auto anchor = index_->anchors.find(fragment);
    if (anchor == index_->anchors.end()) return error(node, "nothing has the anchor {}", fragment);
    return anchor->second;
  }
  const Json* at = root_;
  for (size_t begin = 1; begin <= fragment.size();) {
    const size_t end = std::min(fragment.find('/', begin), fragment.size());
    std::string name;
    for (size_t i = begin; i < end; ++i) {
      const bool escape = fragment[i] == '~' && i + 1 < end;
      if (escape && (fragment[i + 1] == '0' || fragment[i + 1] == '1')) {
        name += fragment[++i] == '0' ? '~' : '/';
      } else {
        name += fragment[i];
      }
    }
    const Json* next = nullptr;
    if (at->is_object()) {
      const auto member = at->find(name);
      if (member != at->end()) next = &*member;
    } else if (at->is_array() && !name.empty() && name.size() < 9 &&
               std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      const size_t index = std::stoul(name);
      if (index < at->size()) next = &(*at)[index];
    }
    if (next == nullptr) return error(node, "the reference {} leads nowhere", reference);
    at = next;
    begin = end + 1;
  }
  return at;
}

SchemaParts SchemaReader::alternatives(const SchemaPart& choice) {
  SchemaParts out;
  const auto found = choice.node->find(choice.aspect == SchemaPart::kAnyOf ? "anyOf" : "oneOf");
  for (const Json& way : *found) out.push_back({&way, SchemaPart::kWhole});
  return out;
}

Result<FlatSchema> SchemaReader::flatten(const SchemaParts& parts) const {
  FlatSchema out;
  std::vector<const Json*> path;
  for (const SchemaPart& part : parts) STRATA_RETURN_IF_ERROR(add(part, path, out));
  for (SchemaParts* list : {&out.own, &out.choices}) {
    // The order of declaration is kept: it is the order of properties.
    SchemaParts unique;
    for (const SchemaPart& p : *list) {
      if (std::find(unique.begin(), unique.end(), p) == unique.end()) unique.push_back(p);
    }
    *list = std::move(unique);
  }
  return out;
}

Status SchemaReader::add(const SchemaPart& part, std::vector<const Json*>& path,
                         FlatSchema& out) const {
  const Json& node = *part.node;
  if (part.aspect == SchemaPart::kOwn) {
    out.own.push_back(part);
    return {};
  }
  if (part.aspect != SchemaPart::kWhole) {
    out.choices.push_back(part);
    return {};
  }
  if (node.is_boolean()) {
    out.impossible |= !node.get<bool>();
    return {};
  }
  if (!node.is_object()) return error(node, "a schema must be an object, true or false");
  if (std::find(path.begin(), path.end(), &node) != path.end() || path.size() > 100) {
    return error(node, "the schema refers to itself without anything in between");
  }
  path.push_back(&node);
  STRATA_RETURN_IF_ERROR(check_keywords(node));
  if (const auto reference = node.find("$ref"); reference != node.end()) {
    if (!reference->is_string()) return error(*reference, "$ref must be a text");
    STRATA_ASSIGN_OR_RETURN(const Json* target,
                            resolve(*reference, reference->get_ref<const std::string&>()));
    STRATA_RETURN_IF_ERROR(add({target, SchemaPart::kWhole}, path, out));
  }
  if (const auto all = node.find("allOf"); all != node.end()) {
    if (!all->is_array() || all->empty()) return error(*all, "allOf must be a list of schemas");
    for (const Json& each : *all) {
      STRATA_RETURN_IF_ERROR(add({&each, SchemaPart::kWhole}, path, out));
    }
  }
  for (const auto& [keyword, aspect] :
       {std::pair("anyOf", SchemaPart::kAnyOf), std::pair("oneOf", SchemaPart::kOneOf)}) {
    const auto choice = node.find(keyword);
    if (choice == node.end()) continue;
    if (!choice->is_array() || choice->empty()) {
      return error(*choice, "{} must be a list of schemas", keyword);
    }
    if (choice->size() == 1) {
      STRATA_RETURN_IF_ERROR(add({&(*choice)[0], SchemaPart::kWhole}, path, out));
    } else {
      out.choices.push_back({&node, aspect});
    }
  }
  path.pop_back();
  out.own.push_back({&node, SchemaPart::kOwn});
  return {};
}

}  // namespace strata::grammar
