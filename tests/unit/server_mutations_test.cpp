// A thousand damaged answers through the answers of every API: what a stream's events add up to is
// the whole answer.
#include <functional>

#include <gtest/gtest.h>

#include "server/anthropic_response.h"
#include "server/openai_response.h"
#include "server/responses_response.h"
#include "server_mutations.h"

namespace strata::server {
namespace {

using Deltas = std::vector<engine::TextDelta>;
using Make = std::function<std::unique_ptr<Answer>(bool stream)>;

// The data of each event.
std::vector<Json> events_of(const std::string& sse) {
  std::vector<Json> out;
  for (size_t at = 0; at < sse.size();) {
    const size_t end = sse.find('\n', at);
    const std::string line = sse.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("data: {")) out.push_back(json_in(line.substr(6)));
  }
  return out;
}

// A chat's message, put together as an OpenAI client does.
Json gathered_chat(const std::vector<Json>& events) {
  Json out{{"role", "assistant"}, {"content", ""}};
  for (const Json& event : events) {
    if (event["choices"].empty()) continue;
    const Json& delta = event["choices"][0]["delta"];
    for (const char* key : {"content", "reasoning_content"}) {
      const auto part = delta.find(key);
      if (part == delta.end() || !part->is_string()) continue;
      out[key] = out.value(key, "") + part->get<std::string>();
    }
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      if (call.contains("id")) {
        EXPECT_EQ(call["index"], out.value("tool_calls", Json::array()).size());
        out["tool_calls"].push_back(call);
        out["tool_calls"].back().erase("index");
        continue;
      }
      Json& given = out["tool_calls"][call["index"].get<size_t>()]["function"]["arguments"];
      given.get_ref<std::string&>() += call["function"]["arguments"].get<std::string>();
    }
    if (const Json& reason = event["choices"][0]["finish_reason"]; reason.is_string()) {
      out["finish_reason"] = reason;
    }
  }
  return out;
}

Json whole_chat(const Json& body) {
  Json out = body["choices"][0]["message"];
  if (out["content"].is_null()) out["content"] = "";
  out.erase("refusal");
  out["finish_reason"] = body["choices"][0]["finish_reason"];
  return out;
}

// The blocks of a message, put together as an Anthropic client does.
Json gathered_blocks(const std::vector<Json>& events) {
  Json blocks = Json::array();
  std::string input;
  Json reason;
  for (const Json& event : events) {
    if (event["type"] == "content_block_start") {
      EXPECT_EQ(event["index"], blocks.size());
      blocks.push_back(event["content_block"]);
      input.clear();
    } else if (event["type"] == "content_block_delta") {
      EXPECT_EQ(event["index"].get<size_t>() + 1, blocks.size());
      const Json& delta = event["delta"];
      for (const char* key : {"text", "thinking", "signature"}) {
        if (delta.contains(key)) {
          blocks.back()[key].get_ref<std::string&>() += delta[key].get<std::string>();
        }
      }
      input += delta.value("partial_json", "");
    } else if (event["type"] == "content_block_stop") {
      if (blocks.back()["type"] == "tool_use") blocks.back()["input"] = json_in(input);
    } else if (event["type"] == "message_delta") {
      reason = event["delta"]["stop_reason"];
    }
  }
  return Json{blocks, reason};
}

Json gathered_items(const std::vector<Json>& events) {
  Json items = Json::array();
  std::string text;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") text.clear();
    if (type.ends_with(".delta")) text += event["delta"].get<std::string>();
    if (type != "response.output_item.done") continue;
    const Json& item = event["item"];
    EXPECT_EQ(item.contains("arguments") ? item["arguments"] : item["content"][0]["text"], text);
    items.push_back(item);
  }
  EXPECT_EQ(events.back()["response"]["output"], items);
  return items;
}

std::string streamed(const Make& make, const Deltas& deltas) {
  const auto answer = make(true);
  std::string out = answer->begin();
  for (const auto& delta : deltas) out += answer->delta(0, delta);
  return out + answer->finish(0, {});
}

Json whole(const Make& make, const Deltas& deltas) {
  const auto answer = make(false);
  answer->begin();
  for (const auto& delta : deltas) answer->delta(0, delta);
  answer->finish(0, {});
  return answer->whole();
}

// Between characters, as the engine does.
Deltas cut(const std::string& text, const std::function<size_t()>& length) {
  Deltas out;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(at + length(), text.size());
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    out.push_back({text.substr(at, end - at), {}, {}});
    at = end;
  }
  return out;
}

TEST(Answers, AThousandMutationsAddUpToTheWholeAnswerInEveryApi) {
  auto tools = std::make_shared<ToolSet>();
  tools->add({"run", "", Json::parse(R"({"properties":{"command":{"type":"string"},
      "timeout":{"type":"integer"},"env":{"type":"object"},"open":{}}})"),
              false});
  tools->add({"write", "", Json::object(), false});
  ReplyOptions reply;
  reply.tools = tools;
  const Make chat = [&](bool stream) {
    ChatAnswerOptions options;
    options.stream = stream;
    options.reply = reply;
    return make_chat_answer({"chatcmpl-1", "m", 1}, options);
  };
  const Make messages = [&](bool stream) {
    MessagesAnswerOptions options;
    options.stream = stream;
    options.reply = reply;
    return make_messages_answer({"msg_1", "m", 1}, options);
  };
  const Make responses = [&](bool stream) {
    ResponsesAnswerOptions options;
    options.echo = Json::object();
    options.stream = stream;
    options.reply = reply;
    return make_responses_answer({"resp_1", "m", 1}, std::move(options));
  };
  std::mt19937 random(21);
  size_t calls = 0;
  size_t text_behind_calls = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string text = mutated_answer(round, random);
    reply.starts_in_reasoning = round % 3 == 0;
    if (round % 2 == 0) text = "why?\n</think>\n\n" + text;
    if (round % 7 == 0) text += "\nDone.";
    text = valid_utf8(text);
    const Deltas one = cut(text, [&] { return text.size(); });
    const Json chat_whole = whole_chat(whole(chat, one));
    const Json message = whole(messages, one);
    const Json items = whole(responses, one)["output"];
    const std::vector<Deltas> cuts{one, cut(text, [] { return size_t{1}; }),
                                   cut(text, [&] { return size_t{1} + random() % 9; }),
                                   cut(text, [&] { return size_t{1} + random() % 40; })};
    for (const Deltas& deltas : cuts) {
      ASSERT_EQ(gathered_chat(events_of(streamed(chat, deltas))), chat_whole) << text;
      ASSERT_EQ(gathered_blocks(events_of(streamed(messages, deltas))),
                (Json{message["content"], message["stop_reason"]}))
          << text;
      ASSERT_EQ(gathered_items(events_of(streamed(responses, deltas))), items) << text;
    }
    for (const Json& call : chat_whole.value("tool_calls", Json::array())) {
      const Json& arguments = call["function"]["arguments"];
      EXPECT_TRUE(json_in(arguments.get<std::string>()).is_object()) << text << "\n" << arguments;
      ++calls;
    }
    const Json& content = message["content"];
    for (size_t i = 1; i < content.size(); ++i) {
      text_behind_calls += content[i]["type"] == "text" && content[i - 1]["type"] == "tool_use";
    }
  }
  EXPECT_GT(calls, 500u);
  EXPECT_GT(text_behind_calls, 20u);
}

}  // namespace
}  // namespace strata::server
