// Drives one connection of the server over bytes in memory, with an engine that answers from the
// input. The first byte chooses: raw bytes as a client may send them, or a well-framed request
// whose body and answer the input gives. Beyond not crashing: whatever comes out is HTTP, bodies
// are JSON or events of JSON, the answers do not depend on where the bytes were cut, and nothing is
// left of a connection after its end.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "server/connection.h"
#include "server/core.h"
#include "server/transport.h"

namespace {

using namespace strata;
using namespace strata::server;
namespace asio = boost::asio;

constexpr int kVocabulary = 258;  // bytes and two tags

void require(bool condition) {
  if (!condition) std::abort();
}

// Tokens are bytes. Answers every request with `answer`, cut into pieces, when told to.
class InstantEngine final : public engine::Engine {
 public:
  InstantEngine(std::string_view answer, size_t cut) : answer_(valid_utf8(answer)), cut_(cut) {
    info_.id = "fuzzed";
    info_.context_length = 1 << 20;
    info_.vocabulary = kVocabulary;
    info_.has_chat_template = true;
    state_.stage = engine::EngineStage::kReady;
  }

  engine::EngineState state() const override { return state_; }
  const engine::ModelInfo& info() const override { return info_; }
  engine::QueueInfo queue() const override { return {static_cast<int>(jobs_.size()), 0}; }

  Result<std::vector<TokenId>> tokenize(std::string_view text, bool) const override {
    std::vector<TokenId> out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  Result<std::string> detokenize(std::span<const TokenId> tokens, bool) const override {
    std::string out;
    for (const TokenId token : tokens) {
      require(token >= 0 && token < kVocabulary);
      out += token < 256 ? std::string(1, static_cast<char>(token)) : "</think>";
    }
    return out;
  }
  Result<engine::RenderedChat> render_chat(const engine::ChatRequest& request) const override {
    require(request.messages.is_array() && !request.messages.empty());
    engine::RenderedChat chat;
    chat.text = to_text(request.messages);
    chat.tokens = tokenize(chat.text, false).value();
    chat.starts_in_reasoning = !answer_.empty() && (answer_.size() & 1) != 0;
    return chat;
  }

  Result<std::shared_ptr<engine::RequestHandle>> submit(engine::GenerateRequest request,
                                                        engine::EventSink sink) override {
    require(!request.prompt.empty());
    auto job = std::make_shared<Job>();
    job->sink = std::move(sink);
    job->logprobs = request.sampling.top_logprobs.has_value();
    job->prompt = static_cast<int>(request.prompt.size());
    jobs_.push_back(job);
    return std::shared_ptr<engine::RequestHandle>(job);
  }

  // Runs what was submitted; how many requests that were.
  size_t run() {
    size_t count = 0;
    for (; !jobs_.empty(); ++count) {
      const auto job = jobs_.front();
      jobs_.pop_front();
      run(*job);
    }
    return count;
  }

 private:
  struct Job final : engine::RequestHandle {
    void cancel() override { cancelled = true; }
    engine::EventSink sink;
    bool logprobs = false;
    bool cancelled = false;
    int prompt = 0;
  };

  void run(Job& job) const {
    engine::Finished finished;
    finished.usage.prompt_tokens = job.prompt;
    if (job.cancelled) finished.reason = engine::FinishReason::kCancelled;
    for (size_t at = 0; at < answer_.size() && !job.cancelled;) {
      size_t end = std::min(at + cut_, answer_.size());
      while (end < answer_.size() && (static_cast<unsigned char>(answer_[end]) & 0xC0) == 0x80)
        ++end;
      engine::TextDelta delta{answer_.substr(at, end - at), {}, {}};
      delta.tokens = tokenize(delta.text, false).value();
      for (const TokenId token : delta.tokens) {
        if (!job.logprobs) break;
        engine::TokenLogprob logprob;
        logprob.token = token;
        logprob.bytes = std::string(1, static_cast<char>(token));
        logprob.top = {logprob};
        delta.logprobs.push_back(logprob);
      }
      finished.usage.completion_tokens += static_cast<int>(delta.tokens.size());
      job.sink(delta);
      at = end;
    }
    if (answer_.ends_with("!fail")) return job.sink(engine::Failed{unavailable("It failed.")});
    job.sink(finished);
  }

  engine::ModelInfo info_;
  engine::EngineState state_;
  const std::string answer_;
  const size_t cut_;
  std::deque<std::shared_ptr<Job>> jobs_;
};

// The two ends of a connection. What the client sends comes in pieces of `cut` bytes.
struct Wire {
  std::string_view to_server;
  size_t cut = 1;
  bool end = false;  // the client closes after its last byte
  std::string to_client;
  bool closed = false;
  std::function<void()> pending_read;
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(asio::io_context& io, Wire& wire) : io_(io), wire_(wire) {}

