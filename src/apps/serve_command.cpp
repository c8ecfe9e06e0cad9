#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/files.h"
#include "apps/interrupt.h"
#include "apps/model_source.h"
#include "apps/report.h"
#include "base/log.h"
#include "engine/local_engine.h"
#include "server/server.h"

namespace strata::apps {

namespace {

// One key a line; blank lines and lines that begin with # are no keys.
Status read_api_keys(const std::string& path, std::vector<std::string>& keys) {
  STRATA_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  const size_t before = keys.size();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t last = line.find_last_not_of(" \t\r");
    line.erase(last == std::string::npos ? 0 : last + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    if (!line.empty() && line.front() != '#') keys.push_back(std::move(line));
  }
  if (keys.size() == before) {
    return invalid_argument("{} holds no key; write one key a line, or leave out --api-key-file",
                            path);
  }
  return {};
}

std::string url(const server::ServerOptions& options, uint16_t port) {
  const std::string& host = options.host;
  const char* scheme = options.tls_certificate_file.empty() ? "http" : "https";
  const bool bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return bare_ipv6 ? fmt::format("{}://[{}]:{}", scheme, host, port)
                   : fmt::format("{}://{}:{}", scheme, host, port);
}

// Serves until a signal comes. Fails when the model cannot be loaded.
Status serve(const engine::Engine& engine, SignalQueue& signals) {
  constexpr int kPollMs = 50;
  for (;;) {
    const engine::EngineState state = engine.state();
    if (state.stage == engine::EngineStage::kFailed) return unavailable("{}", state.message);
    if (state.stage == engine::EngineStage::kReady) break;
    if (signals.wait(kPollMs) != 0) return {};
  }
  const engine::ModelInfo& info = engine.info();
  write_out(fmt::format("ready: {} ({}), {} tokens of context\n", info.id, info.path,
                        info.context_length));
  signals.wait(-1);
  return {};
}

}  // namespace

int serve_command(const Settings& settings) {
  server::ServerOptions options = settings.server;
  if (!settings.api_key_file.empty()) {
    const Status status = read_api_keys(settings.api_key_file, options.api_keys);
    if (!status.ok()) return report_failure(status);
  }
  // Whoever reads our output may go away; the server stays.
  std::signal(SIGPIPE, SIG_IGN);
  SignalQueue signals;
  const auto engine = engine::start_local_engine(engine_options(settings));
  auto server = server::Server::start(options, *engine);
  if (!server.ok()) {
    // The engine may be loading for a long time yet, and that cannot be called off.
    report_failure(server.status());
    std::_Exit(kFailure);
  }
  write_out(fmt::format("listening on {}\n", url(options, (*server)->port())));
  const Status status = serve(*engine, signals);
  if (!status.ok()) {
    (*server)->stop();
    return report_failure(status);
  }
  log::info("stopping");
  const bool loaded = engine->state().stage == engine::EngineStage::kReady;
  const SignalWatch impatience(signals, [](int) { std::_Exit(kInterrupted); });
  (*server)->stop();
  if (!loaded) std::_Exit(kSuccess);
  return kSuccess;
}

}  // namespace strata::apps
