#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "server/llama_compat.h"
#include "server/openai_request.h"

namespace strata::server {
namespace {

constexpr ModelFacts kFacts{1000};

Json chat_body(const std::string& more = {}) {
  return Json::parse(R"({"messages":[{"role":"user","content":"hi"}])" +
                     (more.empty() ? "" : "," + more) + "}");
}

Result<ChatCompletionRequest> chat(const std::string& more) {
  return parse_chat_completion(chat_body(more), kFacts);
}

std::string chat_error(const std::string& more) { return chat(more).status().message(); }

std::string messages_error(const std::string& messages) {
  return parse_chat_completion(Json::parse("{\"messages\":" + messages + "}"), kFacts)
      .status()
      .message();
}

std::string completion_error(const std::string& body) {
  return parse_completion(Json::parse(body), kFacts).status().message();
}

TEST(ChatRequest, AbsentFieldsStayAbsent) {
  for (const char* more :
       {"", R"("temperature":null,"top_k":null,"top_p":null,"min_p":null,"typical_p":null,
               "repetition_penalty":null,"repeat_penalty":null,"presence_penalty":null,
               "frequency_penalty":null,"logit_bias":null,"seed":null,"stop":null,"max_tokens":null,
               "max_completion_tokens":null,"logprobs":null,"top_logprobs":null,"n":null,"tools":null,
               "tool_choice":null,"response_format":null,"stream":null,"stream_options":null,
               "chat_template_kwargs":null,"enable_thinking":null,"reasoning_effort":null,
               "preserve_thinking":null,"ignore_eos":null,"model":null,"user":null,"metadata":null)"}) {
    const auto result = chat(more);
    ASSERT_TRUE(result.ok()) << result.status().message();
    const GenerationFields& f = result->fields;
    EXPECT_FALSE(f.sampling.temperature);
    EXPECT_FALSE(f.sampling.top_k);
    EXPECT_FALSE(f.sampling.top_p);
    EXPECT_FALSE(f.sampling.min_p);
    EXPECT_FALSE(f.sampling.typical_p);
    EXPECT_FALSE(f.sampling.repetition_penalty);
    EXPECT_FALSE(f.sampling.presence_penalty);
    EXPECT_FALSE(f.sampling.frequency_penalty);
    EXPECT_FALSE(f.sampling.penalty_last_n);
    EXPECT_FALSE(f.sampling.seed);
    EXPECT_FALSE(f.sampling.top_logprobs);
    EXPECT_TRUE(f.sampling.logit_bias.empty());
    EXPECT_FALSE(f.max_tokens);
    EXPECT_TRUE(f.stop.empty());
    EXPECT_FALSE(f.stream);
    EXPECT_FALSE(f.include_usage);
    EXPECT_FALSE(f.ignore_eos);
    EXPECT_TRUE(result->chat.template_kwargs.is_null());
    EXPECT_TRUE(result->chat.tools.is_null());
    EXPECT_TRUE(result->chat.add_generation_prompt);
  }
}

TEST(ChatRequest, ZeroIsAValueOfItsOwn) {
  const auto result = chat(R"("temperature":0,"top_k":0,"min_p":0,"presence_penalty":0,
      "frequency_penalty":0,"seed":0,"max_tokens":0,"repeat_last_n":0,"logprobs":true,"top_logprobs":0)");
  ASSERT_TRUE(result.ok()) << result.status().message();
  const engine::SamplingParams& s = result->fields.sampling;
  EXPECT_EQ(s.temperature, 0.0f);
  EXPECT_EQ(s.top_k, 0);
  EXPECT_EQ(s.min_p, 0.0f);
  EXPECT_EQ(s.presence_penalty, 0.0f);
  EXPECT_EQ(s.frequency_penalty, 0.0f);
  EXPECT_EQ(s.seed, 0u);
  EXPECT_EQ(s.penalty_last_n, 0);
  EXPECT_EQ(s.top_logprobs, 0);
  EXPECT_EQ(result->fields.max_tokens, 0);
}

TEST(ChatRequest, EveryFieldReachesTheEngineWithItsValue) {
  const auto result =
      chat(R"("temperature":0.5,"top_k":40,"top_p":0.25,"min_p":0.125,"typical_p":0.75,
      "repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":2,"penalty_last_n":-1,
      "seed":18446744073709551615,"stop":["a","b\nc"],"max_completion_tokens":7,"max_tokens":9,
      "logprobs":true,"top_logprobs":20,"stream":true,"stream_options":{"include_usage":true},
      "ignore_eos":true,"logit_bias":{"5":-100,"999":1.5},"n":1,"user":"u","metadata":{"a":1},
      "unknown_field":[1],"tools":[],"tool_choice":"auto","response_format":{"type":"text"})");
  ASSERT_TRUE(result.ok()) << result.status().message();
  const GenerationFields& f = result->fields;
  EXPECT_EQ(f.sampling.temperature, 0.5f);
  EXPECT_EQ(f.sampling.top_k, 40);
  EXPECT_EQ(f.sampling.top_p, 0.25f);
  EXPECT_EQ(f.sampling.min_p, 0.125f);
  EXPECT_EQ(f.sampling.typical_p, 0.75f);
  EXPECT_EQ(f.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(f.sampling.presence_penalty, -2.0f);
  EXPECT_EQ(f.sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(f.sampling.penalty_last_n, -1);
  EXPECT_EQ(f.sampling.seed, UINT64_MAX);
  EXPECT_EQ(f.sampling.top_logprobs, 20);
  EXPECT_EQ(f.stop, (std::vector<std::string>{"a", "b\nc"}));
  EXPECT_EQ(f.max_tokens, 7);
  EXPECT_TRUE(f.stream);
  EXPECT_TRUE(f.include_usage);
  EXPECT_TRUE(f.ignore_eos);
  using Bias = std::vector<std::pair<TokenId, float>>;
  EXPECT_EQ(f.sampling.logit_bias, (Bias{{5, -100.0f}, {999, 1.5f}}));
}

TEST(ChatRequest, TakesTheSpellingsOfOtherServers) {
  EXPECT_EQ(chat(R"("repeat_penalty":1.25)")->fields.sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(chat(R"("top_k":-1)")->fields.sampling.top_k, 0);
  EXPECT_FALSE(chat(R"("seed":-1)")->fields.sampling.seed);
  EXPECT_FALSE(chat(R"("max_tokens":-1)")->fields.max_tokens);
  EXPECT_EQ(chat(R"("stop":"x")")->fields.stop, std::vector<std::string>{"x"});
  const auto bias = chat(R"("logit_bias":[[3,-1.5],[4,false]])");
  ASSERT_TRUE(bias.ok());
  EXPECT_EQ(bias->fields.sampling.logit_bias[0], (std::pair<TokenId, float>{3, -1.5f}));
  EXPECT_EQ(bias->fields.sampling.logit_bias[1].second, -std::numeric_limits<float>::infinity());
}

TEST(ChatRequest, TemplateVariablesArePassedOn) {
  const auto result = chat(R"("chat_template_kwargs":{"x":[1],"enable_thinking":true},
      "enable_thinking":false,"reasoning_effort":"low","preserve_thinking":true)");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(
      to_text(result->chat.template_kwargs),
      R"({"x":[1],"enable_thinking":false,"preserve_thinking":true,"reasoning_effort":"low"})");
  EXPECT_EQ(to_text(chat(R"("reasoning_effort":"none")")->chat.template_kwargs),
            R"({"enable_thinking":false})");
  EXPECT_EQ(
      chat_error(R"("chat_template_kwargs":{"messages":[]})"),
      "chat_template_kwargs.messages: this variable is set by the server; use the request field "
      "instead");
}

TEST(ChatRequest, AcceptsTheMessageFormsOfAgents) {
  for (
      const char* messages :
      {R"([{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"t"}]}])",
       R"([{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[
            {"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c","content":"r"}])",
       R"([{"role":"user","content":"u"},{"role":"assistant","tool_calls":[]},{"role":"user","content":[]}])",
       R"([{"role":"developer","content":"d"},{"role":"user","content":"u","name":"n"},
            {"role":"assistant","content":"a","reasoning_content":"r"},{"role":"system","content":"late"}])"}) {
    EXPECT_EQ(messages_error(messages), "") << messages;
  }
}

TEST(ChatRequest, EachBadMessageIsNamed) {
  EXPECT_EQ(messages_error("[]"), "messages: at least one message is needed");
  EXPECT_EQ(messages_error("null"), "messages: this field is required: an array of messages");
  EXPECT_EQ(messages_error("{}"), "messages: expected an array, got an object");
  EXPECT_EQ(messages_error("[5]"), "messages[0]: expected an object, got a number");
  EXPECT_EQ(messages_error("[{}]"), "messages[0].role: this field is required");
  EXPECT_EQ(messages_error(R"([{"role":5}])"), "messages[0].role: expected a string, got a number");
  EXPECT_EQ(
      messages_error(R"([{"role":"wizard","content":""}])"),
      "messages[0].role: \"wizard\" is not a role; use system, developer, user, assistant or tool");
  EXPECT_EQ(messages_error(R"([{"role":"user"}])"),
            "messages[0].content: expected a string or an array, got nothing");
  EXPECT_EQ(messages_error(R"([{"role":"user","content":"a"},{"role":"user","content":"b"},
                               {"role":"user","content":5}])"),
            "messages[2].content: expected a string or an array, got a number");
  EXPECT_EQ(messages_error(R"([{"role":"user","content":["x"]}])"),
            "messages[0].content[0]: expected an object, got a string");
  EXPECT_EQ(messages_error(R"([{"role":"user","content":[{"type":"text","text":1}]}])"),
            "messages[0].content[0].text: expected a string, got a number");
  EXPECT_EQ(messages_error(R"([{"role":"user","content":[{"type":"text"}]}])"),
            "messages[0].content[0].text: this field is required");
  EXPECT_EQ(
      messages_error(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
      "messages[0].content[0].type: images (\"image_url\") are not supported by this version");
  EXPECT_EQ(
      messages_error(R"([{"role":"user","content":[{"type":"input_audio"}]}])"),
      "messages[0].content[0].type: audio (\"input_audio\") is not supported by this version");
  EXPECT_EQ(
      messages_error(
          R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":5}}]}])"),
      "messages[0].tool_calls[0].function.arguments: expected a string or an object, got a number");
}

TEST(ChatRequest, EachUnsupportedFeatureIsRefusedByName) {
  for (const auto& [more, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("tools":[{"type":"function"}])", "tools"},
           {R"("functions":[{}])", "functions"},
           {R"("tool_choice":"required")", "tool_choice"},
           {R"("tool_choice":{"type":"function"})", "tool_choice"},
           {R"("function_call":{"name":"f"})", "function_call"},
           {R"("response_format":{"type":"json_object"})", "response_format.type"},
           {R"("response_format":{"type":"json_schema"})", "response_format.type"},
           {R"("n":2)", "n"},
           {R"("best_of":2)", "best_of"},
           {R"("grammar":"root ::= x")", "grammar"},
           {R"("json_schema":{})", "json_schema"},
           {R"("modalities":["text","audio"])", "modalities"},
           {R"("audio":{})", "audio"}}) {
    const auto result = chat(more);
    ASSERT_FALSE(result.ok()) << more;
    EXPECT_EQ(result.status().field(), field);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(result.status().message().find("support"), std::string::npos) << more;
  }
}

TEST(ChatRequest, WrongTypesAndRangesNameTheField) {
  const std::vector<std::string> numbers{"temperature",
                                         "top_p",
                                         "min_p",
                                         "typical_p",
                                         "repetition_penalty",
                                         "repeat_penalty",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "top_k",
                                         "seed",
                                         "max_tokens",
                                         "max_completion_tokens",
                                         "top_logprobs",
                                         "n"};
  for (const auto& name : numbers) {
    for (const char* value : {"\"x\"", "[]", "{}", "true", "1e99", "-1e99", "\"0.5\""}) {
      const auto result = chat("\"" + name + "\":" + value);
      ASSERT_FALSE(result.ok()) << name << " " << value;
      EXPECT_EQ(result.status().field(), name) << value;
    }
  }
  for (const char* name : {"stream", "logprobs", "enable_thinking", "preserve_thinking",
                           "ignore_eos", "add_generation_prompt"}) {
    for (const char* value : {"\"true\"", "\"false\"", "1", "[]", "{}"}) {
      EXPECT_EQ(chat(std::string("\"") + name + "\":" + value).status().field(), name);
    }
  }
  for (const char* name : {"tools", "functions", "response_format", "stream_options", "stop",
                           "model", "chat_template_kwargs", "reasoning_effort", "logit_bias"}) {
    EXPECT_EQ(chat(std::string("\"") + name + "\":5").status().field(), name);
  }
  EXPECT_EQ(chat_error(R"("top_p":0)"),
            "top_p: 0 is out of range; it must be greater than 0 and at most 1");
  EXPECT_EQ(chat_error(R"("min_p":1)"),
            "min_p: 1 is out of range; it must be at least 0 and less than 1");
  EXPECT_NE(chat_error(R"("temperature":-0.1)"), "");
  EXPECT_NE(chat_error(R"("presence_penalty":2.1)"), "");
  EXPECT_NE(chat_error(R"("max_tokens":-2)"), "");
  EXPECT_EQ(chat_error(R"("top_logprobs":3)"), "top_logprobs: needs \"logprobs\": true");
  EXPECT_NE(chat_error(R"("logprobs":true,"top_logprobs":21)"), "");
  EXPECT_EQ(chat_error(R"("stop":"")"), "stop: a stop string may not be empty");
  EXPECT_EQ(chat_error(R"("stop":["a",""])"), "stop[1]: a stop string may not be empty");
  EXPECT_EQ(chat_error(R"("stop":["a",5])"), "stop[1]: expected a string, got a number");
  EXPECT_EQ(
      chat_error(
          R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])"),
      "stop: at most 16 stop strings are allowed, got 17");
  EXPECT_EQ(chat_error(R"("logit_bias":{"x":1})"),
            "logit_bias.x: the keys of logit_bias are token ids");
  EXPECT_EQ(chat_error(R"("logit_bias":{"1000":1})"),
            "logit_bias.1000: 1000 is no token id of this model; ids are 0 to 999");
  EXPECT_EQ(chat_error(R"("logit_bias":{"1":101})"),
            "logit_bias.1: 101 is out of range; a bias is from -100 to 100");
  EXPECT_EQ(chat_error(R"("logit_bias":[[1]])"), "logit_bias[0]: expected a pair [token id, bias]");
  EXPECT_EQ(chat_error(R"("stream_options":{"include_usage":1})"),
            "stream_options.include_usage: expected a boolean, got a number");
}