  asio::any_io_executor executor() override { return io_.get_executor(); }
  void handshake(std::function<void(ErrorCode)> done) override { done({}); }

  void read_some(char* data, size_t size, Done done) override {
    require(!reading_);
    reading_ = true;
    wire_.pending_read = [this, data, size, done = std::move(done)] {
      if (!wire_.closed && wire_.to_server.empty() && !wire_.end) return;
      const size_t count = wire_.closed ? 0 : std::min({size, wire_.cut, wire_.to_server.size()});
      std::memcpy(data, wire_.to_server.data(), count);
      wire_.to_server.remove_prefix(count);
      ErrorCode error;
      if (wire_.closed)
        error = asio::error::operation_aborted;
      else if (count == 0)
        error = asio::error::eof;
      const auto then = done;
      reading_ = false;
      wire_.pending_read = nullptr;
      then(error, count);
    };
    pump();
  }

  void write_some(const char* data, size_t size, Done done) override {
    require(!writing_ && size > 0);
    writing_ = true;
    const size_t count = std::min(size, size_t{1} + wire_.cut * 64);
    if (!shut_ && !wire_.closed) wire_.to_client.append(data, count);
    asio::post(io_, [this, count, done = std::move(done)] {
      writing_ = false;
      if (wire_.closed) return done(asio::error::operation_aborted, 0);
      done({}, count);
    });
  }

  void shutdown_send() override { shut_ = true; }
  void close() override {
    wire_.closed = true;
    pump();
  }

 private:
  void pump() {
    asio::post(io_, [&wire = wire_] {
      if (const auto read = wire.pending_read) read();
    });
  }

  asio::io_context& io_;
  Wire& wire_;
  bool reading_ = false;
  bool writing_ = false;
  bool shut_ = false;
};

// Runs everything there is to run.
void settle(Core& core, InstantEngine& engine, Wire& wire) {
  for (;;) {
    size_t done = core.io.poll();
    core.io.restart();
    std::promise<void> idle;  // the one worker has done all that came before this
    asio::post(core.workers, [&idle] { idle.set_value(); });
    idle.get_future().wait();
    done += core.io.poll();
    core.io.restart();
    done += engine.run();
    if (const auto read = wire.pending_read; read && done == 0) {
      const size_t left = wire.to_server.size();
      read();
      done = wire.pending_read == nullptr || wire.to_server.size() != left ? 1 : 0;
    }
    if (done == 0) return;
  }
}

struct Answer {
  int status = 0;
  bool events = false;
  std::string body;
};

// The bytes of a chunked body at `at`, which moves behind it; false when they are not whole.
bool take_chunks(std::string_view text, size_t& at, std::string& out) {
  for (;;) {
    const size_t line = text.find("\r\n", at);
    if (line == std::string_view::npos) return false;
    const size_t size = std::strtoul(std::string(text.substr(at, line - at)).c_str(), nullptr, 16);
    at = line + 2;
    if (at + size + 2 > text.size()) return false;
    out += text.substr(at, size);
    require(text.substr(at + size, 2) == "\r\n");
    at += size + 2;
    if (size == 0) return true;
  }
}

// What the server sent, taken apart. `heads_only`: answers may be to HEAD requests, which have no
// body, so that nothing behind the first head is looked at.
std::vector<Answer> answers_in(std::string_view text, bool heads_only) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  std::vector<Answer> out;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kContinue)) {
      at += kContinue.size();
      continue;
    }
    const size_t head_end = text.find("\r\n\r\n", at);
    require(head_end != std::string_view::npos);
    const std::string_view head = text.substr(at, head_end + 2 - at);
    require(head.starts_with("HTTP/1.1 ") && head.find('\0') == std::string_view::npos);
    Answer answer;
    answer.status = std::atoi(std::string(head.substr(9, 3)).c_str());
    require(answer.status >= 200 && answer.status < 600);
    answer.events = head.find("text/event-stream") != std::string_view::npos;
    at = head_end + 4;
    if (heads_only) return {answer};
    const size_t length = head.find("\r\nContent-Length: ");
    if (head.find("\r\nTransfer-Encoding: chunked") != std::string_view::npos) {
      require(take_chunks(text, at, answer.body));
    } else if (length != std::string_view::npos) {
      const size_t size =
          std::strtoul(std::string(head.substr(length + 18, 12)).c_str(), nullptr, 10);
      require(at + size <= text.size());
      answer.body = text.substr(at, size);
      at += size;
    } else if (answer.status != 204) {
      answer.body = text.substr(at);
      at = text.size();
    }
    if (answer.status >= 400) require(!json_in(answer.body).is_discarded());
    out.push_back(std::move(answer));
  }
  return out;
}

