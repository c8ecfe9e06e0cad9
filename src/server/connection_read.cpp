// How a request is read.
#include <algorithm>
#include <cstring>

#include "server/connection.h"
#include "server/errors.h"

namespace strata::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr uint64_t kBodyBytesPerSecond = 256u << 10;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// A client may name its request; what could confuse a log or a header may not be part of the name.
bool usable_id(std::string_view id) {
  constexpr size_t kMaxId = 128;
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  };
  return !id.empty() && id.size() <= kMaxId && std::all_of(id.begin(), id.end(), plain);
}

}  // namespace

// Reads on until as much is waiting as may wait.
void Connection::await_bytes() {
  if (reading_ || state_ == State::kClosed) return;
  if (read_closed_ || buffer_.size() + received_.size() > buffer_.max_size()) return;
  reading_ = true;
  transport_->read_some(
      received_.data(), received_.size(),
      [self = shared_from_this()](ErrorCode error, size_t count) { self->on_bytes(error, count); });
}

void Connection::on_bytes(ErrorCode error, size_t count) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (count > 0) {
    std::memcpy(buffer_.prepare(count).data(), received_.data(), count);
    buffer_.commit(count);
  }
  const bool answering = state_ == State::kWorking || state_ == State::kWriting;
  if (error == asio::error::eof && answering) {
    // The client will send no more, but may still listen.
    read_closed_ = true;
    return;
  }
  if (error) return peer_gone("closed by the client");
  if (state_ == State::kLingering) {
    buffer_.consume(buffer_.size());
  } else {
    feed();
  }
  await_bytes();
}

void Connection::feed() {
  if (buffer_.size() == 0) return;
  if (state_ == State::kIdle) {
    // Some clients end a body with a line end too many.
    while (buffer_.size() >= 2 && std::memcmp(buffer_.data().data(), "\r\n", 2) == 0) buffer_.consume(2);
    const char* first = static_cast<const char*>(buffer_.data().data());
    if (buffer_.size() == 0 || (buffer_.size() == 1 && *first == '\r')) return;
    begin_head();
  }
  if (state_ != State::kHead && state_ != State::kBody) return;
  ErrorCode error;
  const bool head = state_ == State::kHead;
  while (buffer_.size() > 0 && !error && !(head ? parser_->is_header_done() : parser_->is_done())) {
    buffer_.consume(parser_->put(buffer_.data(), error));
  }
  if (error && error != http::error::need_more) return on_bad_request(error);
  if (head && parser_->is_header_done()) return on_head();
  if (!head && parser_->is_done()) return on_body();
}

void Connection::begin_head() {
  state_ = State::kHead;
  request_start_ = Clock::now();
  request_id_ = told_id_ = core_.new_request_id();
  keep_alive_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_.options.max_header_bytes));
  parser_->body_limit(core_.options.max_body_bytes);
  arm(core_.options.header_timeout);
}

void Connection::on_bad_request(ErrorCode error) {
  keep_alive_ = false;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return respond(http_error(431,
                              fmt::format("The head of the request is larger than {} bytes.",
                                          core_.options.max_header_bytes),
                              "headers_too_large"));
  }
  if (error == http::error::body_limit) {
    return respond(http_error(413,
                              fmt::format("The body of the request is larger than {} bytes.",
                                          core_.options.max_body_bytes),
                              "body_too_large"));
  }
  respond(http_error(400, fmt::format("This is not an HTTP request: {}.", error.message()),
                     "bad_http"));
}

void Connection::on_head() {
  take_head();
  const bool has_body = !parser_->is_done();
  if (auto problem = head_problem()) {
    keep_alive_ = false;
    return respond(*std::move(problem));
  }
  auto routed = core_.router.route(request_);
  if (auto* response = std::get_if<Response>(&routed)) {
    if (has_body) keep_alive_ = false;  // the body stays unread
    return respond(std::move(*response));
  }
  handler_ = std::get<Handler>(routed);
  if (!has_body) return dispatch(*handler_);
  if (request_.header("expect").empty() || request_.http_1_0) return begin_body();
  state_ = State::kWriting;
  on_drained_ = [this] { begin_body(); };
  send(std::string(kContinue));
}

void Connection::take_head() {
  const auto& message = parser_->get();
  request_.method = view(message.method_string());
  request_.http_1_0 = message.version() == 10;
  keep_alive_ = parser_->keep_alive() && !stopping_;
  for (const auto& field : message) {
    std::string& value = request_.headers[lower(view(field.name_string()))];
    if (!value.empty()) value += ", ";
    value += view(field.value());
  }
  if (const auto id = request_.header("x-request-id"); usable_id(id)) told_id_ = id;
  std::string_view target = view(message.target());
  // A proxy-style target carries scheme and host in front of the path.
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t slash = target.find('/', target.find("://") + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  const size_t question = target.find('?');
  request_.path = percent_decode(target.substr(0, question));
  if (question != std::string_view::npos) request_.query = target.substr(question + 1);
}

std::optional<Response> Connection::head_problem() {
  const auto& message = parser_->get();
  if (message.version() != 10 && message.version() != 11) {
    return http_error(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.", "http_version");
  }
  if (message.count(http::field::host) > 1 ||
      (!request_.http_1_0 && message.count(http::field::host) == 0)) {
    return http_error(400, "An HTTP/1.1 request carries exactly one Host header.", "bad_http");
  }
  if (!request_.path.starts_with('/') && !(request_.path == "*" && request_.method == "OPTIONS")) {
    return http_error(400, "The target of the request must be a path.", "bad_http");
  }
  const std::string transfer = lower(request_.header("transfer-encoding"));
  if (!transfer.empty() && transfer != "chunked") {
    return http_error(501, "The only Transfer-Encoding known here is chunked.", "bad_http");
  }
  const std::string content = lower(request_.header("content-encoding"));
  if (!content.empty() && content != "identity") {
    Response response = http_error(
        415, "Bodies are read as they are; send this one without Content-Encoding.", "bad_http");
    response.set("Accept-Encoding", "identity");
    return response;
  }
  const std::string expect = lower(request_.header("expect"));
  if (!expect.empty() && expect != "100-continue") {
    return http_error(417, "The only expectation known here is 100-continue.", "bad_http");
  }
  return std::nullopt;
}

void Connection::begin_body() {
  state_ = State::kBody;
  const auto announced = parser_->content_length();
  const auto extra = std::chrono::seconds(announced ? *announced / kBodyBytesPerSecond : 0);
  arm(core_.options.body_timeout + extra);
  parser_->eager(true);
  feed();
  await_bytes();
}

void Connection::on_body() {
  request_.body = std::move(parser_->get().body());
  dispatch(*handler_);
}

}  // namespace strata::server
