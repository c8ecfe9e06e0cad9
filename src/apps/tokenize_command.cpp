#include <unistd.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/files.h"
#include "apps/model_source.h"
#include "apps/report.h"
#include "apps/token_ids.h"
#include "engine/model_text.h"

namespace strata::apps {

namespace {

// A lone argument that does not look like a model file is the text.
Settings sorted_arguments(Settings settings) {
  if (!settings.text && !settings.model.empty() && !settings.model.ends_with(".gguf")) {
    settings.text = std::move(settings.model);
    settings.model.clear();
  }
  return settings;
}

Status check(const Settings& settings) {
  const int sources = (settings.text ? 1 : 0) + (settings.prompt_file.empty() ? 0 : 1) +
                      (settings.detokenize ? 1 : 0);
  if (sources > 1) {
    return invalid_argument("give one of TEXT, -f FILE and --detokenize IDS");
  }
  if (settings.detokenize && (settings.plain || settings.ids_only)) {
    return invalid_argument("--plain and --ids-only do not go with --detokenize");
  }
  if (sources == 0 && is_terminal(STDIN_FILENO)) {
    return invalid_argument("there is no text; give one, or -f FILE, or pipe it in");
  }
  return {};
}

// Quoted as in JSON; bytes that are not UTF-8 show as U+FFFD.
std::string shown(std::string_view bytes) {
  return nlohmann::json(std::string(bytes))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::string> convert(const Settings& settings) {
  STRATA_ASSIGN_OR_RETURN(const GgufFile file, open_model_file(settings));
  STRATA_ASSIGN_OR_RETURN(const engine::ModelText text, engine::ModelText::read(file));
  const text::Tokenizer& tokenizer = text.tokenizer();
  if (settings.detokenize) {
    STRATA_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, read_ids(*settings.detokenize));
    return tokenizer.decode(ids, /*include_special=*/true);
  }
  std::string input = settings.text.value_or("");
  if (!settings.text) {
    STRATA_ASSIGN_OR_RETURN(input,
                            read_text(settings.prompt_file.empty() ? "-" : settings.prompt_file));
  }
  STRATA_ASSIGN_OR_RETURN(
      const std::vector<TokenId> ids,
      tokenizer.encode(input, settings.plain ? text::Special::kPlain : text::Special::kParse));
  if (settings.ids_only) return ids_text(ids) + "\n";
  std::string out;
  for (const TokenId id : ids) out += fmt::format("{} {}\n", id, shown(tokenizer.token_bytes(id)));
  return out;
}

}  // namespace

int tokenize_command(const Settings& given) {
  const Settings settings = sorted_arguments(given);
  if (const Status status = check(settings); !status.ok()) {
    return report_usage(CommandId::kTokenize, status);
  }
  const Result<std::string> result = convert(settings);
  return result.ok() ? print_result(*result) : report_failure(result.status());
}

}  // namespace strata::apps
