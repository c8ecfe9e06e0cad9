// Lines typed by a person, with editing and a history, or piped in.
#pragma once

#include <memory>
#include <string>

#include "apps/interrupt.h"

namespace strata::apps {

class LineReader {
 public:
  enum class Outcome {
    kLine,
    kEnd,          // the end of the input
    kInterrupted,  // a signal came; `signal` tells which
  };
  struct Read {
    Outcome outcome = Outcome::kEnd;
    std::string line;  // without its line feed
    int signal = 0;
  };

  // Reads standard input. Lines are edited when it and standard output are terminals. With a
  // `history_file` the history begins with its lines and is written back at the end.
  static std::unique_ptr<LineReader> open(SignalQueue& signals, const std::string& history_file);
  virtual ~LineReader() = default;

  virtual bool interactive() const = 0;
  // `prompt` is shown only to a person.
  virtual Read read(const std::string& prompt) = 0;
};

}  // namespace strata::apps
