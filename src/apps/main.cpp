#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "apps/command_line.h"
#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/files.h"
#include "apps/help.h"
#include "apps/report.h"
#include "base/log.h"

namespace strata::apps {
namespace {

int usage_error(const Status& status) {
  complain(fmt::format("{}; see \"strata help\"", status.message()));
  return kUsageError;
}

int help(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return print_result(general_help());
  if (arguments.size() > 1) {
    return usage_error(invalid_argument("help takes the name of one command"));
  }
  if (arguments[0] == "help") return print_result(general_help());
  if (arguments[0] == "--options-markdown") return print_result(options_markdown());
  const auto id = find_command(arguments[0]);
  if (!id) return usage_error(unknown_command(arguments[0]));
  return print_result(command_help(*id));
}

int dispatch(CommandId id, const Settings& settings) {
  switch (id) {
    case CommandId::kRun: return run_command(settings);
    case CommandId::kChat: return chat_command(settings);
    case CommandId::kServe: return serve_command(settings);
    case CommandId::kInspect: return inspect_command(settings);
    case CommandId::kTokenize: return tokenize_command(settings);
    case CommandId::kEval: return eval_command(settings);
    case CommandId::kBench: return bench_command(settings);
    case CommandId::kDoctor: return doctor_command(settings);
    case CommandId::kKernels: return kernels_command(settings);
    case CommandId::kPlan: return plan_command(settings);
  }
  return kUsageError;
}

int run(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    complain("no command was given");
    std::fputs(general_help().c_str(), stderr);
    return kUsageError;
  }
  std::string first = arguments.front();
  arguments.erase(arguments.begin());
  if (first == "--serve") first = "serve";  // as other engines are started
  if (first == "help" || first == "--help" || first == "-h") return help(arguments);
  if (first == "--version" || first == "-V") return print_result("strata " STRATA_VERSION "\n");
  const auto id = find_command(first);
  if (!id) return usage_error(unknown_command(first));
  const Result<Settings> settings = read_arguments(*id, arguments);
  if (!settings.ok()) return report_usage(*id, settings.status());
  if (settings->help) return print_result(command_help(*id));
  log::init(settings->log_level);
  return dispatch(*id, *settings);
}

}  // namespace
}  // namespace strata::apps

int main(int argc, char** argv) {
  // The last edge: what the standard library throws (no memory) becomes a sentence here.
  try {
    return strata::apps::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    strata::apps::complain(fmt::format("stopped by an unexpected failure: {}", error.what()));
    return strata::apps::kFailure;
  }
}
