#include "apps/help.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "apps/options.h"

namespace strata::apps {

namespace {

constexpr size_t kWidth = 100;
constexpr size_t kHelpColumn = 30;

// Breaks `text` at spaces so that no line passes kWidth when it starts at `column`.
std::string wrapped(std::string_view text, size_t column) {
  std::string out;
  size_t line = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (line > 0 && column + line + 1 + end > kWidth) {
      out += '\n';
      out.append(column, ' ');
      line = 0;
    }
    if (line > 0) {
      out += ' ';
      ++line;
    }
    out += text.substr(0, end);
    line += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string indented(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    out += fmt::format("  {}\n", lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

std::string spelling(const OptionSpec& row) {
  std::string out;
  for (const std::string_view name : row.all_names()) {
    out += out.empty() ? "" : ", ";
    out += name;
  }
  if (!row.is_flag() && !row.is_positional()) out += fmt::format(" {}", row.value_name);
  return out;
}

std::string explanation(const OptionSpec& row) {
  std::string out(row.help);
  if (row.repeatable) out += "; may be given more than once";
  if (!row.default_text.empty()) out += fmt::format(" (default: {})", row.default_text);
  return out;
}

std::string option_line(const OptionSpec& row) {
  std::string line = fmt::format("  {}", spelling(row));
  if (line.size() + 2 > kHelpColumn) {
    line += '\n';
    line.append(kHelpColumn, ' ');
  } else {
    line.append(kHelpColumn - line.size(), ' ');
  }
  return fmt::format("{}{}\n", line, wrapped(explanation(row), kHelpColumn));
}

std::string section(CommandId id, std::string_view title, bool (*wanted)(const OptionSpec&)) {
  std::string out;
  for (const OptionSpec& row : options()) {
    if ((row.commands & in(id)) != 0 && wanted(row)) out += option_line(row);
  }
  return out.empty() ? out : fmt::format("\n{}\n{}", title, out);
}

constexpr std::string_view kExitCodes =
    "Exit codes\n"
    "  0    done\n"
    "  1    failed: a missing or damaged file, a model that cannot be used, an input over a limit\n"
    "  2    the command line is wrong\n"
    "  130  stopped by Ctrl-C or SIGTERM before it was done (serve ends with 0)\n";

}  // namespace

std::string general_help() {
  std::string out =
      "strata runs language models of the architecture qwen4exp from GGUF files.\n\n"
      "Usage: strata COMMAND [MODEL] [options]\n\n"
      "Commands\n";
  for (const CommandSpec& spec : commands()) {
    out += fmt::format("  {:<10} {}\n", spec.name, spec.summary);
  }
  out += fmt::format("  {:<10} {}\n", "help", "explain a command: strata help run");
  out +=
      "\nWithout MODEL the embedded model strata-tiny answers: 24 million parameters trained on a\n"
      "small made-up world. It shows that everything works; it knows nothing of the real one.\n"
      "\nExamples\n"
      "  strata run -p \"What is 7 plus 12?\"\n"
      "  strata chat model.gguf\n"
      "  strata serve model-00001-of-00004.gguf --port 8080\n"
      "  strata inspect model.gguf --tensors\n"
      "\nstrata --version prints the version.\n\n";
  out += kExitCodes;
  return out;
}

std::string command_help(CommandId id) {
  const CommandSpec& spec = command(id);
  std::string out = fmt::format("strata {}: {}\n\nUsage: strata {} {}\n\n{}\n", spec.name,
                                spec.summary, spec.name, spec.usage, spec.description);
  out += fmt::format("\nExamples\n{}", indented(spec.examples));
  out += section(id, "Arguments", [](const OptionSpec& row) { return row.is_positional(); });
  out += section(id, "Options", [](const OptionSpec& row) {
    return !row.is_positional() && row.visibility == Visibility::kVisible;
  });
  out += section(id, "Diagnostics",
                 [](const OptionSpec& row) { return row.visibility == Visibility::kDiagnostic; });
  out += section(id, "Taken from command lines of other engines",
                 [](const OptionSpec& row) { return row.visibility == Visibility::kAccepted; });
  return fmt::format("{}\n{}", out, kExitCodes);
}

std::string options_markdown() {
  std::string out;
  for (const CommandSpec& spec : commands()) {
    out += fmt::format("{}## strata {}\n\n`strata {} {}`\n\n", out.empty() ? "" : "\n", spec.name,
                       spec.name, spec.usage);
    out += "| option | default | meaning |\n|---|---|---|\n";
    for (const OptionSpec& row : options()) {
      if ((row.commands & in(spec.id)) == 0) continue;
      std::string help(row.help);
      if (row.repeatable) help += "; may be given more than once";
      if (row.visibility == Visibility::kDiagnostic) help += " (diagnostic)";
      for (size_t at = 0; (at = help.find('|', at)) != std::string::npos; at += 2) {
        help.insert(at, 1, '\\');
      }
      out +=
          fmt::format("| `{}` | {} | {} |\n", spelling(row),
                      row.default_text.empty() ? "" : fmt::format("`{}`", row.default_text), help);
    }
  }
  return out;
}

}  // namespace strata::apps
