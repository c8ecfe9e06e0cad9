#include "server/tool_call_parser.h"

#include <algorithm>

namespace strata::server {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kOpenCall = "<tool_call>";
constexpr std::string_view kCloseCall = "</tool_call>";
constexpr std::string_view kCloseFunction = "</function>";
constexpr std::string_view kCloseParameter = "</parameter>";
constexpr std::string_view kFunction = "<function";
constexpr std::string_view kParameter = "<parameter";
constexpr size_t kMaxName = 256;

// Length of the line end directly before `at`.
size_t newline_before(std::string_view text, size_t at) {
  if (at == 0 || text[at - 1] != '\n') return 0;
  return at > 1 && text[at - 2] == '\r' ? 2 : 1;
}

// Length of what may be a line end at the end of `text`.
size_t newline_at_end(std::string_view text) {
  if (text.ends_with('\r')) return 1;
  return newline_before(text, text.size());
}

}  // namespace

ToolCallParser::ToolCallParser(const ToolSet& tools, int max_calls)
    : tools_(tools), max_calls_(max_calls) {}

void ToolCallParser::push(std::string_view text, std::vector<CallPiece>& out) {
  pending_ += text;
  while (step(out)) {
  }
}

void ToolCallParser::finish(std::vector<CallPiece>& out) {
  final_ = true;
  while (step(out)) {
  }
  if (state_ == State::kBody) end_call(out);
  if (!space_.empty() && !after_call_) {
    out.push_back({CallPiece::Kind::kText, 0, space_, consumed_ - space_.size()});
  }
  space_.clear();
}

bool ToolCallParser::step(std::vector<CallPiece>& out) {
  switch (state_) {
    case State::kText: return step_text(out);
    case State::kOpened: return step_opened(out);
    case State::kJson: return step_json(out);
    case State::kBody: return step_body(out);
    case State::kValueStart: return step_value_start();
    case State::kValue: return step_value(out);
    case State::kAfterFunction: return step_after_function(out);
  }
  return false;
}

// ---- matching; what could still become a match is kMore until the text is final

size_t ToolCallParser::skip_space(size_t at) const {
  return std::min(pending_.find_first_not_of(kSpace, at), pending_.size());
}

ToolCallParser::Match ToolCallParser::literal(size_t at, std::string_view tag) const {
  const std::string_view rest = std::string_view(pending_).substr(std::min(at, pending_.size()));
  if (rest.starts_with(tag)) return Match::kYes;
  return !final_ && tag.starts_with(rest) ? Match::kMore : Match::kNo;
}

ToolCallParser::Match ToolCallParser::at_end(size_t at) const {
  if (skip_space(at) < pending_.size()) return Match::kNo;
  return final_ ? Match::kYes : Match::kMore;
}

ToolCallParser::Match ToolCallParser::tag(size_t at, std::string_view keyword, bool strict,
                                          std::string& name, size_t& end) const {
  const Match more = final_ ? Match::kNo : Match::kMore;
  if (const Match m = literal(at, keyword); m != Match::kYes) return m;
  const std::string_view rest = std::string_view(pending_).substr(at);
  const auto skip_blanks = [&](size_t p) {
    return std::min(rest.find_first_not_of(" \t", p), rest.size());
  };
  size_t p = skip_blanks(keyword.size());
  constexpr std::string_view kName = "name";
  if (p > keyword.size()) {
    const std::string_view word = rest.substr(p);
    if (word.starts_with(kName)) {
      p = skip_blanks(p + kName.size());
    } else if (kName.starts_with(word)) {
      return more;
    }
  }
  if (p == rest.size()) return more;
  if (rest[p] != '=') return Match::kNo;
  ++p;
  const size_t stop = rest.find_first_of("<>\n", p);
  if (stop == std::string_view::npos) return rest.size() - p > kMaxName ? Match::kNo : more;
  if (stop - p > kMaxName || rest[stop] == '<' || (strict && rest[stop] == '\n')) return Match::kNo;
  std::string_view inner = rest.substr(p, stop - p);
  const auto trim = [&] {
    while (!inner.empty() && kSpace.find(inner.front()) != kSpace.npos) inner.remove_prefix(1);
    while (!inner.empty() && kSpace.find(inner.back()) != kSpace.npos) inner.remove_suffix(1);
  };
  trim();
  if (inner.size() >= 2 && (inner.front() == '"' || inner.front() == '\'') &&
      inner.back() == inner.front()) {
    inner = inner.substr(1, inner.size() - 2);
    trim();
  }
  const auto odd = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"'; };
  if (inner.empty() || std::any_of(inner.begin(), inner.end(), odd)) return Match::kNo;
  name = inner;
  end = at + stop + (rest[stop] == '>' ? 1 : 0);
  return Match::kYes;
}

