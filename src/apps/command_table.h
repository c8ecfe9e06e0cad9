// The commands of the program and what their help says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace strata::apps {

enum class CommandId : uint8_t { kRun, kChat, kServe, kInspect, kTokenize, kEval, kBench, kDoctor, kKernels, kPlan };
inline constexpr int kCommandCount = 10;

// A set of commands, one bit each.
using CommandSet = uint32_t;
constexpr CommandSet in(CommandId id) { return CommandSet{1} << static_cast<int>(id); }

struct CommandSpec {
  CommandId id;
  std::string_view name;
  std::string_view summary;      // one line for the list of commands
  std::string_view usage;        // what follows "strata NAME"
  std::string_view description;  // paragraphs, each line at most 100 columns
  std::string_view examples;     // lines to type
};

// In the order of CommandId.
std::span<const CommandSpec> commands();
const CommandSpec& command(CommandId id);
std::optional<CommandId> find_command(std::string_view name);

}  // namespace strata::apps
