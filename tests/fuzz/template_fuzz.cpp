// Input: a template, a zero byte, the variables as JSON (or nothing).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = std::min(input.find('\0'), input.size());
  Json context = Json::parse(input.substr(std::min(zero + 1, input.size())), nullptr, false);
  if (!context.is_object()) {
    context = {{"messages", {{{"role", "user"}, {"content", "a <b> \xC3\xA9"}}}},
               {"n", 3},
               {"s", "text"},
               {"d", {{"k", "v"}, {"l", {1, 2.5, nullptr, true}}}}};
  }
  const auto parsed = strata::jinja::Template::parse(std::string(input.substr(0, zero)));
  if (!parsed.ok()) return 0;
  strata::jinja::RenderOptions options;
  options.now = std::chrono::sys_seconds(std::chrono::seconds(size) * 100'000);
  options.trusted = {{"bos_token", "<s>"}};
  options.limits.steps = 100'000;
  options.limits.memory_bytes = std::size_t{16} << 20;
  const auto pieces = parsed->render(context, options);
  if (pieces.ok()) {
    for (const auto& piece : *pieces) {
      if (piece.text.empty()) __builtin_trap();
    }
  }
  return 0;
}
