#include "server/json_input.h"

#include <cmath>
#include <unordered_map>
#include <vector>

namespace strata::server {
namespace {

// Objects with more keys than this get an index for finding duplicates; ordered_json itself
// searches linearly, which is quadratic over a large object.
constexpr size_t kLinearKeys = 16;

class DomBuilder final : public nlohmann::json_sax<Json> {
 public:
  DomBuilder(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Json take() { return std::move(root_); }
  const Status& status() const { return status_; }

  bool null() override { return scalar(Json(nullptr)); }
  bool boolean(bool value) override { return scalar(Json(value)); }
  bool number_integer(number_integer_t value) override { return scalar(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override {
    return scalar(Json(value));
  }
  bool string(string_t& value) override { return scalar(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    levels_.back().key = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const size_t at = position > 0 ? std::min(position - 1, text_.size()) : 0;
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < at; ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else {
        ++column;
      }
    }
    const std::string_view what = error.what();
    std::string_view reason = "a syntax error";
    if (at >= text_.size()) {
      reason = "the text ends too early";
    } else if (what.find("UTF-8") != std::string_view::npos) {
      reason = "bytes that are not UTF-8";
    } else if (what.find("surrogate") != std::string_view::npos) {
      reason = "half of a surrogate pair";
    } else if (error.id == 406) {
      reason = "a number too large to represent";
    }
    status_ = Status(
        StatusCode::kInvalidArgument,
        fmt::format("The request body is not valid JSON: {} at line {}, column {}.", reason, line,
                    column),
        path());
    return false;
  }

 private:
  static constexpr size_t kPathKeyBytes = 64;  // of each key that a path shows
  static constexpr size_t kPathBytes = 256;

  // The field that is being read, e.g. "messages[0].content"; empty at the top.
  std::string path() const {
    std::string path;
    for (const Level& level : levels_) {
      if (path.size() > kPathBytes) break;
      if (level.value->is_array()) {
        path += fmt::format("[{}]", level.done);
      } else if (level.key) {
        path += fmt::format("{}{}", path.empty() ? "" : ".",
                            valid_utf8(std::string_view(*level.key).substr(0, kPathKeyBytes)));
      }
    }
    return path;
  }

  struct Level {
    Json* value;
    std::unordered_map<std::string, size_t> index;  // used beyond kLinearKeys keys
    std::optional<std::string> key;  // of an object: the member whose value is being read
    size_t done = 0;                 // of an array: elements read
  };

  // Where in the open object the member `level.key` lives; a fresh null when it is new.
  Json* member(Level& level) {
    auto& items = level.value->get_ref<Json::object_t&>();
    const std::string& key = *level.key;
    if (items.size() < kLinearKeys) {
      for (auto& [name, value] : items) {
        if (name == key) return &value;
      }
    } else {
      if (level.index.empty()) {
        for (size_t i = 0; i < items.size(); ++i) level.index.emplace(items.begin()[i].first, i);
      }
      const auto [found, fresh] = level.index.emplace(key, items.size());
      if (!fresh) return &items.begin()[found->second].second;
    }
    items.push_back({key, Json(nullptr)});
    return &items.back().second;
  }

  Json* put(Json value) {
    if (++values_ > limits_.max_values) {
      status_ = invalid_argument("The request body holds more than {} JSON values; send less.",
                                 limits_.max_values);
      return nullptr;
    }
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      level.value->get_ref<Json::array_t&>().push_back(std::move(value));
      return &level.value->back();
    }
    Json* place = member(level);
    *place = std::move(value);
    return place;
  }

  // The newest value of the innermost container is complete.
  void finish_value() {
    if (levels_.empty()) return;
    levels_.back().key.reset();
    ++levels_.back().done;
  }

  bool scalar(Json value) {
    if (put(std::move(value)) == nullptr) return false;
    finish_value();
    return true;
  }

  bool open(Json container) {
    if (levels_.size() >= limits_.max_depth) {
      status_ = invalid_argument("The request body is nested more than {} levels deep.",
                                 limits_.max_depth);
      return false;
    }
    Json* place = put(std::move(container));
    if (place == nullptr) return false;
    levels_.push_back({place, {}, {}, 0});
    return true;
  }

  bool close() {
    levels_.pop_back();
    finish_value();
    return true;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  Json root_;
  std::vector<Level> levels_;
  size_t values_ = 0;
  Status status_;
};

// Length of the valid UTF-8 character at `at`, 0 when there is none (RFC 3629 table 3-7).
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned b0 = byte(0);
  if (b0 < 0x80) return 1;
  if (b0 >= 0xC2 && b0 <= 0xDF) return follows(1) ? 2 : 0;
  if (b0 >= 0xE0 && b0 <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    if (b0 == 0xE0 && byte(1) < 0xA0) return 0;
    if (b0 == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (b0 >= 0xF0 && b0 <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (b0 == 0xF0 && byte(1) < 0x90) return 0;
    if (b0 == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.empty()) {
    return invalid_argument("The request body is empty; a JSON object was expected.");
  }
  // The JSON library takes a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return invalid_argument("The request body is not valid JSON: a zero byte at byte {}.", zero);
  }
  try {
    DomBuilder builder(text, limits);
    if (Json::sax_parse(text, &builder)) return builder.take();
    if (!builder.status().ok()) return builder.status();
    return invalid_argument("The request body is not valid JSON.");
  } catch (const std::bad_alloc&) {
    return resource_exhausted("There is not enough memory to read the request body.");
  }
}

Json json_in(std::string_view text) {
  auto parsed = parse_json(text);
  return parsed.ok() ? *std::move(parsed) : Json(Json::value_t::discarded);
}

std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

const char* json_type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return "a boolean";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "an array";
    case Json::value_t::object: return "an object";
    default: return "a number";
  }
}

Status field_error(std::string path, std::string_view message) {
  std::string text = fmt::format("{}: {}", path, message);
  return Status(StatusCode::kInvalidArgument, std::move(text), std::move(path));
}

FieldReader::FieldReader(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

std::string FieldReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void FieldReader::set_status(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void FieldReader::fail(std::string_view name, std::string_view message) {
  set_status(field_error(path_of(name), message));
}

void FieldReader::wrong_type(std::string_view name, std::string_view expected, const Json& got) {
  fail(name, fmt::format("expected {}, got {}", expected, json_type_name(got)));
}

const Json* FieldReader::any(std::string_view name) {
  if (!ok()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong_type(name, "a boolean", *value);
  return std::nullopt;
}

std::optional<int64_t> FieldReader::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "an integer", *value);
    return std::nullopt;
  }
  std::optional<int64_t> whole;
  if (value->is_number_unsigned()) {
    const auto u = value->get<uint64_t>();
    if (u <= static_cast<uint64_t>(INT64_MAX)) whole = static_cast<int64_t>(u);
  } else if (value->is_number_integer()) {
    whole = value->get<int64_t>();
  } else {
    const double d = value->get<double>();
    if (d != std::floor(d)) {
      fail(name, fmt::format("expected an integer, got {}", d));
      return std::nullopt;
    }
    if (std::abs(d) <= 9.0e15) whole = static_cast<int64_t>(d);
  }
  if (!whole || *whole < low || *whole > high) {
    fail(name,
         fmt::format("{} is out of range; it must be from {} to {}", to_text(*value), low, high));
    return std::nullopt;
  }
  return whole;
}

std::optional<double> FieldReader::number(std::string_view name, const Range& range) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "a number", *value);
    return std::nullopt;
  }
  const double d = value->get<double>();
  const bool inside = (range.low_open ? d > range.low : d >= range.low) &&
                      (range.high_open ? d < range.high : d <= range.high);
  if (!inside) {
    fail(name, fmt::format("{} is out of range; it must be {} {} and {} {}", to_text(*value),
                           range.low_open ? "greater than" : "at least", range.low,
                           range.high_open ? "less than" : "at most", range.high));
    return std::nullopt;
  }
  return d;
}

std::optional<std::string> FieldReader::string(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  wrong_type(name, "a string", *value);
  return std::nullopt;
}

const Json* FieldReader::array(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr || value->is_array()) return value;
  wrong_type(name, "an array", *value);
  return nullptr;
}

const Json* FieldReader::object(std::string_view name) {
  const Json* value = any(name);
  if (value == nullptr || value->is_object()) return value;
  wrong_type(name, "an object", *value);
  return nullptr;
}

}  // namespace strata::server
