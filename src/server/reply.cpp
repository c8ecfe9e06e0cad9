#include "server/reply.h"

#include <algorithm>

namespace strata::server {
namespace {

constexpr std::string_view kOpenCall = "<tool_call>";

}  // namespace

ReplyReader::ReplyReader(ReplyOptions options)
    : options_(std::move(options)), splitter_(options_.starts_in_reasoning) {
  if (options_.tools != nullptr && !options_.tools->empty()) {
    parser_.emplace(*options_.tools, options_.max_calls);
  }
}

std::vector<ReplyPart> ReplyReader::push(const engine::TextDelta& delta) {
  const bool before = splitter_.in_reasoning();
  const ReasoningSplitter::Piece piece = splitter_.push(delta.text);
  const bool reasoned = before || splitter_.in_reasoning() || !piece.reasoning.empty();
  if (reasoned && !closed_) {
    for (const TokenId token : delta.tokens) {
      ++reasoning_tokens_;
      if (options_.think_close && token == *options_.think_close) {
        closed_ = true;
        break;
      }
    }
  }
  std::vector<ReplyPart> out;
  take(piece, out);
  return out;
}

std::vector<ReplyPart> ReplyReader::finish(engine::FinishReason reason) {
  const bool unclosed = splitter_.in_reasoning();
  std::vector<ReplyPart> out;
  take(splitter_.finish(), out);
  if (!parser_) return out;
  std::vector<CallPiece> pieces;
  if (unclosed && reason == engine::FinishReason::kStop && tail_.starts_with(kOpenCall)) {
    ToolCallParser late(*options_.tools, options_.max_calls);
    late.push(tail_, pieces);
    late.finish(pieces);
    const bool only_calls = std::none_of(pieces.begin(), pieces.end(), [](const CallPiece& piece) {
      return piece.kind == CallPiece::Kind::kText;
    });
    if (!only_calls) pieces.clear();
  } else {
    parser_->finish(pieces);
  }
  take(std::move(pieces), out);
  return out;
}

void ReplyReader::take(const ReasoningSplitter::Piece& piece, std::vector<ReplyPart>& out) {
  if (!piece.reasoning.empty()) {
    if (parser_) remember(piece.reasoning);
    out.push_back({ReplyPart::Kind::kReasoning, 0, piece.reasoning, 0});
  }
  if (piece.content.empty()) return;
  if (!parser_) {
    const size_t at = splitter_.content_begin() + content_;
    content_ += piece.content.size();
    out.push_back({ReplyPart::Kind::kText, 0, piece.content, at});
    return;
  }
  std::vector<CallPiece> pieces;
  parser_->push(piece.content, pieces);
  take(std::move(pieces), out);
}

void ReplyReader::take(std::vector<CallPiece> pieces, std::vector<ReplyPart>& out) {
  for (CallPiece& piece : pieces) {
    ReplyPart::Kind kind = ReplyPart::Kind::kText;
    switch (piece.kind) {
      case CallPiece::Kind::kText: break;
      case CallPiece::Kind::kBegin:
        kind = ReplyPart::Kind::kCallBegin;
        ++calls_;
        break;
      case CallPiece::Kind::kArguments: kind = ReplyPart::Kind::kCallArguments; break;
      case CallPiece::Kind::kEnd: kind = ReplyPart::Kind::kCallEnd; break;
    }
    out.push_back({kind, piece.call, std::move(piece.text), splitter_.content_begin() + piece.at});
  }
}

// Keeps the thinking from its last opening tag on, or the few bytes that may begin one.
void ReplyReader::remember(const std::string& reasoning) {
  const size_t seen = tail_.size();
  tail_ += reasoning;
  const size_t from = seen - std::min(seen, kOpenCall.size() - 1);
  const size_t open = std::string_view(tail_).substr(from).rfind(kOpenCall);
  if (open != std::string_view::npos) {
    tail_.erase(0, from + open);
  } else if (!tail_.starts_with(kOpenCall) && tail_.size() >= kOpenCall.size()) {
    tail_.erase(0, tail_.size() - (kOpenCall.size() - 1));
  }
}

void Reply::add(const std::vector<ReplyPart>& parts) {
  for (const ReplyPart& part : parts) {
    switch (part.kind) {
      case ReplyPart::Kind::kReasoning: reasoning += part.text; break;
      case ReplyPart::Kind::kText: text += part.text; break;
      case ReplyPart::Kind::kCallBegin: calls.push_back({part.text, {}}); break;
      case ReplyPart::Kind::kCallArguments: calls.back().arguments += part.text; break;
      case ReplyPart::Kind::kCallEnd: break;
    }
  }
}

}  // namespace strata::server
