#include "text/jinja/template.h"

#include <new>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json_value.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace strata::jinja {

struct Template::Parsed {
  std::string name;
  Body body;
};

namespace {

constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20;

}  // namespace

const std::string& Template::name() const { return parsed_->name; }

Result<Template> Template::parse(std::string source, std::string name) {
  if (source.size() > kMaxSourceBytes) {
    return failed_precondition("the {} is larger than {} MiB", name, kMaxSourceBytes >> 20);
  }
  if (!text::is_valid_utf8(source)) return failed_precondition("the {} is not valid UTF-8", name);
  try {
    auto parsed = std::make_shared<Parsed>();
    parsed->body = Parser(tokenize(source)).parse();
    parsed->name = std::move(name);
    return Template(std::move(parsed));
  } catch (const Failure& failure) {
    return failed_precondition("{} line {}: {}", name, failure.line, failure.message);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("not enough memory to read the {}", name);
  }
}

Result<std::vector<Piece>> Template::render(const nlohmann::ordered_json& context,
                                            const RenderOptions& options) const {
  if (!context.is_object()) {
    return invalid_argument("the variables of the {} must be an object", name());
  }
  try {
    Interpreter interpreter(options.limits, options.now);
    try {
      for (const auto& [key, value] : context.items()) interpreter.define(key, from_json(value));
      for (const auto& [key, text] : options.trusted) {
        if (!text::is_valid_utf8(text)) return invalid_argument("{} is not valid UTF-8", key);
        interpreter.define(key, interpreter.make_text(text, true));
      }
      const Text text = interpreter.run(parsed_->body);
      std::vector<Piece> pieces;
      text.for_each_run([&](std::string_view run, bool trusted) {
        pieces.push_back({std::string(run), trusted});
      });
      return pieces;
    } catch (const Failure& failure) {
      if (failure.kind == FailureKind::kRaised) {
        return Status(StatusCode::kInvalidArgument, failure.message);
      }
      const StatusCode code = failure.kind == FailureKind::kLimit ? StatusCode::kOutOfRange
                                                                  : StatusCode::kInvalidArgument;
      const int line = failure.line != 0 ? failure.line : interpreter.line();
      return Status(code, line == 0 ? fmt::format("{}: {}", name(), failure.message)
                                    : fmt::format("{} line {}: {}", name(), line, failure.message));
    }
  } catch (const std::bad_alloc&) {
    return resource_exhausted("not enough memory to render the {}", name());
  }
}

}  // namespace strata::jinja
