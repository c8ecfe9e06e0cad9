#include "server/connection.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/read.hpp>

#include "base/log.h"
#include "server/errors.h"
#include "server/sse.h"

namespace strata::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr size_t kReadStep = 4096;
constexpr size_t kMaxPipelined = 256u << 10;  // of requests sent before their turn
constexpr uint64_t kBodyBytesPerSecond = 256u << 10;
constexpr std::chrono::milliseconds kLingerTime{1'000};
constexpr int kClientGone = 499;  // access log only: there was nobody to answer
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// For the log: printable, one line, bounded.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, 128));
  for (char& c : out) {
    if (c < 0x21 || c > 0x7e) c = '?';
  }
  return out.empty() ? "-" : out;
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, Core& core, bool crowded)
    : socket_(std::move(socket)),
      core_(core),
      crowded_(crowded),
      buffer_(core.options.max_header_bytes + kMaxPipelined),
      deadline_(socket_.get_executor()),
      silence_(socket_.get_executor()) {}

Connection::~Connection() { core_.remove(this); }

void Connection::start() {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    ErrorCode ignored;
    self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    if (!self->crowded_) return self->next_request();
    self->request_start_ = Clock::now();
    self->request_id_ = self->core_.new_request_id();
    self->keep_alive_ = false;
    Response response = http_error(503, "The server has too many connections; try again later.",
                                   "too_many_connections");
    response.set("Retry-After", "1");
    self->respond(std::move(response));
  });
}

void Connection::stop() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->stopping_ = true;
    switch (self->state_) {
      case State::kWorking: break;  // on_outcome() sees stopping_
      case State::kGenerating: self->run_->handle->cancel(); break;
      case State::kWriting: self->keep_alive_ = false; break;
      default: self->close();
    }
  });
}

void Connection::abandon() {
  if (run_) run_->gate->close();
  ErrorCode ignored;
  socket_.close(ignored);
}

// ---- reading

void Connection::next_request() {
  if (stopping_) return close();
  state_ = State::kIdle;
  handler_.reset();
  request_ = {};
  request_id_.clear();
  status_ = 0;
  bytes_ = 0;
  chunked_ = false;
  timed_out_ = false;
  if (buffer_.size() == 0) {
    arm(first_request_ ? core_.options.header_timeout : core_.options.idle_timeout);
    first_request_ = false;
    return await_bytes();
  }
  if (!reading_) return read_head();
  // The next request is already here, but so is a read that waits for more: take that one back.
  read_cancelled_ = true;
  ErrorCode ignored;
  socket_.cancel(ignored);
}

void Connection::await_bytes() {
  if (reading_) return;
  reading_ = true;
  socket_.async_read_some(
      buffer_.prepare(kReadStep),
      [self = shared_from_this()](ErrorCode error, size_t count) { self->on_bytes(error, count); });
}

void Connection::on_bytes(ErrorCode error, size_t count) {
  reading_ = false;
  buffer_.commit(count);
  if (state_ == State::kClosed) return;
  if (error && !(read_cancelled_ && error == asio::error::operation_aborted)) {
    return peer_gone("closed by the client");
  }
  read_cancelled_ = false;
  switch (state_) {
    case State::kIdle: return read_head();
    case State::kLingering: buffer_.consume(buffer_.size()); return await_bytes();
    default:
      if (buffer_.size() + kReadStep <= kMaxPipelined) await_bytes();
  }
}

void Connection::read_head() {
  state_ = State::kHead;
  request_start_ = Clock::now();
  request_id_ = core_.new_request_id();
  keep_alive_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_.options.max_header_bytes));
  parser_->body_limit(core_.options.max_body_bytes);
  arm(core_.options.header_timeout);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, size_t) { self->on_head(error); });
}

void Connection::on_read_failure(ErrorCode error) {
  if (state_ == State::kClosed) return;
  keep_alive_ = false;
  if (timed_out_) {
    return respond(http_error(408,
                              state_ == State::kHead
                                  ? "The head of the request did not arrive in time."
                                  : "The body of the request did not arrive in time.",
                              "timeout"));
  }
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
  const bool malformed = error.category() == make_error_code(http::error::bad_method).category() &&
                         error != http::error::end_of_stream &&
                         error != http::error::partial_message;
  if (malformed) {
    return respond(http_error(400, fmt::format("This is not an HTTP request: {}.", error.message()),
                              "bad_http"));
  }
  close();
}

