#include "text/jinja/json_value.h"

#include "text/jinja/failure.h"
#include "text/jinja/runtime.h"
#include "text/utf8.h"

namespace strata::jinja {
namespace {

using Json = nlohmann::ordered_json;

Value untrusted(const std::string& bytes) {
  if (!text::is_valid_utf8(bytes)) fail("a string of the input is not valid UTF-8");
  return Value(std::make_shared<const TextNode>(TextNode{Text(bytes, false), {}}));
}

Value convert(const Json& json, int depth) {
  if (depth > kMaxValueDepth) {
    fail_limit("the input is nested deeper than {} levels", kMaxValueDepth);
  }
  switch (json.type()) {
    case Json::value_t::null: return Value(None{});
    case Json::value_t::boolean: return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer: return Value::integer(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      return number <= INT64_MAX ? Value::integer(static_cast<std::int64_t>(number))
                                 : Value::big(number);
    }
    case Json::value_t::number_float: return Value::real(json.get<double>());
    case Json::value_t::string: return untrusted(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      auto list = std::make_shared<List>();
      list->items.reserve(json.size());
      for (const Json& item : json) {
        list->items.push_back(convert(item, depth + 1));
        list->depth = std::max(list->depth, 1 + list->items.back().depth());
      }
      return Value(std::shared_ptr<const List>(std::move(list)));
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, item] : json.items()) {
        dict->set(untrusted(key), convert(item, depth + 1));
      }
      return Value(std::shared_ptr<const Dict>(std::move(dict)));
    }
    case Json::value_t::binary:
    case Json::value_t::discarded: break;
  }
  fail("the input holds a value that is not JSON");
}

}  // namespace

Value from_json(const Json& json) { return convert(json, 0); }

}  // namespace strata::jinja
