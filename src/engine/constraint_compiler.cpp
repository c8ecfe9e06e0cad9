#include "engine/constraint_compiler.h"

#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/builder.h"
#include "text/grammar/free_text.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/json_text.h"
#include "text/grammar/regex.h"
#include "text/grammar/tool_call.h"

namespace strata::engine {

namespace {

constexpr size_t kKept = 8;
constexpr std::string_view kThinkingEnd = "</think>";

using grammar::ExprId;
using grammar::GrammarBuilder;
using grammar::JsonText;

class Composer {
 public:
  explicit Composer(const ConstraintSpec& spec) : spec_(spec), text_(builder_) {}

  Result<grammar::Grammar> run() {
    STRATA_ASSIGN_OR_RETURN(ExprId root, started());
    if (spec_.after_thinking) root = after(kThinkingEnd, root);
    return builder_.build(root);
  }

 private:
  // Free text through `marker`, at most two line ends, then `e`.
  ExprId after(std::string_view marker, ExprId e) {
    return builder_.concat({builder_.embed(grammar::bytes_through(marker)),
                            builder_.repeat(builder_.literal("\n"), 0, 2), e});
  }

  Result<ExprId> started() {
    if (spec_.start == ConstraintStart::kAtOnce) return language(0);
    if (spec_.start_text.empty()) {
      return invalid_argument("a constraint that starts after a text needs that text");
    }
    if (spec_.start == ConstraintStart::kAfterText) {
      STRATA_ASSIGN_OR_RETURN(const ExprId e, language(0));
      return after(spec_.start_text, e);
    }
    if (spec_.kind != ConstraintKind::kToolCalls ||
        !grammar::kToolCallOpening.starts_with(spec_.start_text)) {
      return invalid_argument(
          "only tool calls can start with a trigger, which is the beginning of {}",
          grammar::kToolCallOpening);
    }
    STRATA_ASSIGN_OR_RETURN(const ExprId rest, language(spec_.start_text.size()));
    return builder_.either(
        {builder_.embed(grammar::bytes_without(spec_.start_text)),
         builder_.concat({builder_.embed(grammar::bytes_through(spec_.start_text)), rest})});
  }

  Result<ExprId> language(size_t skip) {
    if (spec_.kind == ConstraintKind::kToolCalls) return calls(skip);
    STRATA_ASSIGN_OR_RETURN(ExprId answer, this->answer());
    if (spec_.tools.empty()) return answer;
    STRATA_ASSIGN_OR_RETURN(const ExprId called, calls(0));
    return builder_.either({answer, called});
  }

  Result<ExprId> calls(size_t skip) {
    std::vector<grammar::ToolSignature> tools;
    for (const ConstraintTool& t : spec_.tools) tools.push_back({t.name, t.parameters, t.strict});
    return grammar::compile_tool_calls(builder_, text_, tools, spec_.parallel_calls, skip);
  }

  Result<ExprId> answer() {
    switch (spec_.kind) {
      case ConstraintKind::kJsonObject: return text_.any_object();
      case ConstraintKind::kJsonSchema:
        return grammar::compile_json_schema(builder_, text_, spec_.schema);
      case ConstraintKind::kRegex:
        return grammar::compile_regex(builder_, spec_.text, grammar::RegexMatch::kWhole,
                                      grammar::write_utf8);
      case ConstraintKind::kGrammar: return grammar::compile_gbnf(builder_, spec_.text);
      case ConstraintKind::kToolCalls: break;
    }
    return internal_error("a constraint of an unknown kind");
  }

  const ConstraintSpec& spec_;
  GrammarBuilder builder_;
  JsonText text_;
};

std::string_view subject(ConstraintKind kind) {
  switch (kind) {
    case ConstraintKind::kJsonObject: return "the JSON constraint";
    case ConstraintKind::kJsonSchema: return "the JSON schema";
    case ConstraintKind::kRegex: return "the regular expression";
    case ConstraintKind::kGrammar: return "the grammar";
    case ConstraintKind::kToolCalls: return "the tools";
  }
  return "the constraint";
}

// Everything the grammar depends on.
std::string key_of(const ConstraintSpec& spec) {
  nlohmann::ordered_json key = {
      static_cast<int>(spec.kind),  spec.text,       spec.schema,        spec.parallel_calls,
      static_cast<int>(spec.start), spec.start_text, spec.after_thinking};
  for (const ConstraintTool& t : spec.tools) key.push_back({t.name, t.parameters, t.strict});
  return key.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::shared_ptr<grammar::MaskCache> ConstraintCompiler::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if (it->first != key) continue;
    recent_.splice(recent_.begin(), recent_, it);
    return it->second;
  }
  return nullptr;
}

std::shared_ptr<const grammar::Vocabulary> ConstraintCompiler::vocabulary() {
  const std::lock_guard lock(mutex_);
  if (!vocabulary_) {
    std::vector<std::pair<std::string_view, TokenId>> tokens;
    for (TokenId id = 0; id < tokenizer_.vocab_size(); ++id) {
      if (!tokenizer_.is_control(id)) tokens.emplace_back(tokenizer_.token_bytes(id), id);
    }
    vocabulary_ = std::make_shared<grammar::Vocabulary>(
        std::move(tokens), tokenizer_.end_of_generation(), tokenizer_.vocab_size());
  }
  return vocabulary_;
}

Result<grammar::Matcher> ConstraintCompiler::compile(const ConstraintSpec& spec) {
  const std::string key = key_of(spec);
  if (auto known = find(key)) return grammar::Matcher(std::move(known));
  auto grammar = Composer(spec).run();
  if (!grammar.ok()) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("{} cannot be followed: {}", subject(spec.kind), grammar.status().message()),
        !spec.field.empty()                        ? spec.field
        : spec.kind == ConstraintKind::kToolCalls ? "tools"
                                                  : "response_format");
  }
  auto cache = std::make_shared<grammar::MaskCache>(
      std::make_shared<const grammar::Grammar>(std::move(*grammar)), vocabulary());
  {
    const std::lock_guard lock(mutex_);
    recent_.emplace_front(key, cache);
    if (recent_.size() > kKept) recent_.pop_back();
  }
  return grammar::Matcher(std::move(cache));
}

}  // namespace strata::engine