void Connection::on_head(ErrorCode error) {
  if (error || timed_out_) return on_read_failure(error);
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
  state_ = State::kBody;
  if (request_.header("expect").empty() || request_.http_1_0) return read_body();
  on_drained_ = [this] { read_body(); };
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
  std::string_view target = view(message.target());
  // A proxy-style target carries scheme and host in front of the path.
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t slash = target.find('/', target.find("://") + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  request_.path = percent_decode(target.substr(0, target.find('?')));
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
  const std::string expect = lower(request_.header("expect"));
  if (!expect.empty() && expect != "100-continue") {
    return http_error(417, "The only expectation known here is 100-continue.", "bad_http");
  }
  return std::nullopt;
}

void Connection::read_body() {
  const auto announced = parser_->content_length();
  const auto extra = std::chrono::seconds(announced ? *announced / kBodyBytesPerSecond : 0);
  arm(core_.options.body_timeout + extra);
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode error, size_t) { self->on_body(error); });
}

void Connection::on_body(ErrorCode error) {
  if (error || timed_out_) return on_read_failure(error);
  request_.body = std::move(parser_->get().body());
  dispatch(*handler_);
}

// ---- answering

void Connection::dispatch(Handler handler) {
  disarm();
  state_ = State::kWorking;
  auto work = [self = shared_from_this(), handler] {
    const auto unix_time = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const HandlerContext context{self->core_.engine, self->request_id_, unix_time.count()};
    try {
      return handler(context, self->request_);
    } catch (const std::bad_alloc&) {
      return Outcome(
          error_response(resource_exhausted("There is not enough memory to handle this request.")));
    } catch (const std::exception& error) {
      log::error("request {}: {}", self->request_id_, error.what());
      return Outcome(error_response(
          internal_error("The server failed to handle this request; its log says more.")));
    }
  };
  // Only posts read bodies and may take long.
  if (request_.method != "POST") return on_outcome(work());
  asio::post(core_.workers, [self = shared_from_this(), work = std::move(work)] {
    auto outcome = std::make_shared<Outcome>(work());
    asio::post(self->socket_.get_executor(),
               [self, outcome] { self->on_outcome(std::move(*outcome)); });
  });
}

void Connection::on_outcome(Outcome outcome) {
  if (state_ == State::kClosed) return;
  request_.body = {};
  if (stopping_) {
    keep_alive_ = false;
    return respond(error_response(unavailable("The server is stopping.")));
  }
  if (auto* response = std::get_if<Response>(&outcome)) return respond(std::move(*response));
  generate(std::move(std::get<Generation>(outcome)));
}

void Connection::respond(Response response) {
  state_ = State::kWriting;
  status_ = response.status;
  core_.router.finish(request_, response);
  std::string bytes =
      response_head(response, BodyFraming::kLength, keep_alive_, request_.http_1_0, request_id_);
  if (request_.method != "HEAD") bytes += response.body;
  on_drained_ = [this] { request_done(); };
  send(std::move(bytes));
}

void Connection::generate(Generation generation) {
  const uint64_t serial = ++last_serial_;
  auto gate =
      std::make_shared<EventGate>([self = shared_from_this(), serial](const engine::Event& e) {
        asio::post(self->socket_.get_executor(), [self, serial, e] { self->on_event(serial, e); });
      });
  auto handle = core_.engine.submit(std::move(generation.request),
                                    [gate](const engine::Event& event) { gate->deliver(event); });
  if (!handle.ok()) {
    gate->close();
    return respond(submit_error(handle.status()));
  }
  state_ = State::kGenerating;
  run_.emplace(Run{serial, std::move(gate), std::move(handle).value(), std::move(generation.answer),
                   generation.stream});
  // From here on a closed connection must be noticed, so that its request can be cancelled.
  await_bytes();
  if (generation.stream) begin_stream();
}

void Connection::begin_stream() {
  Response response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.set("Cache-Control", "no-cache");
  response.set("X-Accel-Buffering", "no");
  core_.router.finish(request_, response);
  status_ = response.status;
  chunked_ = !request_.http_1_0;
  if (!chunked_) keep_alive_ = false;
  send(response_head(response, chunked_ ? BodyFraming::kChunked : BodyFraming::kUntilClose,
                     keep_alive_, request_.http_1_0, request_id_));
  send_stream(run_->answer->begin());
  watch_silence();
}

void Connection::on_event(uint64_t serial, const engine::Event& event) {
  if (!run_ || run_->serial != serial) return;
  if (const auto* delta = std::get_if<engine::TextDelta>(&event)) {
    on_text(*delta);
  } else if (const auto* finished = std::get_if<engine::Finished>(&event)) {
    on_finished(*finished);
  } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
    on_failed(failed->status);
  }
}

void Connection::on_text(const engine::TextDelta& delta) {
  if (run_->stream) {
    send_stream(run_->answer->delta(delta));
  } else {
    run_->answer->add(delta);
  }
}

