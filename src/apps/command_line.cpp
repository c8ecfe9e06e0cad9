#include "apps/command_line.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "apps/config_file.h"
#include "apps/option_values.h"

namespace strata::apps {

namespace {

constexpr int kAnyNumber = -1;

std::vector<const OptionSpec*> options_of(CommandId id) {
  std::vector<const OptionSpec*> rows;
  for (const OptionSpec& row : options()) {
    if ((row.commands & in(id)) != 0) rows.push_back(&row);
  }
  return rows;
}

bool has_name(const OptionSpec& row, std::string_view name) {
  const auto names = row.all_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view without_dashes(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  return name;
}

// "--name=" is the parser's way to say "the value is the next argument"; here it says "empty".
std::vector<std::string> split_empty_values(std::span<const std::string> arguments,
                                            std::span<const OptionSpec* const> rows) {
  std::vector<std::string> out;
  for (const std::string& argument : arguments) {
    const bool empty_value =
        argument.starts_with("--") && argument.ends_with('=') &&
        std::any_of(rows.begin(), rows.end(), [&](const OptionSpec* row) {
          return has_name(*row, std::string_view(argument).substr(0, argument.size() - 1));
        });
    if (empty_value) {
      out.push_back(argument.substr(0, argument.size() - 1));
      out.emplace_back();
    } else {
      out.push_back(argument);
    }
  }
  return out;
}

// "--mtp FOLDER" and "--mtp" are both in use; here it is a flag.
std::vector<std::string> without_draft_folder(std::span<const std::string> arguments) {
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    out.push_back(arguments[i]);
    const bool folder = arguments[i] == "--mtp" && i + 1 < arguments.size() &&
                        !arguments[i + 1].starts_with('-') &&
                        arguments[i + 1].find('/') != std::string::npos;
    if (folder) ++i;
  }
  return out;
}

Status unknown_option(CommandId id, std::string_view argument,
                      std::span<const OptionSpec* const> rows) {
  const std::string_view command_name = command(id).name;
  const std::string_view name = argument.substr(0, argument.find('='));
  for (const OptionSpec& row : options()) {
    if (!has_name(row, name)) continue;
    std::string users;
    for (const CommandSpec& other : commands()) {
      if ((row.commands & in(other.id)) == 0) continue;
      users += users.empty() ? "" : ", ";
      users += other.name;
    }
    return invalid_argument("\"strata {}\" has no option {}; it belongs to: {}", command_name, name,
                            users);
  }
  std::vector<std::string_view> names;
  for (const OptionSpec* row : rows) {
    for (const std::string_view known : row->all_names()) {
      if (known.starts_with("--")) names.push_back(without_dashes(known));
    }
  }
  if (const auto near = nearest(without_dashes(name), names)) {
    return invalid_argument("\"strata {}\" has no option {}; did you mean --{}?", command_name,
                            in_quotes(name), *near);
  }
  return invalid_argument("\"strata {}\" has no option {}; \"strata help {}\" lists what it has",
                          command_name, in_quotes(name), command_name);
}

Status unexpected_argument(CommandId id, std::string_view argument,
                           std::span<const OptionSpec* const> rows) {
  std::string takes;
  for (const OptionSpec* row : rows) {
    if (!row->is_positional()) continue;
    takes += takes.empty() ? "" : " and ";
    takes += row->names;
  }
  return invalid_argument(
      "unexpected argument {}: \"strata {}\" takes {} and options; quote a text that has spaces",
      in_quotes(argument), command(id).name, takes);
}

Status apply(const OptionSpec& row, const std::vector<std::string>& values, Settings& settings) {
  if (values.size() > 1 && !row.repeatable && !row.is_flag()) {
    return invalid_argument("{} was given {} times; give it once", row.long_name(), values.size());
  }
  for (const std::string& value : values) {
    if (row.is_flag() && value != "true") {
      return invalid_argument("{}: this option takes no value", row.long_name());
    }
    const Status status = row.set(settings, row.is_flag() ? std::string() : value);
    if (!status.ok()) return status.with_context(row.long_name());
  }
  return {};
}

}  // namespace

Result<Settings> read_arguments(CommandId id, std::span<const std::string> arguments) {
  const std::vector<const OptionSpec*> rows = options_of(id);
  CLI::App parser;
  parser.set_help_flag();
  parser.allow_extras();
  std::vector<CLI::Option*> parsed;
  for (const OptionSpec* row : rows) {
    CLI::Option* option = nullptr;
    if (row->is_flag()) {
      option = parser.add_flag(std::string(row->names));
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else {
      option = parser.add_option(std::string(row->names));
      if (!row->is_positional()) {
        option->expected(1, kAnyNumber)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      }
      option->allow_extra_args(false);
    }
    parsed.push_back(option);
  }

  const std::vector<std::string> plain = without_draft_folder(arguments);
  std::vector<std::string> reversed = split_empty_values(plain, rows);
  std::reverse(reversed.begin(), reversed.end());
  try {
    parser.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& error) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i]->is_positional() && parsed[i]->count() == 0 && !arguments.empty() &&
          has_name(*rows[i], arguments.back())) {
        return invalid_argument("{}: expected {}, got nothing", arguments.back(),
                                rows[i]->value_name);
      }
    }
    return invalid_argument("{}", error.what());
  } catch (const CLI::Error& error) {
    return invalid_argument("{}", error.what());
  }

  STRATA_ASSIGN_OR_RETURN(Settings settings, default_settings(id));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (has_name(*rows[i], "--help") && parsed[i]->count() > 0) {
      settings.help = true;
      return settings;
    }
  }
  const std::vector<std::string> extras = parser.remaining();
  for (const std::string& extra : extras) {
    if (extra.size() > 1 && extra.starts_with('-')) return unknown_option(id, extra, rows);
  }
  if (!extras.empty()) return unexpected_argument(id, extras.front(), rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!has_name(*rows[i], "--config") || parsed[i]->count() == 0) continue;
    STRATA_RETURN_IF_ERROR(apply(*rows[i], parsed[i]->results(), settings));
    STRATA_RETURN_IF_ERROR(read_config_file(settings.config_file, id, settings));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (parsed[i]->count() == 0) continue;
    STRATA_RETURN_IF_ERROR(apply(*rows[i], parsed[i]->results(), settings));
  }
  STRATA_RETURN_IF_ERROR(settle(settings));
  return settings;
}

Status unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const CommandSpec& spec : commands()) {
    names.push_back(spec.name);
    list += fmt::format("{}, ", spec.name);
  }
  if (const auto near = nearest(name, names)) {
    return invalid_argument("there is no command {}; did you mean \"strata {}\"?", in_quotes(name),
                            *near);
  }
  return invalid_argument("there is no command {}; the commands are {}and help", in_quotes(name),
                          list);
}

}  // namespace strata::apps
