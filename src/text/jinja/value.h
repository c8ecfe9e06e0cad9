// Values of the template language. Strings, lists and dicts are immutable once built (as in the
// sandbox that the original runs templates in), so they are shared by reference count and can never
// form a cycle. What is mutable or may be cyclic (namespaces, macros, loops) is an Object, owned by
// the Runtime of one rendering and freed with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/text.h"

namespace strata::jinja {

class Value;
class Dict;
struct Bound;
struct List;
struct TextNode;

// A share of the rendering's memory budget, given back when the holder dies.
class Charge {
 public:
  Charge() = default;
  Charge(std::size_t* live, std::size_t bytes) : live_(live), bytes_(bytes) {}
  Charge(Charge&& other) noexcept
      : live_(std::exchange(other.live_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(live_, other.live_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (live_ != nullptr) *live_ -= bytes_;
  }
  // Takes over a share of the same budget.
  void absorb(Charge other) {
    live_ = std::exchange(other.live_, nullptr);
    bytes_ += std::exchange(other.bytes_, 0);
  }

 private:
  std::size_t* live_ = nullptr;
  std::size_t bytes_ = 0;
};

// Which Python object a sequence stands for; they differ in truth, length, indexing and printing.
enum class ListKind : std::uint8_t {
  kList,
  kTuple,
  kGroup,      // a tuple (grouper, list) made by groupby
  kGenerator,  // what lazy filters return: always true, no length, no index
  kView,       // dict.items(), keys(), values(): length but no index
  kRange,
};

enum class ObjectKind : std::uint8_t { kNamespace, kMacro, kLoop, kCycler, kJoiner, kBuiltin };

class Object {
 public:
  explicit Object(ObjectKind kind) : kind_(kind) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  ObjectKind kind() const { return kind_; }

 private:
  ObjectKind kind_;
};

struct Undefined {
  std::shared_ptr<const std::string> why;  // the sentence to fail with; null: no more is known
};
struct None {};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(None) : data_(None{}) {}                                           // NOLINT
  Value(Undefined undefined) : data_(std::move(undefined)) {}              // NOLINT
  Value(std::shared_ptr<const TextNode> text) : data_(std::move(text)) {}  // NOLINT
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}      // NOLINT
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}      // NOLINT
  Value(std::shared_ptr<const Bound> bound) : data_(std::move(bound)) {}   // NOLINT
  Value(Object* object) : data_(object) {}                                 // NOLINT
  static Value boolean(bool b) { return Value(Data(b)); }
  static Value integer(std::int64_t i) { return Value(Data(i)); }
  // An integer of the input beyond int64: can be printed and compared, not calculated with.
  static Value big(std::uint64_t i) { return Value(Data(i)); }
  static Value real(double d) { return Value(Data(d)); }
  static Value undefined(std::string why);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_big() const { return std::holds_alternative<std::uint64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_text() const { return std::holds_alternative<std::shared_ptr<const TextNode>>(data_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<const List>>(data_); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(data_); }
  bool is_bound() const { return std::holds_alternative<std::shared_ptr<const Bound>>(data_); }
  bool is_object() const { return std::holds_alternative<Object*>(data_); }
  bool is_object(ObjectKind kind) const { return is_object() && object()->kind() == kind; }
  bool is_number() const { return is_bool() || is_int() || is_big() || is_float(); }
  // A list or tuple proper, which can be indexed.
  bool is_sequence() const;

  bool as_bool() const { return std::get<bool>(data_); }
  std::int64_t as_int() const { return std::get<std::int64_t>(data_); }
  std::uint64_t as_big() const { return std::get<std::uint64_t>(data_); }
  double as_float() const { return std::get<double>(data_); }
  const Text& text() const;
  std::string_view view() const { return text().view(); }
  const List& list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  const Bound& bound() const { return *std::get<std::shared_ptr<const Bound>>(data_); }
  Object* object() const { return std::get<Object*>(data_); }
  const Undefined& undefined() const { return std::get<Undefined>(data_); }

  // bool and int as an integer; nothing for anything else.
  std::optional<std::int64_t> integral() const;
  // bool, int, big and float as a double.
  std::optional<double> numeric() const;

  // Levels of containers inside; limited, so that walking and freeing a value may recurse.
  int depth() const;

 private:
  using Data = std::variant<Undefined, None, bool, std::int64_t, std::uint64_t, double,
                            std::shared_ptr<const TextNode>, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<const Bound>, Object*>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

struct TextNode {
  Text text;
  Charge charge;
};

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  int depth = 1;
  Charge charge;
  std::int64_t range[3] = {};  // kRange: start, stop, step
  std::string_view view_name;  // kView: the Python type, "dict_items" and the like
};

// Keeps the order of insertion. Keys are scalars or tuples of them; 1, 1.0 and True are one key.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  // Throws when `key` cannot be a key. A known key keeps its place and its first spelling.
  void set(Value key, Value value);
  // Null when absent or when `key` cannot be a key.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }
  void set_charge(Charge charge) { charge_ = std::move(charge); }
  std::size_t footprint() const;

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;  // encoded key -> entry
  int depth_ = 1;
  Charge charge_;
};

// Arguments of a call, a filter or a test.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime;
using MethodFunction = Value (*)(Runtime&, const Value& self, const Args& args);

struct Method {
  std::string_view name;
  MethodFunction function;
};

// `value.method`, not called yet.
struct Bound {
  Value self;
  const Method* method;
};

inline const Text& Value::text() const {
  return std::get<std::shared_ptr<const TextNode>>(data_)->text;
}

// The Python name of the type, for messages: "str", "list", "dict object", ...
std::string type_name(const Value& value);
// Fails with the reason why `value` is undefined.
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace strata::jinja