void Connection::on_finished(const engine::Finished& finished) {
  if (finished.reason == engine::FinishReason::kCancelled) {
    return on_failed(Status(StatusCode::kCancelled,
                            stopping_ ? "The server is stopping; the request was cancelled."
                                      : "The request was cancelled."));
  }
  if (run_->stream) return end_stream(run_->answer->end(finished));
  Response response = json_response(200, run_->answer->whole(finished));
  end_run();
  respond(std::move(response));
}

void Connection::on_failed(const Status& status) {
  const Status fault = fault_of_ours(status);
  log::warn("request {}: {}", request_id_, fault.message());
  if (run_->stream) return end_stream(sse_event(error_object(fault)));
  end_run();
  respond(error_response(fault));
}

void Connection::end_stream(std::string_view last_events) {
  send_stream(last_events);
  if (!run_) return;  // the reader was too slow
  end_run();
  state_ = State::kWriting;
  on_drained_ = [this] { request_done(); };
  send(std::string(chunked_ ? kLastChunk : std::string_view()));
}

void Connection::end_run() {
  if (!run_) return;
  run_->gate->close();
  run_.reset();
  silence_.cancel();
  if (stopping_) keep_alive_ = false;
}

void Connection::watch_silence() {
  silence_.expires_at(last_send_ + core_.options.keepalive_interval);
  silence_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (error || !self->run_ || !self->run_->stream) return;
    const auto silent = Clock::now() - self->last_send_;
    if (silent >= self->core_.options.keepalive_interval)
      self->send_stream(sse_comment("keep-alive"));
    if (self->run_) self->watch_silence();
  });
}

// ---- writing

void Connection::send_stream(std::string_view events) {
  if (events.empty()) return;
  const size_t unread = pending_.size() + in_flight_.size() - in_flight_done_;
  if (unread > core_.options.max_stream_buffer) {
    return peer_gone("the client reads too slowly");
  }
  send(chunked_ ? chunk(events) : std::string(events));
}

void Connection::send(std::string bytes) {
  if (state_ == State::kClosed) return;
  last_send_ = Clock::now();
  pending_ += bytes;
  if (!writing_) write_some();
}

void Connection::write_some() {
  if (in_flight_done_ == in_flight_.size()) {
    in_flight_.clear();
    in_flight_done_ = 0;
    in_flight_.swap(pending_);
  }
  if (in_flight_.empty()) {
    writing_ = false;
    disarm();
    if (on_drained_) std::exchange(on_drained_, nullptr)();
    return;
  }
  writing_ = true;
  arm(core_.options.write_timeout);
  socket_.async_write_some(
      asio::buffer(in_flight_.data() + in_flight_done_, in_flight_.size() - in_flight_done_),
      [self = shared_from_this()](ErrorCode error, size_t count) {
        self->on_written(error, count);
      });
}

void Connection::on_written(ErrorCode error, size_t count) {
  if (state_ == State::kClosed) return;
  if (error) return peer_gone("closed by the client");
  in_flight_done_ += count;
  bytes_ += count;
  write_some();
}

void Connection::request_done() {
  log_access();
  if (!keep_alive_ || stopping_) return linger();
  next_request();
}

// Closing with bytes unread would reset the connection, and the client might lose the answer.
void Connection::linger() {
  state_ = State::kLingering;
  ErrorCode ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  arm(kLingerTime);
  await_bytes();
}

// ---- ending

void Connection::arm(std::chrono::milliseconds limit) {
  deadline_.expires_after(limit);
  deadline_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->on_deadline();
  });
}

void Connection::disarm() { deadline_.expires_at(Clock::time_point::max()); }

void Connection::on_deadline() {
  if (deadline_.expiry() > Clock::now()) return;  // re-armed while this call was on its way
  switch (state_) {
    case State::kHead:
    case State::kBody: {
      timed_out_ = true;
      ErrorCode ignored;
      socket_.cancel(ignored);
      return;
    }
    case State::kGenerating:
    case State::kWriting: return peer_gone("the client reads nothing");
    default: return close();
  }
}

void Connection::peer_gone(std::string_view why) {
  if (state_ == State::kGenerating || state_ == State::kWriting) {
    log::info("request {}: {}", request_id_, why);
    status_ = kClientGone;
    log_access();
  }
  close();
}

void Connection::close() {
  state_ = State::kClosed;
  if (run_) run_->handle->cancel();
  end_run();
  on_drained_ = nullptr;
  deadline_.cancel();
  silence_.cancel();
  ErrorCode ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void Connection::log_access() {
  const double ms =
      std::chrono::duration<double, std::milli>(Clock::now() - request_start_).count();
  log::info("{} {} {} {} bytes {:.1f} ms {}", printable(request_.method), printable(request_.path),
            status_, bytes_, ms, request_id_);
}

}  // namespace strata::server
