#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/failure.h"

namespace strata::jinja {

Value Value::undefined(std::string why) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
}

bool Value::is_sequence() const {
  return is_list() && list().kind != ListKind::kGenerator && list().kind != ListKind::kView;
}

std::optional<std::int64_t> Value::integral() const {
  if (is_int()) return as_int();
  if (is_bool()) return as_bool() ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::numeric() const {
  if (is_float()) return as_float();
  if (is_big()) return static_cast<double>(as_big());
  if (const auto i = integral()) return static_cast<double>(*i);
  return std::nullopt;
}

int Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth();
  if (is_bound()) return 1 + bound().self.depth();
  return 0;
}

namespace {

// One spelling for all keys that compare equal.
bool encode_key(const Value& key, std::string& out) {
  if (key.is_text()) {
    out += 's';
    out += std::to_string(key.view().size());
    out += ':';
    out += key.view();
    return true;
  }
  if (key.is_none()) {
    out += 'n';
    return true;
  }
  if (const auto i = key.integral()) {
    out += 'i';
    out += std::to_string(*i);
    out += ';';
    return true;
  }
  if (key.is_big()) {
    out += 'i';
    out += std::to_string(key.as_big());
    out += ';';
    return true;
  }
  if (key.is_float()) {
    const double d = key.as_float();
    if (d == std::floor(d) && std::fabs(d) < 9.2e18) {
      out += 'i';
      out += std::to_string(static_cast<std::int64_t>(d));
    } else {
      out += 'f';
      out += fmt::format("{}", d);
    }
    out += ';';
    return true;
  }
  if (key.is_list() &&
      (key.list().kind == ListKind::kTuple || key.list().kind == ListKind::kGroup)) {
    out += '(';
    for (const Value& item : key.list().items) {
      if (!encode_key(item, out)) return false;
    }
    out += ')';
    return true;
  }
  return false;
}

}  // namespace

void Dict::set(Value key, Value value) {
  std::string encoded;
  if (!encode_key(key, encoded)) fail("a {} cannot be the key of a dict", type_name(key));
  depth_ = std::max({depth_, 1 + key.depth(), 1 + value.depth()});
  const auto [place, fresh] = index_.emplace(std::move(encoded), entries_.size());
  if (fresh) {
    entries_.emplace_back(std::move(key), std::move(value));
  } else {
    entries_[place->second].second = std::move(value);
  }
}

const Value* Dict::find(const Value& key) const {
  std::string encoded;
  if (!encode_key(key, encoded)) return nullptr;
  const auto place = index_.find(encoded);
  return place == index_.end() ? nullptr : &entries_[place->second].second;
}

const Value* Dict::find(std::string_view key) const {
  std::string encoded = fmt::format("s{}:{}", key.size(), key);
  const auto place = index_.find(encoded);
  return place == index_.end() ? nullptr : &entries_[place->second].second;
}

std::size_t Dict::footprint() const {
  constexpr std::size_t kIndexNode = 80;
  std::size_t bytes = sizeof(Dict);
  for (const Entry& entry : entries_) {
    bytes += sizeof(Entry) + kIndexNode + (entry.first.is_text() ? entry.first.view().size() : 0);
  }
  return bytes;
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.is_bool()) return "bool";
  if (value.is_int() || value.is_big()) return "int";
  if (value.is_float()) return "float";
  if (value.is_text()) return "str";
  if (value.is_dict()) return "dict";
  if (value.is_bound()) return "method";
  if (value.is_list()) {
    switch (value.list().kind) {
      case ListKind::kList: return "list";
      case ListKind::kTuple:
      case ListKind::kGroup: return "tuple";
      case ListKind::kGenerator: return "generator";
      case ListKind::kView: return "dict view";
      case ListKind::kRange: return "range";
    }
  }
  switch (value.object()->kind()) {
    case ObjectKind::kNamespace: return "namespace";
    case ObjectKind::kMacro: return "macro";
    case ObjectKind::kLoop: return "loop";
    case ObjectKind::kCycler: return "cycler";
    case ObjectKind::kJoiner: return "joiner";
    case ObjectKind::kBuiltin: return "function";
  }
  return "value";
}

void fail_undefined(const Value& value) {
  if (value.undefined().why == nullptr) fail("a value is undefined");
  fail("{}", *value.undefined().why);
}

}  // namespace strata::jinja
