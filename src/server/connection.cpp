#include "server/connection.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "server/errors.h"

namespace strata::server {
namespace {

namespace asio = boost::asio;

constexpr size_t kMaxPipelined = 256u << 10;  // of requests sent before their turn
constexpr std::chrono::milliseconds kLingerTime{1'000};
constexpr int kClientGone = 499;  // access log only: there was nobody to answer

// For the log: printable, one line, bounded.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, 128));
  for (char& c : out) {
    if (c < 0x21 || c > 0x7e) c = '?';
  }
  return out.empty() ? "-" : out;
}

}  // namespace

Connection::Connection(std::unique_ptr<Transport> transport, Core& core, bool crowded)
    : transport_(std::move(transport)),
      core_(core),
      crowded_(crowded),
      buffer_(core.options.max_header_bytes + kMaxPipelined),
      deadline_(transport_->executor()),
      silence_(transport_->executor()) {}

Connection::~Connection() { core_.remove(this); }

void Connection::start() {
  asio::dispatch(transport_->executor(), [self = shared_from_this()] {
    self->arm(self->core_.options.header_timeout);
    self->transport_->handshake([self](ErrorCode error) { self->on_handshake(error); });
  });
}

void Connection::stop() {
  asio::post(transport_->executor(), [self = shared_from_this()] {
    self->stopping_ = true;
    switch (self->state_) {
      case State::kWorking: break;  // on_outcome() sees stopping_
      case State::kGenerating: self->cancel_run(); break;
      case State::kWriting: self->keep_alive_ = false; break;
      default: self->close();
    }
  });
}

void Connection::abandon() {
  if (run_) {
    for (const auto& gate : run_->gates) gate->close();
  }
  transport_->close();
}

void Connection::on_handshake(ErrorCode error) {
  if (state_ == State::kClosed) return;
  if (error) {
    log::debug("TLS handshake: {}", error.message());
    return close();
  }
  if (!crowded_) return next_request();
  request_start_ = Clock::now();
  request_id_ = told_id_ = core_.new_request_id();
  keep_alive_ = false;
  Response response = http_error(503, "The server has too many connections; try again later.",
                                 "too_many_connections");
  response.set("Retry-After", "1");
  respond(std::move(response));
}

void Connection::next_request() {
  if (stopping_) return close();
  state_ = State::kIdle;
  handler_.reset();
  request_ = {};
  request_id_.clear();
  told_id_.clear();
  status_ = 0;
  bytes_ = 0;
  usage_ = {};
  chunked_ = false;
  parser_.reset();
  arm(first_request_ ? core_.options.header_timeout : core_.options.idle_timeout);
  first_request_ = false;
  feed();
  const bool unfinished =
      state_ == State::kIdle || state_ == State::kHead || state_ == State::kBody;
  if (read_closed_ && unfinished) return close();
  await_bytes();
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
  transport_->write_some(
      in_flight_.data() + in_flight_done_, in_flight_.size() - in_flight_done_,
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
  if (read_closed_) return close();
  state_ = State::kLingering;
  transport_->shutdown_send();
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
      keep_alive_ = false;
      return respond(
          http_error(408, "The head of the request did not arrive in time.", "timeout"));
    case State::kBody:
      keep_alive_ = false;
      return respond(
          http_error(408, "The body of the request did not arrive in time.", "timeout"));
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
  if (run_) {
    cancel_run();
    for (size_t i = run_->finished; i < run_->handles.size(); ++i) {
      core_.state.metrics.unfinished("cancelled");
    }
  }
  end_run();
  on_drained_ = nullptr;
  deadline_.cancel();
  silence_.cancel();
  transport_->close();
}

// One line of key=value pairs; never a byte of a prompt or an answer.
void Connection::log_access() {
  core_.state.metrics.http_request(status_);
  const double ms =
      std::chrono::duration<double, std::milli>(Clock::now() - request_start_).count();
  std::string line =
      fmt::format("access method={} path={} status={} bytes={} ms={:.1f} id={}",
                  printable(request_.method), printable(request_.path), status_, bytes_, ms,
                  request_id_);
  if (told_id_ != request_id_) line += fmt::format(" client_id={}", told_id_);
  if (usage_.prompt_tokens > 0) {
    line += fmt::format(" prompt_tokens={} completion_tokens={}", usage_.prompt_tokens,
                        usage_.completion_tokens);
  }
  log::info("{}", line);
}

}  // namespace strata::server
