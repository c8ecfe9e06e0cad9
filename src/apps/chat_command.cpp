#include <algorithm>
#include <csignal>
#include <cstdio>

#include "apps/answer.h"
#include "apps/commands.h"
#include "apps/conversation.h"
#include "apps/exit_code.h"
#include "apps/files.h"
#include "apps/line_reader.h"
#include "apps/model_source.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "engine/local_engine.h"
#include "text/utf8.h"

namespace strata::apps {

namespace {

class Chat {
 public:
  Chat(const Settings& settings, engine::Engine& engine, SignalQueue& signals, LineReader& lines)
      : settings_(settings), engine_(engine), signals_(signals), lines_(lines) {
    conversation_.set_system(clean(settings.system));
  }

  // Until the input ends, /quit, or a signal that ends more than an answer.
  int run();

 private:
  struct Command {
    std::string_view name;
    std::string_view argument;  // empty: takes none
    std::string_view help;
    Status (Chat::*act)(const std::string& argument);
  };
  static const Command kCommands[];

  static std::optional<std::string> clean(const std::optional<std::string>& text) {
    return text ? std::optional(text::to_valid_utf8(*text)) : std::nullopt;
  }
  // What the program says, as opposed to the model.
  static void say(std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  }

  LineReader::Read read_turn();
  Status obey(const std::string& line);
  Status answer();

  Status help(const std::string&);
  Status clear(const std::string&);
  Status system(const std::string& text);
  Status think(const std::string& word);
  Status effort(const std::string& word);
  Status temperature(const std::string& value);
  Status seed(const std::string& value);
  Status undo(const std::string&);
  Status retry(const std::string&);
  Status save(const std::string& path);
  Status load(const std::string& path);
  Status show_statistics(const std::string&);
  Status quit(const std::string&);

