// A chat so far, and its file form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace strata::apps {

class Conversation {
 public:
  struct Reply {
    std::string thinking;
    std::string content;
  };

  void set_system(std::optional<std::string> text) { system_ = std::move(text); }
  // Forgets every turn; the system message stays.
  void clear() { turns_.clear(); }

  void ask(std::string text);
  // Answers the last question.
  void answer(Reply reply);
  // Takes back the last question with its answer; false when there is none.
  bool undo();
  // Takes back the last answer, so that its question is open again; false when there is no
  // question.
  bool reopen();
  size_t turns() const { return turns_.size(); }

  // As the OpenAI API writes them.
  nlohmann::ordered_json messages() const;

  // {"messages": [...]}, as JSON text and back. from_json says what is wrong with the text.
  std::string to_json() const;
  static Result<Conversation> from_json(std::string_view text);

 private:
  struct Turn {
    std::string question;
    std::optional<Reply> reply;
  };
  std::optional<std::string> system_;
  std::vector<Turn> turns_;
};

}  // namespace strata::apps
