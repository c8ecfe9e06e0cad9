// The one table of options. The command line, the help and the documentation are made from it: an
// option that is not a row here does not exist.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command_table.h"
#include "base/status.h"
#include "engine/options.h"
#include "engine/planner/plan_device.h"
#include "engine/sampling_params.h"
#include "server/server_options.h"

namespace strata::apps {

// Everything a command can be told.
struct Settings {
  std::string model;  // path; empty: the embedded model
  bool help = false;
  std::string log_level;
  bool quiet = false;
  bool json = false;

  engine::EngineOptions engine;  // the model fields are filled in from `model` and `alias`
  std::string config_file;
  std::vector<engine::PlanDevice> assumed;  // devices described by hand, for plan
  std::string table_file;                   // --ple-gguf
  std::vector<std::string> device_options;  // applied to engine.devices once all is read
  std::string alias;

  // run, chat
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::optional<std::string> system;
  bool raw = false;
  bool no_think = false;
  std::string effort;
  bool show_thinking = false;
  bool show_special = false;
  engine::SamplingParams sampling;
  std::optional<int> max_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::string history_file;

  // serve
  server::ServerOptions server;
  std::string api_key_file;

  // inspect
  bool tensors = false;
  bool metadata = false;

  // tokenize
  std::optional<std::string> text;
  bool plain = false;
  bool ids_only = false;
  std::optional<std::string> detokenize;

  // eval
  std::string text_file;
  std::string tokens_file;
  std::string logits_file;
  std::string compare_file;
  std::optional<int> greedy;
  bool float_activations = false;

  // bench
  std::vector<int> prompts;
  std::vector<int> depths;
  std::vector<int> batch;
  int steps = 0;
  int repeat = 0;
  bool csv = false;
};

enum class Visibility {
  kVisible,
  kDiagnostic,  // for finding faults; listed apart
  kAccepted,    // known from another engine's command line; listed apart
};

struct OptionSpec {
  // "-n,--max-tokens", or a name without dashes for a positional argument.
  std::string_view names;
  std::string_view value_name;  // "N"; empty for a flag, which takes no value
  CommandSet commands;
  std::string_view default_text;  // what `set` is given first; empty: nothing
  std::string_view help;          // ends without a full stop
  Visibility visibility;
  bool repeatable;
  // Checks and stores one value; "" for a flag. The failure does not name the option.
  Status (*set)(Settings& settings, const std::string& value);

  bool is_flag() const { return value_name.empty(); }
  bool is_positional() const { return !names.starts_with('-'); }
  // The longest spelling: "--max-tokens", "MODEL".
  std::string_view long_name() const;
  std::vector<std::string_view> all_names() const;
};

// In the order of the help. Within a command every name is unique.
std::span<const OptionSpec> options();

// The settings of a command before its arguments are read: the defaults of its rows.
Result<Settings> default_settings(CommandId id);

// Joins what several options say together: which device an option of a device is for. Once, after
// everything is read.
Status settle(Settings& settings);

// Sets the option that a command knows by `name`, checked as on the command line.
Status set_option(CommandId id, std::string_view name, const std::string& value,
                  Settings& settings);

}  // namespace strata::apps
