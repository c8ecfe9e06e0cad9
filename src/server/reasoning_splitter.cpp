#include "server/reasoning_splitter.h"

#include <algorithm>
#include <utility>

namespace strata::server {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";

constexpr std::string_view kSpace = " \t\r\n";

// Length of the longest end of `text` that is a beginning of `tag`, the whole tag excluded.
size_t partial_tag(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == tag.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(bool starts_in_reasoning)
    : state_(starts_in_reasoning ? State::kReasoning : State::kStart) {}

bool ReasoningSplitter::step(Piece& out) {
  switch (state_) {
    case State::kStart: {
      const size_t begin = std::min(pending_.find_first_not_of(kSpace), pending_.size());
      const std::string_view rest = std::string_view(pending_).substr(begin);
      if (rest.starts_with(kOpen)) {
        pending_.erase(0, begin + kOpen.size());
        state_ = State::kAfterOpen;
        return true;
      }
      if (kOpen.starts_with(rest)) return false;
      begin_content();
      return true;
    }
    case State::kAfterOpen:
    case State::kAfterClose:
      pending_.erase(0, std::min(pending_.find_first_not_of("\r\n"), pending_.size()));
      if (pending_.empty()) return false;
      if (state_ == State::kAfterOpen) {
        state_ = State::kReasoning;
      } else {
        begin_content();
      }
      return true;
    case State::kReasoning: {
      const size_t close = pending_.find(kClose);
      if (close != std::string::npos) {
        reason(std::string_view(pending_).substr(0, close), out);
        space_.clear();
        pending_.erase(0, close + kClose.size());
        state_ = State::kAfterClose;
        return true;
      }
      const size_t sure = pending_.size() - partial_tag(pending_, kClose);
      reason(std::string_view(pending_).substr(0, sure), out);
      pending_.erase(0, sure);
      return false;
    }
    case State::kContent:
      out.content += pending_;
      pending_.clear();
      return false;
  }
  return false;
}

// White space waits for what follows it.
void ReasoningSplitter::reason(std::string_view text, Piece& out) {
  const size_t end = text.find_last_not_of(kSpace) + 1;
  if (end > 0) {
    out.reasoning += std::exchange(space_, {});
    out.reasoning += text.substr(0, end);
  }
  space_ += text.substr(end);
}

void ReasoningSplitter::begin_content() {
  content_begin_ = pushed_ - pending_.size();
  state_ = State::kContent;
}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  Piece out;
  pushed_ += text.size();
  pending_ += text;
  while (step(out)) {
  }
  return out;
}

ReasoningSplitter::Piece ReasoningSplitter::finish() {
  Piece out;
  if (state_ == State::kReasoning) {
    reason(pending_, out);
  } else {
    out.content = std::move(pending_);
  }
  pending_.clear();
  return out;
}

}  // namespace strata::server