TEST(CompletionRequest, TakesOnePromptInFourForms) {
  const auto prompt = [](const std::string& text) {
    return parse_completion(Json::parse("{\"prompt\":" + text + "}"), kFacts)->prompt;
  };
  const Prompt as_text{std::string("ab")};
  const Prompt as_ids{std::vector<TokenId>{1, 2}};
  EXPECT_EQ(prompt(R"("ab")"), as_text);
  EXPECT_EQ(prompt(R"(["ab"])"), as_text);
  EXPECT_EQ(prompt("[1,2]"), as_ids);
  EXPECT_EQ(prompt("[[1,2]]"), as_ids);
  for (const char* bad :
       {"{}", R"({"prompt":null})", R"({"prompt":""})", R"({"prompt":[]})", R"({"prompt":[[]]})",
        R"({"prompt":[""]})", R"({"prompt":5})", R"({"prompt":{}})", R"({"prompt":["a","b"]})",
        R"({"prompt":[[1],[2]]})", R"({"prompt":[1,"a"]})", R"({"prompt":[1.5]})",
        R"({"prompt":[-1]})", R"({"prompt":[1000]})", R"({"prompt":[true]})",
        R"({"prompt":[[["x"]]]})"}) {
    const auto result = parse_completion(Json::parse(bad), kFacts);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_TRUE(result.status().field().starts_with("prompt")) << bad << result.status().message();
  }
}

