// How a request is answered: by a handler at once, or by the engine bit by bit.
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "server/connection.h"
#include "server/errors.h"

namespace strata::server {
namespace {

namespace asio = boost::asio;

// An exception of a library, which ends no more than the request.
Status caught(std::string_view request_id, const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return resource_exhausted("There is not enough memory to handle this request.");
  }
  log::error("request {}: {}", request_id, error.what());
  return internal_error("The server failed to handle this request; its log says more.");
}

}  // namespace

void Connection::dispatch(Handler handler) {
  disarm();
  state_ = State::kWorking;
  auto work = [self = shared_from_this(), handler] {
    const auto unix_time = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const HandlerContext context{self->core_.engine, self->core_.state, self->request_id_,
                                 unix_time.count(), self->told_id_};
    try {
      return handler(context, self->request_);
    } catch (const std::exception& error) {
      return Outcome(error_response(caught(self->request_id_, error)));
    }
  };
  // Only posts read bodies and may take long.
  if (request_.method != "POST") return on_outcome(work());
  asio::post(core_.workers, [self = shared_from_this(), work = std::move(work)] {
    auto outcome = std::make_shared<Outcome>(work());
    asio::post(self->transport_->executor(),
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
  core_.router.finish(request_, told_id_, response);
  status_ = response.status;
  std::string bytes =
      response_head(response, BodyFraming::kLength, keep_alive_, request_.http_1_0, told_id_);
  if (request_.method != "HEAD") bytes += response.body;
  on_drained_ = [this] { request_done(); };
  send(std::move(bytes));
}

void Connection::generate(Generation generation) {
  if (read_closed_) return close();  // whether somebody listens could not be told from now on
  const uint64_t serial = ++last_serial_;
  run_.emplace();
  run_->serial = serial;
  run_->answer = std::move(generation.answer);
  run_->stream = generation.stream;
  run_->choices_per_prompt = generation.choices_per_prompt;
  for (engine::GenerateRequest& request : generation.requests) {
    const int choice = static_cast<int>(run_->gates.size());
    run_->gates.push_back(std::make_shared<EventGate>(
        [self = shared_from_this(), serial, choice](const engine::Event& e) {
          asio::post(self->transport_->executor(),
                     [self, serial, choice, e] { self->on_event(serial, choice, e); });
        }));
    // Asked for in any case, for the status of the server.
    run_->tell_progress = std::exchange(request.want_progress, true);
    run_->entries.push_back(core_.state.activity.begin(request_id_, request_.path,
                                                       static_cast<int>(request.prompt.size())));
  }
  // Compiling a constraint may take seconds: no work for a socket thread.
  auto requests = std::make_shared<std::vector<engine::GenerateRequest>>();
  requests->swap(generation.requests);
  asio::post(core_.workers, [self = shared_from_this(), serial, requests, gates = run_->gates] {
    EngineRun::Handles handles;
    Status status;
    try {
      for (size_t i = 0; i < requests->size() && status.ok(); ++i) {
        EngineWatch::Watched watched = self->core_.state.watch.begin(gates[i]);
        auto handle = self->core_.engine.submit(std::move((*requests)[i]), watched.sink());
        status = handle.status();
        if (!handle.ok()) break;
        watched.accepted(*handle);
        handles.push_back(*std::move(handle));
      }
    } catch (const std::exception& error) {
      status = caught(self->request_id_, error);
    }
    asio::post(self->transport_->executor(), [self, serial, handles, status] {
      self->on_submitted(serial, handles, status);
    });
  });
}

void Connection::on_submitted(uint64_t serial, const EngineRun::Handles& handles,
                              const Status& status) {
  const bool wanted = run_ && run_->serial == serial && !read_closed_;
  if (!wanted || !status.ok()) {
    for (const auto& handle : handles) handle->cancel();
  }
  if (!wanted) {
    if (state_ != State::kClosed) close();
    return;
  }
  if (!status.ok()) {
    for (Activity::Entry& entry : run_->entries) entry.fail();
    end_run();
    return respond(submit_error(status));
  }
  state_ = State::kGenerating;
  run_->handles = handles;
  run_->submitted = true;
  const auto early = std::exchange(run_->early, {});
  if (stopping_) cancel_run();
  // From here on a closed connection must be noticed, so that its request can be cancelled.
  await_bytes();
  const std::string first = run_->answer->begin();
  if (run_->stream) begin_stream(first);
  for (const auto& [choice, event] : early) on_event(serial, choice, event);
}

void Connection::begin_stream(std::string_view first_events) {
  Response response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.set("Cache-Control", "no-cache");
  response.set("X-Accel-Buffering", "no");
  core_.router.finish(request_, told_id_, response);
  status_ = response.status;
  chunked_ = !request_.http_1_0;
  if (!chunked_) keep_alive_ = false;
  send(response_head(response, chunked_ ? BodyFraming::kChunked : BodyFraming::kUntilClose,
                     keep_alive_, request_.http_1_0, told_id_));
  send_stream(first_events);
  watch_silence();
}

void Connection::on_event(uint64_t serial, int choice, const engine::Event& event) {
  if (!run_ || run_->serial != serial) return;
  if (!run_->submitted) {
    run_->early.emplace_back(choice, event);
    return;
  }
  if (const auto* delta = std::get_if<engine::TextDelta>(&event)) {
    on_text(choice, *delta);
  } else if (const auto* progress = std::get_if<engine::PromptProgress>(&event)) {
    run_->entries[static_cast<size_t>(choice)].progress(*progress);
    if (!run_->stream || !run_->tell_progress) return;
    send_stream(run_->answer->progress(choice, *progress));
  } else if (const auto* finished = std::get_if<engine::Finished>(&event)) {
    on_finished(choice, *finished);
  } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
    run_->entries[static_cast<size_t>(choice)].fail();
    core_.state.metrics.unfinished("error");
    on_failed(failed->status);
  }
}

void Connection::on_text(int choice, const engine::TextDelta& delta) {
  if (!std::exchange(run_->any_text, true)) {
    core_.state.metrics.first_token(Clock::now() - request_start_);
  }
  run_->entries[static_cast<size_t>(choice)].text(delta);
  const std::string events = run_->answer->delta(choice, delta);
  if (run_->stream) send_stream(events);
}

void Connection::on_finished(int choice, const engine::Finished& finished) {
  const bool cancelled = finished.reason == engine::FinishReason::kCancelled;
  const bool length = finished.reason == engine::FinishReason::kLength;
  core_.state.metrics.generation(cancelled ? "cancelled" : length ? "length" : "stop",
                                 finished.usage, Clock::now() - request_start_);
  run_->entries[static_cast<size_t>(choice)].finish(finished);
  if (choice % run_->choices_per_prompt == 0) {
    usage_.prompt_tokens += finished.usage.prompt_tokens;
  }
  usage_.completion_tokens += finished.usage.completion_tokens;
  if (cancelled) {
    return on_failed(Status(StatusCode::kCancelled,
                            stopping_ ? "The server is stopping; the request was cancelled."
                                      : "The request was cancelled."));
  }
  const std::string events = run_->answer->finish(choice, finished);
  const bool done = ++run_->finished == run_->handles.size();
  if (run_->stream) {
    if (done) return end_stream(events);
    return send_stream(events);
  }
  if (!done) return;
  Response response = json_response(200, run_->answer->whole());
  end_run();
  respond(std::move(response));
}

void Connection::on_failed(const Status& status) {
  const Status fault = fault_of_ours(status);
  log::warn("request {}: {}", request_id_, fault.message());
  if (run_->finished + 1 < run_->handles.size()) cancel_run();  // the other choices
  if (run_->stream) return end_stream(run_->answer->fail(fault));
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

void Connection::cancel_run() {
  for (const auto& handle : run_->handles) handle->cancel();
}

void Connection::end_run() {
  if (!run_) return;
  for (const auto& gate : run_->gates) gate->close();
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
      self->send_stream(self->run_->answer->keep_alive());
    if (self->run_) self->watch_silence();
  });
}

}  // namespace strata::server