// Whether the call, or the answer, ends at `at`. `after_value`: after a </parameter>, so that less
// is needed to believe it.
ToolCallParser::Match ToolCallParser::close_frame(size_t at, bool after_value) const {
  bool more = false;
  std::string name;
  size_t unused = 0;
  const auto either = [&](Match m) {
    more |= m == Match::kMore;
    return m == Match::kYes;
  };
  if (either(at_end(at))) return Match::kYes;
  if (either(literal(at, kCloseFunction))) {
    if (!framed_) return Match::kYes;
    const size_t next = skip_space(at + kCloseFunction.size());
    if (either(at_end(next)) || either(literal(next, kCloseCall)) ||
        either(literal(next, kOpenCall)) || either(tag(next, kFunction, true, name, unused))) {
      return Match::kYes;
    }
  }
  if (framed_ && either(literal(at, kCloseCall))) {
    const size_t next = skip_space(at + kCloseCall.size());
    if (either(at_end(next)) || (after_value && either(literal(next, kOpenCall)))) {
      return Match::kYes;
    }
  }
  if (framed_ && after_value) {
    const Match open = literal(at, kOpenCall);
    const size_t next = skip_space(at + kOpenCall.size());
    if (either(open == Match::kYes ? tag(next, kFunction, true, name, unused) : open)) {
      return Match::kYes;
    }
  }
  return more ? Match::kMore : Match::kNo;
}

ToolCallParser::Match ToolCallParser::value_end(size_t at, bool line_start, size_t& end) const {
  std::string name;
  size_t unused = 0;
  const Match close = literal(at, kCloseParameter);
  if (close == Match::kMore) return close;
  if (nested_ > 0) {
    // Inside a call that the value quotes; only what ends the whole answer ends the value.
    if (close == Match::kNo) return Match::kNo;
    size_t next = skip_space(at + kCloseParameter.size());
    for (const std::string_view closing : {kCloseFunction, kCloseCall}) {
      const Match m = literal(next, closing);
      if (m != Match::kYes) return m;
      next = skip_space(next + closing.size());
    }
    end = at + kCloseParameter.size();
    return at_end(next);
  }
  if (close == Match::kYes) {
    end = at + kCloseParameter.size();
    const size_t next = skip_space(end);
    const Match another = tag(next, kParameter, true, name, unused);
    if (another == Match::kYes) return another;
    const Match frame = close_frame(next, true);
    return frame == Match::kNo ? another : frame;
  }
  end = at;
  if (!line_start) return Match::kNo;
  bool more = false;
  for (const std::string_view closing : {kCloseFunction, kCloseCall}) {
    const Match m = literal(at, closing);
    if (m == Match::kNo) continue;
    const Match frame = m == Match::kYes ? close_frame(at, false) : m;
    // Without the outer tags </function> alone says too little.
    if (frame == Match::kYes && !framed_) return at_end(at + closing.size());
    if (frame == Match::kYes) return frame;
    more |= frame == Match::kMore;
  }
  const Match next = tag(at, kParameter, true, name, unused);
  if (next == Match::kYes && tool_ != nullptr && is_declared(*tool_, name) &&
      std::find(given_.begin(), given_.end(), name) == given_.end()) {
    return next;
  }
  return more || next == Match::kMore ? Match::kMore : Match::kNo;
}

// ---- the states

bool ToolCallParser::step_text(std::vector<CallPiece>& out) {
  const size_t at = std::min(pending_.find('<'), pending_.size());
  text(std::string_view(pending_).substr(0, at), 0, out);
  consume(at);
  if (pending_.empty()) return false;
  const Match open = literal(0, kOpenCall);
  if (open == Match::kYes) {
    opened_ = kOpenCall;
    consume(kOpenCall.size());
    state_ = State::kOpened;
    return true;
  }
  Match bare = Match::kNo;
  if (line_start_) {
    std::string name;
    size_t end = 0;
    bare = tag(0, kFunction, true, name, end);
    if (bare == Match::kYes && tools_.find(name) != nullptr) {
      framed_ = false;
      begin_call(std::move(name), out);
      consume(end);
      return true;
    }
  }
  if (open == Match::kMore || bare == Match::kMore) return false;
  text("<", 0, out);
  consume(1);
  return true;
}

