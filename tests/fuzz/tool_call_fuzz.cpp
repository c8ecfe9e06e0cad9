// Feeds answers to the tool call reader, cut where the first bytes say: the pieces do not depend on
// the cut, calls end with valid JSON, and text that holds no call is not changed.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/tool_call_parser.h"

namespace {

using namespace strata::server;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Read {
  std::string text;
  std::vector<std::string> names;
  std::vector<std::string> arguments;
  size_t ended = 0;
  bool operator==(const Read&) const = default;
};

Read read(const ToolSet& tools, std::string_view text, size_t cut) {
  ToolCallParser parser(tools);
  Read out;
  const auto take = [&](const std::vector<CallPiece>& pieces) {
    for (const CallPiece& piece : pieces) {
      switch (piece.kind) {
        case CallPiece::Kind::kText: out.text += piece.text; break;
        case CallPiece::Kind::kBegin:
          out.names.push_back(piece.text);
          out.arguments.emplace_back();
          break;
        case CallPiece::Kind::kArguments: out.arguments.back() += piece.text; break;
        case CallPiece::Kind::kEnd: ++out.ended; break;
      }
    }
  };
  std::vector<CallPiece> pieces;
  for (size_t at = 0; at < text.size(); at += cut) {
    pieces.clear();
    parser.push(text.substr(at, cut), pieces);
    take(pieces);
  }
  pieces.clear();
  parser.finish(pieces);
  take(pieces);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ToolSet tools;
  tools.add({"f", "", Json::parse(R"({"properties":{"s":{"type":"string"},"n":{"type":"integer"},
                                     "o":{"type":"object"},"x":{}}})"), false});
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read whole = read(tools, text, text.size() + 1);
  require(whole == read(tools, text, 1 + data[0] % 16));
  require(whole.ended == whole.names.size());
  for (const std::string& arguments : whole.arguments) {
    require(json_in(valid_utf8(arguments)).is_object());
  }
  if (whole.names.empty()) require(whole.text == text);
  return 0;
}
