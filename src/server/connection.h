// One client connection: reads requests, writes answers, follows the engine while one is generated.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/activity.h"
#include "server/core.h"
#include "server/event_gate.h"
#include "server/transport.h"

namespace strata::server {

// A request on its way to the engine or accepted by it, as one generation per choice.
struct EngineRun {
  using Handles = std::vector<std::shared_ptr<engine::RequestHandle>>;

  uint64_t serial = 0;
  std::vector<std::shared_ptr<EventGate>> gates;
  bool submitted = false;  // from then on there are handles
  Handles handles;
  std::vector<std::pair<int, engine::Event>> early;  // events that came before that, with choices
  std::vector<Activity::Entry> entries;
  std::unique_ptr<Answer> answer;
  bool stream = false;
  int choices_per_prompt = 1;
  bool tell_progress = false;  // to the client
  size_t finished = 0;         // choices
  bool any_text = false;
};

// Everything but the public methods runs on the strand that is the transport's executor.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `crowded`: the server has too many connections; the first answer is a 503 and the last.
  Connection(std::unique_ptr<Transport> transport, Core& core, bool crowded);
  ~Connection();

  void start();  // any thread, once
  void stop();   // any thread: ends after the request in progress, which is cancelled

  // Lets no further engine event in and closes the socket. Only after the socket threads ended.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;

  enum class State {
    kHandshake,   // the transport is not ready yet
    kIdle,        // waiting for the first byte of a request
    kHead,        // reading its head
    kBody,        // reading its body
    kWorking,     // a worker thread has it
    kGenerating,  // the engine has it
    kWriting,     // the answer is complete; its last bytes are going out
    kLingering,   // our side is shut; waiting for the client to shut its own
    kClosed,
  };

  void on_handshake(ErrorCode error);
  void next_request();
  void await_bytes();
  void on_bytes(ErrorCode error, size_t count);
  void feed();  // gives the bytes that have arrived to the request that is being read
  void begin_head();
  void on_head();
  void begin_body();
  void on_body();
  void on_bad_request(ErrorCode error);

  void take_head();                        // parser_ -> request_
  std::optional<Response> head_problem();  // what HTTP itself forbids
  void dispatch(Handler handler);
  void on_outcome(Outcome outcome);
  void respond(Response response);

  void generate(Generation generation);
  void on_submitted(uint64_t serial, const EngineRun::Handles& handles, const Status& status);
  void begin_stream(std::string_view first_events);
  void on_event(uint64_t serial, int choice, const engine::Event& event);
  void on_text(int choice, const engine::TextDelta& delta);
  void on_finished(int choice, const engine::Finished& finished);
  void on_failed(const Status& status);
  void end_stream(std::string_view last_events);
  void cancel_run();
  void end_run();
  void watch_silence();

  void send_stream(std::string_view events);
  void send(std::string bytes);
  void write_some();
  void on_written(ErrorCode error, size_t count);
  void request_done();
  void linger();

  void arm(std::chrono::milliseconds limit);
  void disarm();
  void on_deadline();
  void peer_gone(std::string_view why);
  void close();
  void log_access();

  std::unique_ptr<Transport> transport_;
  Core& core_;
  const bool crowded_;
  State state_ = State::kHandshake;
  bool stopping_ = false;
  bool first_request_ = true;

  std::array<char, 8192> received_;   // by the read that is under way
  boost::beast::flat_buffer buffer_;  // bytes received and not yet used
  bool reading_ = false;              // await_bytes() is under way
  bool read_closed_ = false;          // the client sends no more
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;

  Request request_;
  std::string request_id_;  // ours
  std::string told_id_;     // the client's own name for the request, or ours
  Clock::time_point request_start_;
  int status_ = 0;      // of the answer
  uint64_t bytes_ = 0;  // written for the answer
  engine::Usage usage_;
  bool keep_alive_ = false;
  bool chunked_ = false;
  std::optional<Handler> handler_;

  std::optional<EngineRun> run_;
  uint64_t last_serial_ = 0;
  Clock::time_point last_send_;

  std::string pending_;    // to be written after in_flight_
  std::string in_flight_;  // being written
  size_t in_flight_done_ = 0;
  bool writing_ = false;
  std::function<void()> on_drained_;

  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer silence_;
};

}  // namespace strata::server