bool ToolCallParser::step_opened(std::vector<CallPiece>& out) {
  const size_t blank = skip_space(0);
  opened_.append(pending_, 0, blank);
  consume(blank);
  if (pending_.empty() && !final_) return false;
  if (pending_.starts_with('{')) {
    json_scanned_ = 0;
    json_depth_ = 0;
    json_string_ = json_escape_ = false;
    state_ = State::kJson;
    return true;
  }
  std::string name;
  size_t end = 0;
  const Match function = tag(0, kFunction, false, name, end);
  if (function == Match::kMore) return false;
  if (function == Match::kYes) {
    framed_ = true;
    begin_call(std::move(name), out);
    consume(end);
    return true;
  }
  state_ = State::kText;
  text_opened({}, out);
  return true;
}

bool ToolCallParser::step_json(std::vector<CallPiece>& out) {
  bool complete = false;
  while (!complete && json_scanned_ < pending_.size()) {
    const char c = pending_[json_scanned_++];
    if (json_string_) {
      if (json_escape_) {
        json_escape_ = false;
      } else if (c == '\\') {
        json_escape_ = true;
      } else if (c == '"') {
        json_string_ = false;
      }
    } else if (c == '"') {
      json_string_ = true;
    } else if (c == '{' || c == '[') {
      ++json_depth_;
    } else if (c == '}' || c == ']') {
      complete = --json_depth_ == 0;
    }
  }
  if (!complete && !final_) return false;
  const Json call =
      complete ? json_in(std::string_view(pending_).substr(0, json_scanned_)) : Json();
  std::string given = "{}";
  bool usable = call.is_object() && call.contains("name") && call["name"].is_string() &&
                !call["name"].get_ref<const std::string&>().empty();
  for (const char* field : {"arguments", "parameters"}) {
    if (!usable || !call.contains(field)) continue;
    const Json& value = call[field];
    if (value.is_object()) {
      given = to_text(value);
    } else if (value.is_string() && json_in(value.get_ref<const std::string&>()).is_object()) {
      given = value.get<std::string>();
    } else if (!value.is_null()) {
      usable = false;
    }
    break;
  }
  if (!usable) {
    state_ = State::kText;
    text_opened("{", out);
    consume(1);
    return true;
  }
  framed_ = true;
  begin_call(call["name"].get<std::string>(), out);
  if (!dropping_) {
    out.push_back({CallPiece::Kind::kArguments, calls_ - 1, std::move(given)});
    out.push_back({CallPiece::Kind::kEnd, calls_ - 1, {}});
  }
  consume(json_scanned_);
  state_ = State::kAfterFunction;
  return true;
}

bool ToolCallParser::step_body(std::vector<CallPiece>& out) {
  consume(std::min(pending_.find('<'), pending_.size()));
  if (pending_.empty()) return false;
  std::string name;
  size_t end = 0;
  const Match parameter = tag(0, kParameter, false, name, end);
  if (parameter == Match::kYes) {
    begin_value(std::move(name), out);
    consume(end);
    return true;
  }
  const Match function = literal(0, kCloseFunction);
  if (function == Match::kYes) {
    end_call(out);
    consume(kCloseFunction.size());
    return true;
  }
  const Match next = tag(0, kFunction, true, name, end);
  const Match close = literal(0, kCloseCall);
  const Match open = literal(0, kOpenCall);
  if (next == Match::kYes || close == Match::kYes || open == Match::kYes) {
    end_call(out);  // </function> is missing; the next state sees what stands here
    return true;
  }
  for (const Match m : {parameter, function, next, close, open}) {
    if (m == Match::kMore) return false;
  }
  consume(1);
  return true;
}

bool ToolCallParser::step_value_start() {
  if (pending_.empty() || pending_ == "\r") {
    if (!final_) return false;
  } else if (pending_.starts_with("\r\n")) {
    consume(2);
  } else if (pending_.starts_with('\n')) {
    consume(1);
  }
  state_ = State::kValue;
  return true;
}

