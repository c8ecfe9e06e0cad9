// Reads a JSON schema document: references, allOf, and what of it applies together.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "text/grammar/json_text.h"

namespace strata::grammar {

// A subschema, or one aspect of it.
struct SchemaPart {
  enum Aspect : uint8_t {
    kWhole,  // all of it
    kOwn,    // without $ref, allOf, anyOf, oneOf
    kAnyOf,  // these two alone
    kOneOf,
  };
  const Json* node = nullptr;
  Aspect aspect = kWhole;

  friend bool operator==(const SchemaPart&, const SchemaPart&) = default;
  friend auto operator<=>(const SchemaPart&, const SchemaPart&) = default;
};

using SchemaParts = std::vector<SchemaPart>;  // all of them apply

// Parts with references and allOf followed. One alternative of every choice applies besides `own`.
struct FlatSchema {
  bool impossible = false;  // `false` is among them
  SchemaParts own;          // each kOwn
  SchemaParts choices;      // each kAnyOf or kOneOf
};

class SchemaReader {
 public:
  // `root` must outlive the reader and its copies. Fails when it is nested too deep.
  static Result<SchemaReader> create(const Json& root);

  const Json& root() const { return *root_; }

  // Fails on unsupported keywords, on references that lead nowhere or round in circles.
  Result<FlatSchema> flatten(const SchemaParts& parts) const;
  // The alternatives of a choice, each kWhole.
  static SchemaParts alternatives(const SchemaPart& choice);

  // A failure that begins with the JSON pointer of `node`.
  template <class... Args>
  Status error(const Json& node, fmt::format_string<Args...> f, Args&&... args) const {
    return Status(StatusCode::kInvalidArgument,
                  pointer_of(node) + ": " + fmt::format(f, std::forward<Args>(args)...));
  }
  std::string pointer_of(const Json& node) const;

 private:
  Status add(const SchemaPart& part, std::vector<const Json*>& path, FlatSchema& out) const;
  Status check_keywords(const Json& node) const;
  Result<const Json*> resolve(const Json& node, const std::string& reference) const;

  // Found once, shared by copies.
  struct Index {
    struct Place {
      const Json* parent = nullptr;
      std::string name;
    };
    std::unordered_map<const Json*, Place> places;
    std::unordered_map<std::string, const Json*> anchors;
  };

  const Json* root_ = nullptr;
  std::shared_ptr<const Index> index_;
};

}  // namespace strata::grammar
