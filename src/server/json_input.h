// Reading JSON that a stranger wrote: bounded depth, size and time, and errors that name the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace strata::server {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_depth = 128;         // arrays and objects inside each other
  size_t max_values = 2'000'000;  // values of all kinds, so that memory stays near the text's size
};

// The document in `text`. Keys keep their order; of equal keys the last one wins. Fails with
// kInvalidArgument on malformed JSON, invalid UTF-8 and documents beyond the limits; the field is
// the path of the value in which the text went wrong, if there is one. Time is linear in the text,
// also for objects of many keys.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// The same for texts inside a request or an answer: a discarded value where parse_json() fails.
Json json_in(std::string_view text);

// Compact text of `value`. Never throws: bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& value);

// `text` with everything that is not UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);
bool is_valid_utf8(std::string_view text);

// "a number", "an array", ...
const char* json_type_name(const Json& value);

struct Range {
  double low;
  double high;
  bool low_open = false;   // low itself is outside
  bool high_open = false;  // high itself is outside
};

// Takes typed fields out of an object. A field that is absent or null reads as nullopt / nullptr.
// The first failure is kept, with the path of the field, and every later read answers "absent".
class FieldReader {
 public:
  // `object` must be a JSON object and outlive the reader. `path` is put before field names.
  explicit FieldReader(const Json& object, std::string path = {});

  std::optional<bool> boolean(std::string_view name);
  // Whole numbers only (5.0 counts as 5), within [low, high].
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, const Range& range);
  std::optional<std::string> string(std::string_view name);
  const Json* array(std::string_view name);
  const Json* object(std::string_view name);
  const Json* any(std::string_view name);

  // Records a failure of field `name`, unless there is one already.
  void fail(std::string_view name, std::string_view message);
  // Full path of a field of this object.
  std::string path_of(std::string_view name) const;

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  void set_status(Status status);  // keeps an earlier failure

 private:
  void wrong_type(std::string_view name, std::string_view expected, const Json& got);

  const Json& object_;
  std::string path_;
  Status status_;
};

// kInvalidArgument "path: message" with the path as field.
Status field_error(std::string path, std::string_view message);

}  // namespace strata::server
