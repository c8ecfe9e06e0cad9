#include "apps/line_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <string_view>
#include <utility>

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include "apps/files.h"
#include "text/utf8.h"

namespace strata::apps {

namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 24;

// Bytes of standard input, for as long as no signal comes.
class Input {
 public:
  explicit Input(SignalQueue& signals) : signals_(signals) {}

  // Waits for bytes. False at the end and on a signal.
  bool fill() {
    std::array<pollfd, 2> entries = {pollfd{STDIN_FILENO, POLLIN, 0},
                                     pollfd{signals_.descriptor(), POLLIN, 0}};
    while (poll(entries.data(), entries.size(), -1) < 0) {
      if (errno != EINTR) return false;
    }
    if (entries[1].revents != 0) {
      signal_ = signals_.wait(0);
      if (signal_ != 0) return false;
    }
    char bytes[4096];
    const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  std::string& buffer() { return buffer_; }
  // The signal that made fill() fail, if one did; forgets it.
  int take_signal() { return std::exchange(signal_, 0); }

 private:
  SignalQueue& signals_;
  std::string buffer_;
  int signal_ = 0;
};

class PipedLines final : public LineReader {
 public:
  explicit PipedLines(SignalQueue& signals) : input_(signals) {}

  bool interactive() const override { return false; }
  Read read(const std::string&) override {
    std::string& buffer = input_.buffer();
    for (size_t searched = 0;;) {
      const size_t end = buffer.find('\n', searched);
      if (end != std::string::npos || buffer.size() > kMaxLineBytes) {
        const size_t length = std::min(end, buffer.size());
        std::string line = buffer.substr(0, length);
        buffer.erase(0, std::min(length + 1, buffer.size()));
        return {Outcome::kLine, std::move(line), 0};
      }
      searched = buffer.size();
      if (!input_.fill()) break;
    }
    if (const int signal = input_.take_signal(); signal != 0) {
      return {Outcome::kInterrupted, {}, signal};
    }
    if (buffer.empty()) return {Outcome::kEnd, {}, 0};
    return {Outcome::kLine, std::exchange(buffer, {}), 0};
  }

 private:
  Input input_;
};

struct CloseHistory {
  void operator()(History* history) const { history_end(history); }
};
struct CloseEditor {
  void operator()(EditLine* editor) const { el_end(editor); }
};

class EditedLines final : public LineReader {
 public:
  EditedLines(SignalQueue& signals, const std::string& history_file)
      : input_(signals), history_file_(history_file), history_(history_init()) {
    constexpr int kHistoryLines = 1000;
    // The editor converts to wide characters by the locale, and the default one has only ASCII.
    std::setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event;
    history(history_.get(), &event, H_SETSIZE, kHistoryLines);
    history(history_.get(), &event, H_SETUNIQUE, 1);
    if (!history_file_.empty()) history(history_.get(), &event, H_LOAD, history_file_.c_str());
    editor_.reset(el_init("strata", stdin, stdout, stderr));
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(editor_.get(), EL_CLIENTDATA, this);
    el_set(editor_.get(), EL_PROMPT, &EditedLines::prompt_of);
    el_set(editor_.get(), EL_GETCFN, &EditedLines::next_character);
    el_set(editor_.get(), EL_HIST, history, history_.get());
  }

  ~EditedLines() override {
    if (history_file_.empty()) return;
    HistEvent event;
    if (history(history_.get(), &event, H_SAVE, history_file_.c_str()) < 0) {
      complain(fmt::format("the history could not be written to {}", history_file_));
    }
  }

  bool interactive() const override { return true; }
  Read read(const std::string& prompt) override {
    prompt_ = prompt;
    int count = 0;
    // Before the prompt is seen: what is typed at it must meet the editor, not the terminal.
    el_set(editor_.get(), EL_PREP_TERM, 1);
    const char* text = el_gets(editor_.get(), &count);
    if (const int signal = input_.take_signal(); signal != 0) {
      write_out("\n");
      return {Outcome::kInterrupted, {}, signal};
    }
    if (text == nullptr || count <= 0) {
      write_out("\n");
      return {Outcome::kEnd, {}, 0};
    }
    std::string line(text, static_cast<size_t>(count));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) {
      HistEvent event;
      history(history_.get(), &event, H_ENTER, line.c_str());
    }
    return {Outcome::kLine, std::move(line), 0};
  }

 private:
  static EditedLines* self(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return static_cast<EditedLines*>(data);
  }
  static char* prompt_of(EditLine* editor) { return self(editor)->prompt_.data(); }

  // One character for the editor: 1, or 0 at the end and on a signal.
  static int next_character(EditLine* editor, wchar_t* out) {
    Input& input = self(editor)->input_;
    std::string& buffer = input.buffer();
    while (buffer.empty() || text::utf8_step(buffer).kind == text::Utf8Kind::kIncomplete) {
      if (!input.fill()) {
        buffer.clear();
        return 0;
      }
    }
    const text::Utf8Step step = text::utf8_step(buffer);
    *out =
        step.kind == text::Utf8Kind::kCharacter ? static_cast<wchar_t>(step.code_point) : L'\ufffd';
    // A Ctrl-D typed during an answer, when the terminal was not the editor's, arrives as NUL.
    constexpr wchar_t kEndOfInput = 0x04;
    if (*out == L'\0') *out = kEndOfInput;
    buffer.erase(0, step.length);
    return 1;
  }

  Input input_;
  std::string history_file_;
  std::string prompt_;
  std::unique_ptr<History, CloseHistory> history_;
  std::unique_ptr<EditLine, CloseEditor> editor_;
};

}  // namespace

std::unique_ptr<LineReader> LineReader::open(SignalQueue& signals,
                                             const std::string& history_file) {
  if (is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO)) {
    return std::make_unique<EditedLines>(signals, history_file);
  }
  return std::make_unique<PipedLines>(signals);
}

}  // namespace strata::apps
