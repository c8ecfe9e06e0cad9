// The real server over an engine that answers by a script, for clients that must see certain
// answers. Prints "listening on http://127.0.0.1:PORT" and serves until standard input ends.
//
//   fake_server SCRIPT
//
// SCRIPT is a JSON array of rules, or an object of "rules" and any of "id" (of the model), "context"
// (tokens), "key" (the API key), "parallel" (requests at a time), "degraded" (why) and "engine" (what
// the engine tells about itself).
//
// The first rule answers whose "all" texts are in the prompt, none of whose "none" texts is, and whose
// "last" text is in the last message. Of a rule: "text" (the answer), "thinking" (put before it), "cut" (bytes
// of a piece, 3), "delay_ms" (before each piece, 0), "prompt_delay_ms" (0), "repeat" (1), "finish"
// ("stop" or "length"), "progress", "timed", "numbered" (see FakeAnswer), "whole_tokens" (each piece
// counts as one token), "failure" (a sentence: the stream ends with it), "refusal" ("full" or
// "unavailable"), "refusals" (so many, then the rule answers; without it there is no end).
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>

#include "base/log.h"
#include "server/server.h"
#include "support/fake_engine.h"

namespace {

using Json = nlohmann::json;
using strata::test::FakeAnswer;
using std::chrono::milliseconds;

bool holds(const std::string& prompt, const Json& rule) {
  const auto contains = [&](const Json& text) {
    return prompt.find(text.get_ref<const std::string&>()) != std::string::npos;
  };
  for (const Json& text : rule.value("all", Json::array())) {
    if (!contains(text)) return false;
  }
  for (const Json& text : rule.value("none", Json::array())) {
    if (contains(text)) return false;
  }
  const size_t last = std::min(prompt.rfind("[user]"), prompt.size());
  return prompt.find(rule.value("last", ""), last) != std::string::npos;
}

FakeAnswer answer_of(const Json& rule) {
  FakeAnswer answer;
  const std::string thinking = rule.value("thinking", "");
  const std::string text =
      (thinking.empty() ? "" : "<think>\n" + thinking + "\n</think>\n\n") + rule.value("text", "");
  const size_t cut = rule.value("cut", size_t{3});
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(at + cut, text.size());
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    answer.pieces.push_back({text.substr(at, end - at), {}, {}, milliseconds(rule.value("delay_ms", 0))});
    if (rule.value("whole_tokens", false)) answer.pieces.back().tokens = {0};
    at = end;
  }
  answer.prompt_delay = milliseconds(rule.value("prompt_delay_ms", 0));
  answer.repeat = rule.value("repeat", 1);
  answer.numbered = rule.value("numbered", false);
  answer.progress = rule.value("progress", 0);
  answer.timed = rule.value("timed", false);
  if (rule.contains("failure")) answer.failure = strata::internal_error("{}", rule.value("failure", ""));
  const std::string refusal = rule.value("refusal", "");
  if (refusal == "full") answer.refusal = strata::resource_exhausted("8 requests are waiting already");
  if (refusal == "unavailable") answer.refusal = strata::unavailable("the model rests");
  if (rule.value("finish", "stop") == "length") {
    answer.reason = strata::engine::FinishReason::kLength;
  }
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  // Whoever starts this reads one line of its output and then no more.
  strata::log::init("warn");
  if (argc != 2) {
    std::fprintf(stderr, "usage: fake_server SCRIPT\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const auto read = nlohmann::ordered_json::parse(file, nullptr, false);
  const Json setup = read.is_object() ? Json(read) : Json::object();
  const Json script = read.is_object() ? setup.value("rules", Json()) : Json(read);
  if (!script.is_array()) {
    std::fprintf(stderr, "%s holds no rules\n", argv[1]);
    return 2;
  }
  strata::test::FakeEngine engine(setup.value("parallel", 1));
  engine.set_context_length(setup.value("context", 4 << 20));
  engine.set_id(setup.value("id", "fake-model"));
  if (setup.contains("engine")) engine.set_description(read["engine"]);
  if (setup.contains("degraded")) {
    engine.set_state({strata::engine::EngineStage::kReady, 1.0, "ready", setup["degraded"]});
  }
  engine.set_forgetful();
  engine.set_script([&script, refused = std::map<const Json*, int>()](
                        const std::string& prompt) mutable {
    for (const Json& rule : script) {
      if (!holds(prompt, rule)) continue;
      FakeAnswer answer = answer_of(rule);
      const bool no_more = rule.contains("refusals") && refused[&rule] >= rule["refusals"];
      if (no_more) answer.refusal.reset();
      if (answer.refusal) ++refused[&rule];
      return answer;
    }
    FakeAnswer none;
    none.pieces = {{"no rule"}};
    return none;
  });
  strata::server::ServerOptions options;
  options.port = 0;
  options.max_connections = 1024;
  if (setup.contains("key")) options.api_keys = {setup["key"].get<std::string>()};
  auto server = strata::server::Server::start(options, engine);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().message().c_str());
    return 1;
  }
  std::printf("listening on http://127.0.0.1:%d\n", (*server)->port());
  std::fflush(stdout);
  while (std::cin.get() != std::char_traits<char>::eof()) {
  }
  return 0;
}
