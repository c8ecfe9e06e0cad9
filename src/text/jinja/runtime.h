// What one rendering owns and may spend: memory, steps, depth, output, and the mutable objects.
// Everything that evaluates (operators, filters, methods, macros) receives it. Not thread-safe:
// each rendering has its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace strata::jinja {

struct Limits {
  std::size_t steps = 20'000'000;                     // nodes evaluated, plus work per byte
  std::size_t output_bytes = std::size_t{64} << 20;   // of the rendered text
  std::size_t memory_bytes = std::size_t{256} << 20;  // alive at once, beyond the input
  int depth = 500;                                    // nested evaluations, macro calls included
};

// Longest range(), as in the original's sandbox.
inline constexpr std::int64_t kMaxRange = 100'000;
// Deepest nesting of lists and dicts, in the input and as built by the template.
inline constexpr int kMaxValueDepth = 200;

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : limits_(limits) {}
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Counts work; throws past the limit.
  void step(std::size_t count = 1);
  // Counts work that passes over `bytes` bytes.
  void step_bytes(std::size_t bytes) { step(bytes / kBytesPerStep); }

  Charge charge(std::size_t bytes);
  void grow(Charge& charge, std::size_t bytes);

  Value make_text(Text text);
  Value make_text(std::string bytes, bool trusted) {
    return make_text(Text(std::move(bytes), trusted));
  }
  Value make_list(std::vector<Value> items, ListKind kind = ListKind::kList);
  // What dict.items(), keys() and values() return; `name` is a literal.
  Value make_view(std::vector<Value> items, std::string_view name);
  Value make_dict(Dict dict);
  Value make_bound(const Value& self, const Method* method);
  template <class T, class... Args>
  T* make_object(Args&&... args) {
    step();
    objects_.push_back(std::make_unique<T>(std::forward<Args>(args)...));
    charge_objects(sizeof(T));
    return static_cast<T*>(objects_.back().get());
  }

  // Calls a macro, method, builtin or callable object.
  virtual Value call(const Value& callee, const Args& args) = 0;
  // A filter or test by name; both throw for an unknown name.
  Value apply_filter(std::string_view name, const Value& input, const Args& args);
  bool apply_test(std::string_view name, const Value& input, const Args& args);

  const Limits& limits() const { return limits_; }
  // Local time of the request; nothing: strftime_now is not defined.
  const std::optional<std::chrono::sys_seconds>& now() const { return now_; }

  // One level of evaluation, for its lifetime.
  class Level {
   public:
    explicit Level(Runtime& runtime) : runtime_(runtime) {
      if (++runtime_.depth_ > runtime_.limits_.depth) runtime_.too_deep();
    }
    ~Level() { --runtime_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Runtime& runtime_;
  };

 protected:
  // Counts memory that the mutable objects hold until the end of the rendering.
  void charge_objects(std::size_t bytes) { grow(objects_charge_, bytes); }
  // Keeps an object made elsewhere until the end of the rendering.
  void adopt(std::unique_ptr<Object> object) noexcept { objects_.push_back(std::move(object)); }

  std::optional<std::chrono::sys_seconds> now_;

 private:
  std::shared_ptr<List> build_list(std::vector<Value> items, ListKind kind);
  static constexpr std::size_t kBytesPerStep = 64;
  [[noreturn]] void too_deep();

  const Limits limits_;
  std::size_t steps_ = 0;
  std::size_t live_bytes_ = 0;
  int depth_ = 0;
  Charge objects_charge_;
  std::vector<std::unique_ptr<Object>> objects_;
};

// Mutable and callable objects of the language.

struct Namespace : Object {
  Namespace() : Object(ObjectKind::kNamespace) {}
  std::unordered_map<std::string, Value> attributes;
};

struct Loop : Object {
  Loop() : Object(ObjectKind::kLoop) {}
  std::vector<Value> items;
  std::size_t index = 0;
  std::optional<Value> last_changed;
};

struct Cycler : Object {
  Cycler() : Object(ObjectKind::kCycler) {}
  std::vector<Value> items;
  std::size_t position = 0;
};

struct Joiner : Object {
  Joiner() : Object(ObjectKind::kJoiner) {}
  Value separator;
  bool used = false;
};

struct Builtin : Object {
  using Function = Value (*)(Runtime&, const Args&);
  Builtin(std::string_view builtin_name, Function builtin_function)
      : Object(ObjectKind::kBuiltin), name(builtin_name), function(builtin_function) {}
  std::string_view name;
  Function function;
};

// Matches arguments to the parameters of a filter, test, method or function, as a Python call does.
class Bindings {
 public:
  // `what` names the callee in messages. Parameters ending in "?" are optional.
  Bindings(std::string_view what, const Args& args,
           std::initializer_list<std::string_view> parameters);
  bool has(std::size_t index) const { return values_[index] != nullptr; }
  const Value& operator[](std::size_t index) const { return *values_[index]; }
  const Value* get(std::size_t index) const { return values_[index]; }
  // Converting readers; `fallback` when the argument is absent.
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  bool truth(std::size_t index, bool fallback) const;
  const Text* text(std::size_t index) const;  // null when absent or none; fails on another type

 private:
  std::string what_;
  std::vector<std::string> names_;
  std::vector<const Value*> values_;
};

// Tables behind apply_filter and apply_test.
using FilterFunction = Value (*)(Runtime&, const Value& input, const Args& args);
using TestFunction = bool (*)(Runtime&, const Value& input, const Args& args);
FilterFunction find_filter(std::string_view name);           // null when unknown
FilterFunction find_text_filter(std::string_view name);      // filters_text.cpp
FilterFunction find_sequence_filter(std::string_view name);  // filters_sequence.cpp
FilterFunction find_select_filter(std::string_view name);    // filters_select.cpp
TestFunction find_test(std::string_view name);

// The global functions; null when unknown.
Builtin::Function find_global(std::string_view name);

// value.name: methods first, then entries of a dict; Undefined when there is neither.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
// value[key]: entries first, then methods.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
Value get_slice(Runtime& runtime, const Value& object, const Value* start, const Value* stop,
                const Value* step);
// Methods by name; null when the type has none of that name.
const Method* find_text_method(std::string_view name);
const Method* find_container_method(const Value& self, std::string_view name);

}  // namespace strata::jinja
