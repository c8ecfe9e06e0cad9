#include <cstdio>

#include <unistd.h>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/files.h"
#include "apps/model_source.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "engine/local_engine.h"
#include "text/utf8.h"

namespace strata::apps {

namespace {

Status check(const Settings& settings) {
  const char* chat_option = settings.system            ? "--system"
                            : settings.no_think        ? "--no-think"
                            : !settings.effort.empty() ? "--effort"
                                                       : nullptr;
  if (settings.raw && chat_option != nullptr) {
    return invalid_argument("{} speaks to the chat template, which --raw leaves out; drop one",
                            chat_option);
  }
  if (!settings.prompt && settings.prompt_file.empty() && is_terminal(STDIN_FILENO)) {
    return invalid_argument("there is no prompt; give -p TEXT or -f FILE, or pipe a text in");
  }
  return {};
}

Result<std::string> read_prompt(const Settings& settings) {
  std::string prompt = settings.prompt.value_or("");
  if (settings.prompt && settings.prompt_file.empty()) return prompt;
  STRATA_ASSIGN_OR_RETURN(const std::string more,
                          read_text(settings.prompt_file.empty() ? "-" : settings.prompt_file));
  if (settings.prompt) prompt += "\n\n";
  return prompt + more;
}

struct Prompt {
  std::vector<TokenId> tokens;
  bool starts_in_thinking = false;
};

Result<Prompt> encode(const Settings& settings, const engine::Engine& engine,
                      const std::string& text) {
  Prompt prompt;
  if (settings.raw) {
    STRATA_ASSIGN_OR_RETURN(prompt.tokens, engine.tokenize(text, /*parse_special=*/true));
    return prompt;
  }
  if (!engine.info().has_chat_template) {
    return failed_precondition("{} has no chat template; use --raw to continue a plain text",
                               engine.info().path);
  }
  engine::ChatRequest chat;
  chat.messages = nlohmann::ordered_json::array();
  if (settings.system) {
    chat.messages.push_back(
        {{"role", "system"}, {"content", text::to_valid_utf8(*settings.system)}});
  }
  chat.messages.push_back({{"role", "user"}, {"content", text::to_valid_utf8(text)}});
  chat.template_kwargs = template_kwargs(settings);
  STRATA_ASSIGN_OR_RETURN(engine::RenderedChat rendered, engine.render_chat(chat));
  prompt.tokens = std::move(rendered.tokens);
  prompt.starts_in_thinking = rendered.starts_in_reasoning;
  return prompt;
}

void print_logprobs(const Answer& answer) {
  for (const engine::TokenLogprob& token : answer.logprobs) {
    std::string line =
        fmt::format("{} {} {:.4f}", token.token, in_quotes(token.bytes), token.logprob);
    for (const engine::TopLogprob& other : token.top) {
      line += fmt::format("  {} {} {:.4f}", other.token, in_quotes(other.bytes), other.logprob);
    }
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

Result<Answer> answer_prompt(const Settings& settings, const std::string& text,
                             SignalQueue& signals) {
  const auto engine = engine::start_local_engine(engine_options(settings));
  STRATA_RETURN_IF_ERROR(wait_until_ready(*engine, signals, settings.quiet));
  STRATA_ASSIGN_OR_RETURN(Prompt prompt, encode(settings, *engine, text));
  return give_answer(*engine, generate_request(settings, std::move(prompt.tokens)),
                     {.split_thinking = !settings.raw,
                      .starts_in_thinking = prompt.starts_in_thinking,
                      .show_thinking = settings.show_thinking,
                      .quiet = settings.quiet},
                     signals);
}

}  // namespace

int run_command(const Settings& settings) {
  if (const Status status = check(settings); !status.ok()) {
    return report_usage(CommandId::kRun, status);
  }
  const Result<std::string> text = read_prompt(settings);
  if (!text.ok()) return report_failure(text.status());
  if (text->empty()) {
    return report_usage(CommandId::kRun, invalid_argument("the prompt is empty"));
  }
  SignalQueue signals;
  const Result<Answer> answer = answer_prompt(settings, *text, signals);
  if (!answer.ok()) return report_failure(answer.status());
  print_logprobs(*answer);
  if (!settings.quiet && answer->end.reason == engine::FinishReason::kLength &&
      answer->content.empty() && !answer->thinking.empty()) {
    complain(
        "the limit of tokens was reached while the model was thinking; raise -n or --context, "
        "lower --effort, or use --no-think");
  }
  if (!settings.quiet) {
    std::fprintf(stderr, "%s\n", statistics(answer->end.usage).c_str());
  }
  return answer->end.reason == engine::FinishReason::kCancelled ? kInterrupted : kSuccess;
}

}  // namespace strata::apps
