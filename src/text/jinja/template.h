// A chat template: parsed once, rendered for every request. The language is Jinja as chat templates
// use it (trim_blocks, lstrip_blocks, break and continue, generation blocks), without anything that
// reaches outside: no files, no imports, no mutation of values.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "text/jinja/runtime.h"

namespace strata::jinja {

// A stretch of rendered text of one origin. Only text that the template itself wrote (or that was
// handed in as trusted, such as bos_token) may be read as control tokens.
struct Piece {
  std::string text;
  bool from_template = false;
  bool operator==(const Piece&) const = default;
};

struct RenderOptions {
  // Local time that strftime_now prints. None: strftime_now is not defined, which templates test.
  std::optional<std::chrono::sys_seconds> now;
  // String variables that belong to the model, not to the request (bos_token, eos_token). A
  // variable of the context with the same name loses.
  std::map<std::string, std::string> trusted;
  Limits limits;
};

// Immutable and cheap to copy; every member may be called from several threads at once.
class Template {
 public:
  // `name` stands at the front of messages, as in "chat template line 12: ...". Fails with
  // kFailedPrecondition when the source is not valid UTF-8 or not a template of the language.
  static Result<Template> parse(std::string source, std::string name = "chat template");

  // Renders with the members of the object `context` as variables; all their text is untrusted.
  // Neighbouring pieces differ in origin, none is empty. Fails with
  //   kInvalidArgument  raise_exception() was called (its message, verbatim), or the template does
  //                     not fit the data (with the line),
  //   kOutOfRange       a limit was exceeded: steps, memory, output, nesting.
  Result<std::vector<Piece>> render(const nlohmann::ordered_json& context,
                                    const RenderOptions& options = {}) const;

  const std::string& name() const;

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace strata::jinja