TEST(CompletionRequest, ReadsItsOwnFields) {
  const auto result = parse_completion(
      Json::parse(R"({"prompt":"a","logprobs":0,"max_tokens":3,"echo":false,"suffix":null})"),
      kFacts);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->fields.sampling.top_logprobs, 0);
  EXPECT_EQ(result->fields.max_tokens, 3);
  EXPECT_FALSE(
      parse_completion(Json::parse(R"({"prompt":"a"})"), kFacts)->fields.sampling.top_logprobs);
  EXPECT_TRUE(parse_completion(Json::parse(R"({"prompt":"a","echo":true})"), kFacts)->echo);
  EXPECT_EQ(completion_error(R"({"prompt":"a","suffix":"b"})"),
            "suffix: filling in the middle is not supported by this version");
  EXPECT_NE(completion_error(R"({"prompt":"a","echo":true,"logprobs":1})"), "");
  EXPECT_EQ(completion_error(R"({"prompt":"a","logprobs":true})"),
            "logprobs: expected an integer, got a boolean");
  EXPECT_EQ(completion_error("[]"), "The request body must be a JSON object, not an array.");
  EXPECT_EQ(completion_error("5"), "The request body must be a JSON object, not a number.");
  EXPECT_EQ(completion_error("\"\""), "The request body must be a JSON object, not a string.");
}

