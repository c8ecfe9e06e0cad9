#include <random>

#include <gtest/gtest.h>

#include "server/llama_compat.h"
#include "server/openai_response.h"
#include "server/reasoning_splitter.h"

namespace strata::server {
namespace {

struct Split {
  std::string reasoning;
  std::string content;
  bool operator==(const Split&) const = default;
};

void add(Split& out, const ReasoningSplitter::Piece& piece) {
  out.reasoning += piece.reasoning;
  out.content += piece.content;
}

Split split(bool starts, const std::vector<std::string>& pieces) {
  ReasoningSplitter splitter(starts);
  Split out;
  for (const auto& piece : pieces) add(out, splitter.push(piece));
  add(out, splitter.finish());
  return out;
}

struct SplitCase {
  bool starts;
  std::string text;
  Split expected;
};

std::vector<SplitCase> split_cases() {
  return {
      {true, "think\n</think>\n\nanswer", {"think", "answer"}},
      {true, "</think>answer", {"", "answer"}},
      {true, "never closed </thin", {"never closed </thin", ""}},
      {true, "a < b </ c </think", {"a < b </ c </think", ""}},
      {true, "", {"", ""}},
      {true, "a \n b\n\n \n</think>\n\nc", {"a \n b", "c"}},
      {true, " \t\n</think>c", {"", "c"}},
      {true, "cut short\n\n", {"cut short", ""}},
      {true, "a\n</thin\n</think>", {"a\n</thin", ""}},
      {true, "e.\n</think>{\"a\":1}", {"e.", "{\"a\":1}"}},
      {true, "x</think>\r\n\ny</think>z", {"x", "y</think>z"}},
      {true, "x<</think>y", {"x<", "y"}},
      {true, "x</</think>\n", {"x</", ""}},
      {false, "plain", {"", "plain"}},
      {false, "<think>\nwhy\n</think>\n\nso", {"why", "so"}},
      {false, " \n<think>why</think>so", {"why", "so"}},
      {false, "<thin", {"", "<thin"}},
      {false, "<thing> and <think>x</think>", {"", "<thing> and <think>x</think>"}},
      {false, "a<think>x</think>", {"", "a<think>x</think>"}},
      {false, " \n ", {"", " \n "}},
      {false, "<think>open", {"open", ""}},
      {false, "\n\ncontent", {"", "\n\ncontent"}},
      {false, "</think>x", {"", "</think>x"}},
  };
}

TEST(ReasoningSplitter, SplitsAtTheTags) {
  for (const auto& c : split_cases()) {
    EXPECT_EQ(split(c.starts, {c.text}), c.expected) << c.text;
  }
}

TEST(ReasoningSplitter, TheResultDoesNotDependOnTheCut) {
  for (const auto& c : split_cases()) {
    std::vector<std::string> bytes;
    for (const char b : c.text) bytes.emplace_back(1, b);
    EXPECT_EQ(split(c.starts, bytes), c.expected) << c.text;
    for (size_t i = 0; i <= c.text.size(); ++i) {
      for (size_t j = i; j <= c.text.size(); ++j) {
        EXPECT_EQ(split(c.starts, {c.text.substr(0, i), c.text.substr(i, j - i), c.text.substr(j)}),
                  c.expected)
            << c.text << " cut at " << i << " and " << j;
      }
    }
  }
}

TEST(ReasoningSplitter, RandomTagSoupDoesNotDependOnTheCut) {
  std::mt19937 random(7);
  const std::vector<std::string> atoms{"<",  "/", "think", ">",    "<think>", "</think>",
                                       "\n", "a", " ",     "</th", "ink>"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 10; ++i) text += atoms[random() % atoms.size()];
    const bool starts = random() % 2 == 0;
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 5;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    EXPECT_EQ(split(starts, pieces), split(starts, {text})) << text;
  }
}

TEST(ReasoningSplitter, GivesTextAwayAsSoonAsItIsSure) {
  ReasoningSplitter splitter(true);
  EXPECT_EQ(splitter.push("thinking <").reasoning, "thinking");
  EXPECT_EQ(splitter.push("b").reasoning, " <b");
  EXPECT_TRUE(splitter.in_reasoning());
  EXPECT_EQ(splitter.push("</think>x").content, "x");
  EXPECT_FALSE(splitter.in_reasoning());
}

// ---- answers

engine::TokenLogprob logprob(TokenId token, float value, std::string bytes) {
  engine::TokenLogprob out;
  out.token = token;
  out.logprob = value;
  out.bytes = bytes;
  out.top.push_back({token, value, std::move(bytes)});
  return out;
}

engine::Finished finished(engine::FinishReason reason = engine::FinishReason::kStop) {
  engine::Finished out;
  out.reason = reason;
  out.usage = {20, 8, 6, 120.0, 60.0};
  return out;
}

std::vector<Json> events_of(const std::string& sse) {
  std::vector<Json> out;
  size_t at = 0;
  while (at < sse.size()) {
    const size_t end = sse.find("\n\n", at);
    const std::string event = sse.substr(at, end - at);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    out.push_back(event == "data: [DONE]" ? Json("[DONE]") : Json::parse(event.substr(6)));
    at = end + 2;
  }
  return out;
}

std::string stream_all(Answer& answer, const std::vector<engine::TextDelta>& deltas,
                       const engine::Finished& end) {
  std::string out = answer.begin();
  for (const auto& delta : deltas) out += answer.delta(0, delta);
  return out + answer.finish(0, end);
}

Json whole_of(Answer& answer, const std::vector<engine::TextDelta>& deltas,
              const engine::Finished& end) {
  EXPECT_EQ(answer.begin(), "");
  for (const auto& delta : deltas) EXPECT_EQ(answer.delta(0, delta), "");
  EXPECT_EQ(answer.finish(0, end), "");
  return answer.whole();
}

template <class Options>
Options streaming(Options options) {
  options.stream = true;
  return options;
}

const AnswerInfo kInfo{"chatcmpl-1", "m", 1700000000};

TEST(ChatAnswer, StreamEqualsWholeForRandomCuts) {
  std::mt19937 random(3);
  const std::string text =
      "let me < think\n</think>\n\nan <answer> with \xF0\x9F\x98\x80 and </think> in it";
  for (int round = 0; round < 300; ++round) {
    ChatAnswerOptions options;
    options.reply.starts_in_reasoning = round % 3 != 0;
    options.include_usage = true;
    options.logprobs = round % 2 == 0;
    options.reply.think_close = 99;
    std::vector<engine::TextDelta> deltas;
    for (size_t at = 0; at < text.size();) {
      size_t n = std::min<size_t>(1 + random() % 9, text.size() - at);
      while (at + n < text.size() && (text[at + n] & 0xC0) == 0x80) ++n;
      engine::TextDelta delta;
      delta.text = text.substr(at, n);
      delta.tokens = {static_cast<TokenId>(at)};
      if (options.logprobs) delta.logprobs.push_back(logprob(1, -0.5f, delta.text));
      deltas.push_back(std::move(delta));
      at += n;
    }
    const auto streamed = make_chat_answer(kInfo, streaming(options));
    const std::vector<Json> events = events_of(stream_all(*streamed, deltas, finished()));
    const auto collected = make_chat_answer(kInfo, options);
    const Json whole = whole_of(*collected, deltas, finished());

    Split joined;
    Json logprobs = Json::array();
    int finishes = 0;
    for (const Json& event : events) {
      if (!event.is_object() || event["choices"].empty()) continue;
      const Json& choice = event["choices"][0];
      joined.reasoning += choice["delta"].value("reasoning_content", "");
      joined.content += choice["delta"].value("content", "");
      if (choice["logprobs"].is_object()) {
        for (const Json& one : choice["logprobs"]["content"]) logprobs.push_back(one);
      }
      if (!choice["finish_reason"].is_null()) {
        ++finishes;
        EXPECT_EQ(choice["finish_reason"], whole["choices"][0]["finish_reason"]);
        EXPECT_EQ(event["timings"], whole["timings"]);
      }
    }
    const Json& message = whole["choices"][0]["message"];
    EXPECT_EQ(joined.reasoning, message.value("reasoning_content", ""));
    EXPECT_EQ(joined.content, message["content"].get<std::string>());
    EXPECT_EQ(finishes, 1);
    EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_EQ(events[events.size() - 2]["usage"], whole["usage"]);
    EXPECT_EQ(events[events.size() - 2]["choices"], Json::array());
    if (options.logprobs) {
      EXPECT_EQ(logprobs, whole["choices"][0]["logprobs"]["content"]);
      std::string told;
      for (const Json& one : logprobs) told += one["token"].get<std::string>();
      // The first and the last token may reach beyond the content.
      EXPECT_NE(("\n" + told).find(joined.content), std::string::npos) << told;
      EXPECT_LE(logprobs.size(), deltas.size());
    } else {
      EXPECT_TRUE(whole["choices"][0]["logprobs"].is_null());
    }
  }
}

TEST(ChatAnswer, SendsUsageOnlyWhenAsked) {
  const auto answer = make_chat_answer(kInfo, streaming(ChatAnswerOptions{}));
  const auto events = events_of(stream_all(*answer, {{"hi", {1}, {}}}, finished()));
  ASSERT_EQ(events.size(), 4u);
  for (const Json& event : events) EXPECT_FALSE(event.is_object() && event.contains("usage"));
}

TEST(ChatAnswer, CountsReasoningTokensUpToTheClosingOne) {
  ChatAnswerOptions options;
  options.reply.starts_in_reasoning = true;
  options.reply.think_close = 99;
  const auto count = [&](const std::vector<engine::TextDelta>& deltas) {
    const auto answer = make_chat_answer(kInfo, options);
    return whole_of(*answer, deltas, finished())["usage"]["completion_tokens_details"]["reasoning_tokens"]
        .get<int>();
  };
  EXPECT_EQ(count({{"a", {1}, {}}, {"b", {2}, {}}, {"</think>", {99}, {}}, {"x", {3}, {}}}), 3);
  EXPECT_EQ(count({{"ab</think>xy", {1, 2, 99, 3, 4}, {}}}), 3);
  EXPECT_EQ(count({{"never", {1, 2, 3}, {}}}), 3);
  options.reply.starts_in_reasoning = false;
  EXPECT_EQ(count({{"no thinking", {1, 2, 3}, {}}}), 0);
}

TEST(ChatAnswer, AThinkBlockThatNeverEndsLeavesContentEmpty) {
  ChatAnswerOptions options;
  options.reply.starts_in_reasoning = true;
  const auto answer = make_chat_answer(kInfo, options);
  const Json whole =
      whole_of(*answer, {{"on and on</th", {1}, {}}}, finished(engine::FinishReason::kLength));
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "");
  EXPECT_EQ(whole["choices"][0]["message"]["reasoning_content"], "on and on</th");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
}