bool ToolCallParser::step_value(std::vector<CallPiece>& out) {
  size_t at = pending_.find('<');
  if (at == std::string::npos) {
    const size_t sure = pending_.size() - newline_at_end(pending_);
    value(std::string_view(pending_).substr(0, sure), out);
    consume(sure);
    if (!final_) return false;
    end_value(out);
    consume(pending_.size());
    return true;
  }
  const size_t sure = at - newline_before(pending_, at);
  value(std::string_view(pending_).substr(0, sure), out);
  consume(sure);
  at -= sure;
  const bool line_start = at > 0 || value_empty_;

  size_t end = 0;
  const Match ends = value_end(at, line_start, end);
  if (ends == Match::kMore) return false;
  if (ends == Match::kYes) {
    end_value(out);
    consume(end);
    return true;
  }
  const std::string_view rest = std::string_view(pending_).substr(at);
  if (final_ && rest.size() >= 2) {
    // The answer ends inside a tag that would have ended the value.
    for (const std::string_view tag : {kCloseParameter, kCloseFunction, kCloseCall}) {
      if (!tag.starts_with(rest)) continue;
      end_value(out);
      consume(pending_.size());
      return true;
    }
  }
  const Match close = literal(at, kCloseFunction);
  std::string name;
  size_t unused = 0;
  const Match open = line_start ? tag(at, kFunction, true, name, unused) : Match::kNo;
  if (close == Match::kMore || open == Match::kMore) return false;
  if (open == Match::kYes) ++nested_;
  if (close == Match::kYes && nested_ > 0) --nested_;
  value(std::string_view(pending_).substr(0, at + 1), out);
  consume(at + 1);
  return true;
}

bool ToolCallParser::step_after_function(std::vector<CallPiece>& out) {
  consume(skip_space(0));
  if (pending_.empty()) return false;
  std::string name;
  size_t end = 0;
  const Match close = literal(0, kCloseCall);
  const Match next = tag(0, kFunction, true, name, end);
  if (close == Match::kYes) {
    consume(kCloseCall.size());
    state_ = State::kText;
    return true;
  }
  if (next == Match::kYes) {
    begin_call(std::move(name), out);
    consume(end);
    return true;
  }
  if (close == Match::kMore || next == Match::kMore) return false;
  state_ = State::kText;
  return true;
}

// ---- output

void ToolCallParser::text(std::string_view text, size_t back, std::vector<CallPiece>& out) {
  if (text.empty()) return;
  size_t at = consumed_ - back;
  line_start_ = text.back() == '\n';
  if (after_call_) {
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    at += begin;
    after_call_ = false;
  }
  const size_t last = text.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  out.push_back({CallPiece::Kind::kText, 0, space_ + std::string(text.substr(0, last + 1)),
                 at - space_.size()});
  space_ = text.substr(last + 1);
}

// What looked like the beginning of a call, and `more` of what is pending.
void ToolCallParser::text_opened(std::string_view more, std::vector<CallPiece>& out) {
  const size_t back = opened_.size();
  text(std::exchange(opened_, {}) + std::string(more), back, out);
}

void ToolCallParser::begin_call(std::string name, std::vector<CallPiece>& out) {
  space_.clear();
  opened_.clear();
  after_call_ = true;
  line_start_ = true;
  any_argument_ = false;
  given_.clear();
  tool_ = tools_.find(name);
  dropping_ = calls_ >= max_calls_;
  state_ = State::kBody;
  if (!dropping_) out.push_back({CallPiece::Kind::kBegin, calls_++, std::move(name)});
}

void ToolCallParser::arguments(std::string text, std::vector<CallPiece>& out) {
  if (dropping_ || text.empty()) return;
  out.push_back({CallPiece::Kind::kArguments, calls_ - 1, std::move(text)});
}

void ToolCallParser::begin_value(std::string key, std::vector<CallPiece>& out) {
  types_ = tool_ != nullptr ? parameter_types(*tool_, key) : kAnyType;
  arguments(fmt::format("{}\"{}\":{}", any_argument_ ? "," : "{", json_escaped(key),
                        types_ == kString ? "\"" : ""),
            out);
  any_argument_ = true;
  given_.push_back(std::move(key));
  value_.clear();
  value_empty_ = true;
  nested_ = 0;
  state_ = State::kValueStart;
}

void ToolCallParser::value(std::string_view text, std::vector<CallPiece>& out) {
  if (text.empty()) return;
  value_empty_ = false;
  if (types_ == kString) {
    arguments(json_escaped(text), out);
  } else {
    value_ += text;
  }
}

void ToolCallParser::end_value(std::vector<CallPiece>& out) {
  arguments(types_ == kString ? "\"" : argument_json(value_, types_), out);
  state_ = State::kBody;
}

void ToolCallParser::end_call(std::vector<CallPiece>& out) {
  arguments(any_argument_ ? "}" : "{}", out);
  if (!dropping_) out.push_back({CallPiece::Kind::kEnd, calls_ - 1, {}});
  state_ = State::kAfterFunction;
}

}  // namespace strata::server