// Everything a client gets for `sent`.
std::string talk(std::string_view sent, size_t cut, bool end, std::string_view answer) {
  ServerOptions options;
  options.threads = 1;
  options.max_body_bytes = 1 << 16;
  options.max_header_bytes = 4096;
  InstantEngine engine(answer, cut);
  Core core(options, engine, Router(AccessGuard(options, true)));
  Wire wire;
  wire.to_server = sent;
  wire.cut = cut;
  wire.end = end;
  auto connection =
      std::make_shared<Connection>(std::make_unique<MemoryTransport>(core.io, wire), core, false);
  require(core.add(connection));
  connection->start();
  settle(core, engine, wire);
  if (!end) {
    wire.end = true;  // it has its answers and leaves
    settle(core, engine, wire);
  }
  connection->stop();
  settle(core, engine, wire);
  const std::weak_ptr<Connection> left = connection;
  connection.reset();
  settle(core, engine, wire);
  require(left.expired() && core.count() == 0 && wire.closed);
  core.workers.join();
  return wire.to_client;
}

void check_events(const std::string& body) {
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    require(end != std::string::npos);
    const std::string_view line = std::string_view(body).substr(at, end - at);
    const bool known = line.empty() || line.starts_with(':') || line.starts_with("event: ") ||
                       line == "data: [DONE]" ||
                       (line.starts_with("data: ") && json_in(line.substr(6)).is_object());
    require(known);
    at = end + 1;
  }
}

void raw(std::string_view sent, size_t cut, bool end) {
  constexpr std::string_view kAnswer = "<think>\nx\n</think>\n\nHi";
  const std::string in_pieces = talk(sent, cut, end, kAnswer);
  if (end) return;  // leaving early ends what was not yet answered
  // A body of a HEAD answer is not sent; who asked what cannot be told here.
  const bool heads_only = sent.find("HEAD") != std::string_view::npos;
  const auto pieces = answers_in(in_pieces, heads_only);
  const auto whole = answers_in(talk(sent, sent.size() + 1, false, kAnswer), heads_only);
  const size_t both = std::min(whole.size(), pieces.size());
  for (size_t i = 0; i < both; ++i) require(whole[i].status == pieces[i].status);
  // A head that is not whole may be refused already, or waited for: the parser looks at its first
  // bytes at once, at later ones when the end of the head is there.
  require(whole.size() <= both + 1 && pieces.size() <= both + 1);
  for (size_t i = both; i < whole.size(); ++i) require(whole[i].status == 400);
  for (size_t i = both; i < pieces.size(); ++i) require(pieces[i].status == 400);
}

void framed(std::string_view path, std::string_view body, std::string_view answer, size_t cut) {
  const std::string sent =
      fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", path,
                  body.size()) +
      std::string(body);
  const auto answers = answers_in(talk(sent, cut, false, answer), false);
  require(answers.size() == 1 && answers[0].status != 500);
  if (answers[0].events) return check_events(answers[0].body);
  require(json_in(answers[0].body).is_object());
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  log::init("off");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kPaths[] = {"/v1/chat/completions",
                                         "/v1/completions",
                                         "/v1/responses",
                                         "/v1/messages",
                                         "/v1/messages/count_tokens",
                                         "/completion",
                                         "/tokenize",
                                         "/detokenize",
                                         "/apply-template"};
  if (size < 2 || size > 8192) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t cut = 1 + data[1] % 32;
  if (data[0] >= 128) {
    raw(rest, cut, data[0] & 1);
    return 0;
  }
  // The body, and behind a zero byte what the model writes.
  const size_t zero = std::min(rest.find('\0'), rest.size());
  framed(kPaths[data[0] % std::size(kPaths)], rest.substr(0, zero),
         rest.substr(std::min(zero + 1, rest.size())), cut);
  return 0;
}