TEST(ChatAnswer, WritesUsageAndTimings) {
  const auto answer = make_chat_answer(kInfo, {});
  const Json whole = whole_of(*answer, {{"hi", {1}, {}}}, finished());
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["model"], "m");
  EXPECT_EQ(
      to_text(whole["usage"]),
      R"({"prompt_tokens":20,"completion_tokens":6,"total_tokens":26,)"
      R"("prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":0}})");
  EXPECT_EQ(whole["timings"]["prompt_n"], 12);
  EXPECT_DOUBLE_EQ(whole["timings"]["prompt_per_second"], 100.0);
  EXPECT_DOUBLE_EQ(whole["timings"]["predicted_per_second"], 100.0);
  EXPECT_DOUBLE_EQ(timings_object({})["predicted_per_second"], 0.0);
}

TEST(ChatAnswer, LogprobBytesNeedNotBeUtf8) {
  ChatAnswerOptions options;
  options.logprobs = true;
  const auto answer = make_chat_answer(kInfo, options);
  const engine::TextDelta delta{"\xF0\x9F\x98\x80",
                                {1, 2},
                                {logprob(1, -0.25f, "\xF0\x9F"), logprob(2, -0.5f, "\x98\x80")}};
  const Json content =
      Json::parse(to_text(whole_of(*answer, {delta}, finished())))["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(content[0]["bytes"], Json::array({0xF0, 0x9F}));
  EXPECT_EQ(content[0]["token"], "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(content[1]["top_logprobs"][0]["bytes"], Json::array({0x98, 0x80}));
}

TEST(CompletionAnswer, StreamEqualsWholeAndEchoComesFirst) {
  CompletionAnswerOptions options;
  options.echo = {"once "};
  options.include_usage = true;
  const std::vector<engine::TextDelta> deltas{
      {"upon ", {1}, {}}, {"", {2}, {}}, {"a time", {3}, {}}};
  const auto streamed = make_completion_answer(kInfo, streaming(options));
  std::string joined;
  const auto events =
      events_of(stream_all(*streamed, deltas, finished(engine::FinishReason::kLength)));
  for (const Json& event : events) {
    if (event.is_object() && !event["choices"].empty()) {
      joined += event["choices"][0]["text"].get<std::string>();
      EXPECT_EQ(event["object"], "text_completion");
    }
  }
  const auto collected = make_completion_answer(kInfo, options);
  const Json whole = whole_of(*collected, deltas, finished(engine::FinishReason::kLength));
  EXPECT_EQ(joined, "once upon a time");
  EXPECT_EQ(whole["choices"][0]["text"], joined);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[events.size() - 2]["usage"], whole["usage"]);
}

TEST(CompletionAnswer, LogprobsAreParallelArraysWithOffsets) {
  CompletionAnswerOptions options;
  options.logprobs = true;
  const auto answer = make_completion_answer(kInfo, options);
  const Json whole = whole_of(*answer,
                              {{"ab", {1}, {logprob(1, -1.0f, "ab")}},
                               {"c", {2}, {logprob(2, -2.0f, "c")}}},
                              finished());
  EXPECT_EQ(to_text(whole["choices"][0]["logprobs"]),
            R"({"tokens":["ab","c"],"token_logprobs":[-1.0,-2.0],)"
            R"("top_logprobs":[{"ab":-1.0},{"c":-2.0}],"text_offset":[0,2]})");
}

TEST(LlamaAnswer, NamesHowTheTextEnded) {
  const auto ended = [](engine::FinishReason reason, const std::string& word) {
    const auto answer = make_llama_answer(kInfo, {false, true, false});
    engine::Finished f = finished(reason);
    f.stop_string = word;
    return whole_of(*answer, {{"text", {7, 8}, {}}}, f);
  };
  const Json eos = ended(engine::FinishReason::kStop, "");
  EXPECT_EQ(eos["content"], "text");
  EXPECT_EQ(eos["tokens"], Json::array({7, 8}));
  EXPECT_EQ(eos["stop"], true);
  EXPECT_EQ(eos["stop_type"], "eos");
  EXPECT_EQ(eos["tokens_predicted"], 6);
  EXPECT_EQ(eos["tokens_evaluated"], 20);
  EXPECT_EQ(ended(engine::FinishReason::kLength, "")["stop_type"], "limit");
  const Json word = ended(engine::FinishReason::kStop, "END");
  EXPECT_EQ(word["stop_type"], "word");
  EXPECT_EQ(word["stopping_word"], "END");
}

TEST(LlamaAnswer, TellsItsSettingsAndLeavesOutWhatIsNotWanted) {
  engine::ModelInfo model;
  model.sampling_defaults.temperature = 0.5f;
  model.sampling_defaults.top_k = 20;
  GenerationFields fields;
  fields.sampling.temperature = 0.25f;
  fields.sampling.seed = 7;
  fields.max_tokens = 9;
  fields.stop = {"END"};
  LlamaAnswerOptions options;
  options.prompt = "before";
  options.settings = generation_settings(fields, model);
  const Json all = whole_of(*make_llama_answer(kInfo, options), {{"text", {7}, {}}}, finished());
  EXPECT_EQ(all["prompt"], "before");
  const Json& settings = all["generation_settings"];
  EXPECT_EQ(settings["temperature"], 0.25);
  EXPECT_EQ(settings["top_k"], 20);
  EXPECT_EQ(settings["top_p"], 1.0);
  EXPECT_EQ(settings["seed"], 7);
  EXPECT_EQ(settings["n_predict"], 9);
  EXPECT_EQ(settings["stop"], Json::array({"END"}));

  options.response_fields = {"content", "generation_settings/seed", "content/none", "none"};
  const std::vector<engine::TextDelta> deltas{{"text", {7}, {}}};
  EXPECT_EQ(whole_of(*make_llama_answer(kInfo, options), deltas, finished()),
            (Json{{"content", "text"}, {"generation_settings/seed", 7}}));
  const auto events =
      events_of(stream_all(*make_llama_answer(kInfo, streaming(options)), deltas, finished()));
  EXPECT_EQ(events.back(), (Json{{"content", ""}, {"generation_settings/seed", 7}}));
}

TEST(LlamaAnswer, StreamsPartsAndThenTheRest) {
  const auto answer = make_llama_answer(kInfo, streaming(LlamaAnswerOptions{}));
  const auto events = events_of(stream_all(*answer, {{"a", {1}, {}}, {"b", {2}, {}}}, finished()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["content"], "a");
  EXPECT_EQ(events[1]["stop"], false);
  EXPECT_EQ(events[2]["stop"], true);
  EXPECT_EQ(events[2]["content"], "");
}

TEST(TokenizeAnswer, PiecesThatAreNotUtf8AreBytes) {
  EXPECT_EQ(to_text(tokenize_answer({1, 2}, {})), R"({"tokens":[1,2]})");
  EXPECT_EQ(to_text(tokenize_answer({1, 2}, {"a", "\xF0"})),
            R"({"tokens":[{"id":1,"piece":"a"},{"id":2,"piece":[240]}]})");
}

}  // namespace
}  // namespace strata::server