  Settings settings_;
  engine::Engine& engine_;
  SignalQueue& signals_;
  LineReader& lines_;
  Conversation conversation_;
  std::optional<engine::Usage> usage_;  // of the last answer
  bool done_ = false;
  bool stopped_ = false;  // by a signal
};

const Chat::Command Chat::kCommands[] = {
    {"/help", "", "show these commands", &Chat::help},
    {"/clear", "", "begin a new conversation; the system message stays", &Chat::clear},
    {"/system", "TEXT", "set the system message; without TEXT take it away", &Chat::system},
    {"/think", "on|off", "think before an answer, or do not", &Chat::think},
    {"/effort", "WORD", "how long to think: xhigh, medium, low", &Chat::effort},
    {"/temp", "X", "temperature; 0 takes the most probable token", &Chat::temperature},
    {"/seed", "N", "the same seed gives the same answer", &Chat::seed},
    {"/undo", "", "take back the last question and its answer", &Chat::undo},
    {"/retry", "", "answer the last question again", &Chat::retry},
    {"/save", "FILE", "write the conversation to FILE as JSON", &Chat::save},
    {"/load", "FILE", "go on with a saved conversation", &Chat::load},
    {"/stats", "", "tokens and speed of the last answer", &Chat::show_statistics},
    {"/quit", "", "end the chat, as Ctrl-D does", &Chat::quit},
};

int Chat::run() {
  if (lines_.interactive()) {
    say(fmt::format("{}, {} tokens of context. /help shows the commands, Ctrl-D ends the chat.",
                    engine_.info().id, engine_.info().context_length));
  }
  bool failed = false;
  while (!done_) {
    const LineReader::Read read = read_turn();
    if (read.outcome == LineReader::Outcome::kEnd) break;
    if (read.outcome == LineReader::Outcome::kInterrupted) {
      if (!lines_.interactive() || read.signal != SIGINT) return kInterrupted;
      continue;
    }
    if (read.line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Status status;
    if (read.line.starts_with('/')) {
      status = obey(read.line);
    } else {
      conversation_.ask(text::to_valid_utf8(read.line));
      status = answer();
      if (!status.ok()) conversation_.undo();
    }
    if (!status.ok()) {
      complain(status.message());
      failed = true;
    }
    if (stopped_) return kInterrupted;
  }
  // A person has seen the failure and gone on; a script has only the exit code.
  return failed && !lines_.interactive() ? kFailure : kSuccess;
}

// One line, or several that end with a backslash.
LineReader::Read Chat::read_turn() {
  LineReader::Read turn = lines_.read("> ");
  while (turn.outcome == LineReader::Outcome::kLine && turn.line.ends_with('\\')) {
    turn.line.back() = '\n';
    LineReader::Read next = lines_.read(". ");
    if (next.outcome != LineReader::Outcome::kLine) return next;
    turn.line += next.line;
  }
  return turn;
}

Status Chat::obey(const std::string& line) {
  const size_t space = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, space);
  const size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
  std::string argument = line.substr(begin);
  argument.erase(argument.find_last_not_of(" \r") + 1);
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) {
    if (command.name == name) {
      if (command.argument.empty() && !argument.empty()) {
        return invalid_argument("{} takes nothing after it", name);
      }
      return (this->*command.act)(argument).with_context(name);
    }
    names.push_back(command.name);
  }
  if (const auto near = nearest(name, names)) {
    return invalid_argument("there is no command {}; did you mean {}?", in_quotes(name), *near);
  }
  return invalid_argument("there is no command {}; /help lists them", in_quotes(name));
}

Status Chat::answer() {
  engine::ChatRequest chat;
  chat.messages = conversation_.messages();
  chat.template_kwargs = template_kwargs(settings_);
  STRATA_ASSIGN_OR_RETURN(engine::RenderedChat rendered, engine_.render_chat(chat));
  STRATA_ASSIGN_OR_RETURN(
      Answer answer, give_answer(engine_, generate_request(settings_, std::move(rendered.tokens)),
                                 {.split_thinking = true,
                                  .starts_in_thinking = rendered.starts_in_reasoning,
                                  .show_thinking = settings_.show_thinking,
                                  .quiet = settings_.quiet},
                                 signals_));
  usage_ = answer.end.usage;
  if (answer.end.reason == engine::FinishReason::kLength && !settings_.quiet) {
    say("(the answer was cut: the limit of tokens or the context is reached)");
  }
  conversation_.answer({std::move(answer.thinking), std::move(answer.content)});
  stopped_ = answer.signal != 0 && (!lines_.interactive() || answer.signal != SIGINT);
  return {};
}

Status Chat::help(const std::string&) {
  for (const Command& command : kCommands) {
    say(fmt::format("  {:<16} {}", fmt::format("{} {}", command.name, command.argument),
                    command.help));
  }
  say("  A line that ends with \\ goes on in the next one. Ctrl-C stops an answer.");
  return {};
}

Status Chat::clear(const std::string&) {
  conversation_.clear();
  return {};
}

Status Chat::system(const std::string& text) {
  conversation_.set_system(text.empty() ? std::nullopt : std::optional(text::to_valid_utf8(text)));
  return {};
}

Status Chat::think(const std::string& word) {
  constexpr std::string_view kWords[] = {"on", "off"};
  STRATA_ASSIGN_OR_RETURN(const size_t index, read_choice(word, kWords));
  settings_.no_think = index == 1;
  if (!settings_.no_think && settings_.effort == "none") settings_.effort.clear();
  return {};
}

Status Chat::effort(const std::string& word) {
  return set_option(CommandId::kChat, "--effort", word, settings_);
}

Status Chat::temperature(const std::string& value) {
  return set_option(CommandId::kChat, "--temp", value, settings_);
}

Status Chat::seed(const std::string& value) {
  return set_option(CommandId::kChat, "--seed", value, settings_);
}

Status Chat::undo(const std::string&) {
  return conversation_.undo() ? Status() : failed_precondition("there is nothing to take back");
}

Status Chat::retry(const std::string&) {
  if (!conversation_.reopen()) return failed_precondition("there is no question to answer again");
  return answer();
}

Status Chat::save(const std::string& path) {
  if (path.empty()) return invalid_argument("expected the name of a file");
  return write_text(path, conversation_.to_json());
}

Status Chat::load(const std::string& path) {
  if (path.empty()) return invalid_argument("expected the name of a file");
  STRATA_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  auto loaded = Conversation::from_json(text);
  if (!loaded.ok()) return loaded.status().with_context(path);
  conversation_ = std::move(*loaded);
  say(fmt::format("{} turns", conversation_.turns()));
  return {};
}

Status Chat::show_statistics(const std::string&) {
  if (!usage_) return failed_precondition("there is no answer yet");
  say(statistics(*usage_));
  return {};
}

Status Chat::quit(const std::string&) {
  done_ = true;
  return {};
}

Result<int> chat(const Settings& settings) {
  SignalQueue signals;
  const auto engine = engine::start_local_engine(engine_options(settings));
  STRATA_RETURN_IF_ERROR(wait_until_ready(*engine, signals, settings.quiet));
  if (!engine->info().has_chat_template) {
    return failed_precondition("{} has no chat template; use \"strata run --raw\"",
                               engine->info().path);
  }
  const auto lines = LineReader::open(signals, settings.history_file);
  return Chat(settings, *engine, signals, *lines).run();
}

}  // namespace

int chat_command(const Settings& settings) {
  const Result<int> code = chat(settings);
  return code.ok() ? *code : report_failure(code.status());
}

}  // namespace strata::apps