TEST(LlamaCompletionRequest, ReadsItsOwnFields) {
  const auto parse = [](const char* body) {
    return parse_llama_completion(Json::parse(body), kFacts);
  };
  const auto evaluation = parse(
      R"({"prompt":[1,2,3],"n_predict":256,"temperature":0,"top_k":1,"cache_prompt":false,"special":true})");
  ASSERT_TRUE(evaluation.ok());
  EXPECT_TRUE(evaluation->emit_special);
  EXPECT_EQ(evaluation->fields.max_tokens, 256);
  EXPECT_EQ(evaluation->fields.sampling.temperature, 0.0f);
  EXPECT_EQ(evaluation->fields.sampling.top_k, 1);
  const Prompt mixed{std::vector<TokenId>{1}, std::string("x"), std::vector<TokenId>{2, 3}};
  EXPECT_EQ(parse(R"({"prompt":[1,"x",2,3]})")->prompt, mixed);
  EXPECT_FALSE(parse(R"({"prompt":["a","b"]})").ok());
  EXPECT_FALSE(parse(R"({"prompt":"a","n_predict":-1})")->fields.max_tokens);
  EXPECT_FALSE(parse(R"({"prompt":"a","n_probs":0})")->fields.sampling.top_logprobs);
  EXPECT_EQ(parse(R"({"prompt":"a","n_probs":5})")->fields.sampling.top_logprobs, 5);
  EXPECT_EQ(parse(R"({"prompt":"a","image_data":[{}]})").status().field(), "image_data");
  EXPECT_EQ(parse(R"({"prompt":"a","special":1})").status().field(), "special");
}

TEST(TokenizeRequest, ChecksTypes) {
  EXPECT_EQ(parse_tokenize(Json::parse("{}")).status().field(), "content");
  EXPECT_EQ(parse_tokenize(Json::parse(R"({"content":5})")).status().field(), "content");
  EXPECT_EQ(parse_tokenize(Json::parse(R"({"content":"","with_pieces":1})")).status().field(),
            "with_pieces");
  EXPECT_TRUE(parse_tokenize(Json::parse(R"({"content":""})")).ok());
  EXPECT_EQ(parse_detokenize(Json::parse("{}"), kFacts).status().field(), "tokens");
  EXPECT_EQ(parse_detokenize(Json::parse(R"({"tokens":[1,"a"]})"), kFacts).status().field(),
            "tokens[1]");
  EXPECT_EQ(parse_detokenize(Json::parse(R"({"tokens":[]})"), kFacts)->size(), 0u);
}

}  // namespace
}  // namespace strata::server
