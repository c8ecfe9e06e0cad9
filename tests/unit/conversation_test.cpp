#include "apps/conversation.h"

#include <gtest/gtest.h>

namespace strata::apps {
namespace {

using Json = nlohmann::ordered_json;

Conversation two_turns() {
  Conversation chat;
  chat.set_system("Be brief.");
  chat.ask("one");
  chat.answer({"hm", "1"});
  chat.ask("two");
  chat.answer({"", "2"});
  return chat;
}

TEST(Conversation, WritesMessagesAsTheApiDoes) {
  const Json expected = Json::parse(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "1", "reasoning_content": "hm"},
    {"role": "user", "content": "two"},
    {"role": "assistant", "content": "2"}])");
  EXPECT_EQ(two_turns().messages(), expected);
}

TEST(Conversation, ComesBackFromItsFile) {
  const auto again = Conversation::from_json(two_turns().to_json());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->messages(), two_turns().messages());
}

TEST(Conversation, UndoTakesBackATurnAndReopenOnlyItsAnswer) {
  Conversation chat = two_turns();
  EXPECT_TRUE(chat.reopen());
  EXPECT_EQ(chat.messages().size(), 4u);
  EXPECT_EQ(chat.messages().back()["content"], "two");
  EXPECT_TRUE(chat.undo());
  EXPECT_EQ(chat.messages().size(), 3u);
  EXPECT_TRUE(chat.undo());
  EXPECT_FALSE(chat.undo());
  EXPECT_FALSE(chat.reopen());
  EXPECT_EQ(chat.messages().size(), 1u) << "the system message stays";
}

TEST(Conversation, RefusesFilesThatAreNoChat) {
  for (
      const char* text : {
          "",
          "[",
          "{}",
          "[]",
          R"({"messages": 1})",
          R"({"messages": [1]})",
          R"({"messages": [{"role": "user"}]})",
          R"({"messages": [{"role": "user", "content": []}]})",
          R"({"messages": [{"role": "assistant", "content": "a"}]})",
          R"({"messages": [{"role": "tool", "content": "a"}]})",
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})",
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]})",
      }) {
    EXPECT_FALSE(Conversation::from_json(text).ok()) << text;
  }
  EXPECT_TRUE(Conversation::from_json(R"({"messages": []})").ok());
}

}  // namespace
}  // namespace strata::apps
