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
  EXPECT_EQ(result->fields.choices, 1);
  EXPECT_EQ(chat(R"("n":3)")->fields.choices, 3);
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
           {R"("functions":[{}])", "functions"},
           {R"("function_call":{"name":"f"})", "function_call"},
           {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
           {R"("tools":[{"type":"custom","custom":{"name":"f"}}])", "tools[0].type"},
           {R"("modalities":["text","audio"])", "modalities"},
           {R"("audio":{})", "audio"},
           {R"("web_search_options":{})", "web_search_options"},
           {R"("mirostat":2)", "mirostat"},
           {R"("dry_multiplier":0.8)", "dry_multiplier"},
           {R"("xtc_probability":0.5)", "xtc_probability"},
           {R"("min_tokens":4)", "min_tokens"},
           {R"("use_beam_search":true)", "use_beam_search"},
           {R"("stop_token_ids":[5])", "stop_token_ids"},
           {R"("prompt_logprobs":1)", "prompt_logprobs"},
           {R"("structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag"}}) {
    const auto result = chat(more);
    ASSERT_FALSE(result.ok()) << more;
    EXPECT_EQ(result.status().field(), field);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(result.status().message().find("support"), std::string::npos) << more;
  }
  for (const char* more : {R"("mirostat":0,"dry_multiplier":0.0,"xtc_probability":0,"min_tokens":0)",
                           R"("use_beam_search":false,"stop_token_ids":[],"top_n_sigma":-1)",
                           R"("store":true,"service_tier":"auto","prediction":{"type":"content"})"}) {
    EXPECT_EQ(chat_error(more), "") << more;
  }
  EXPECT_EQ(parse_completion(Json::parse(R"({"prompt":"x","tools":[{"name":"f"}]})"), kFacts)
                .status()
                .field(),
            "tools");
}

TEST(ChatRequest, EffortsOfEveryApiAreTheModelsOwn) {
  const auto kwargs = [](const std::string& more) {
    const auto result = chat(more);
    return result.ok() ? to_text(result->chat.template_kwargs) : result.status().message();
  };
  for (const auto& [word, meant] : std::vector<std::pair<std::string, std::string>>{
           {"minimal", "low"}, {"low", "low"}, {"medium", "medium"}, {"high", "xhigh"},
           {"xhigh", "xhigh"}, {"banana", "banana"}}) {
    const std::string expected = "{\"reasoning_effort\":\"" + meant + "\"}";
    EXPECT_EQ(kwargs("\"reasoning_effort\":\"" + word + "\""), expected);
    EXPECT_EQ(kwargs("\"reasoning\":{\"effort\":\"" + word + "\"}"), expected);
  }
  const std::string off = R"({"enable_thinking":false})";
  for (const char* more : {R"("reasoning_effort":"none")", R"("reasoning":{"effort":"none"})",
                           R"("thinking":{"type":"disabled"})", R"("reasoning":{"enabled":false})",
                           R"("reasoning_budget_tokens":0)", R"("enable_thinking":false)",
                           R"("chat_template_kwargs":{"enable_thinking":false})"}) {
    EXPECT_EQ(kwargs(more), off) << more;
  }
  EXPECT_EQ(chat(R"("reasoning_budget_tokens":50)")->reasoning_budget, 50);
  EXPECT_EQ(chat(R"("thinking_budget":50)")->reasoning_budget, 50);
  EXPECT_EQ(chat(R"("thinking":{"type":"enabled","budget_tokens":70})")->reasoning_budget, 70);
  EXPECT_FALSE(chat(R"("reasoning_budget_tokens":-1)")->reasoning_budget);
  EXPECT_FALSE(chat("")->reasoning_budget);
  EXPECT_EQ(chat(R"("thinking":{"type":"odd"})").status().field(), "thinking.type");
  EXPECT_EQ(chat(R"("reasoning_budget_tokens":-2)").status().field(), "reasoning_budget_tokens");
}

TEST(ChatRequest, ToolsReachTheTemplateAndTheReader) {
  const std::string tool =
      R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})";
  const auto plain = chat("\"tools\":[" + tool + "]");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(to_text(plain->chat.tools), "[" + tool + "]");
  ASSERT_NE(plain->tools.set, nullptr);
  EXPECT_NE(plain->tools.set->find("f"), nullptr);
  EXPECT_FALSE(plain->constraint);
  EXPECT_TRUE(plain->tools.parallel);
  EXPECT_EQ(to_text(chat(R"("tools":[{"type":"function","name":"f","description":"d",
      "parameters":{"type":"object"}}])")->chat.tools),
            "[" + tool + "]")
      << "the flat form of the Responses API";

  const auto none = chat("\"tools\":[" + tool + R"(],"tool_choice":"none")");
  EXPECT_TRUE(none->chat.tools.is_null());
  EXPECT_EQ(none->tools.set, nullptr);

  const std::string both = "\"tools\":[" + tool + R"(,{"type":"function","function":{"name":"g"}}])";
  for (const char* choice : {R"("required")", R"("any")"}) {
    const auto required = chat(both + ",\"tool_choice\":" + choice);
    ASSERT_TRUE(required->constraint);
    EXPECT_EQ(required->constraint->kind, engine::ConstraintKind::kToolCalls);
    EXPECT_EQ(required->constraint->tools.size(), 2u);
    EXPECT_EQ(required->constraint->start, engine::ConstraintStart::kAtOnce);
  }
  const auto named = chat(
      both + R"(,"tool_choice":{"type":"function","function":{"name":"g"}},"parallel_tool_calls":false)");
  ASSERT_TRUE(named->constraint);
  ASSERT_EQ(named->constraint->tools.size(), 1u);
  EXPECT_EQ(named->constraint->tools[0].name, "g");
  EXPECT_FALSE(named->constraint->parallel_calls);
  const auto allowed = chat(both + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{
      "mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}})");
  ASSERT_TRUE(allowed->constraint) << allowed.status().message();
  EXPECT_EQ(allowed->constraint->tools.size(), 1u);
  const auto strict =
      chat(R"("tools":[{"type":"function","function":{"name":"f","strict":true}}])");
  ASSERT_TRUE(strict->constraint);
  EXPECT_EQ(strict->constraint->start, engine::ConstraintStart::kOnTrigger);
  EXPECT_EQ(strict->constraint->start_text, "<tool_call>");

  for (const auto& [more, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("tool_choice":"required")", "tool_choice"},
           {both + R"(,"tool_choice":"sometimes")", "tool_choice"},
           {both + R"(,"tool_choice":{"type":"function","function":{"name":"h"}})", "tool_choice"},
           {both + R"(,"tool_choice":{"type":"function"})", "tool_choice.name"},
           {both + R"(,"tool_choice":5)", "tool_choice"},
           {R"("tools":[5])", "tools[0]"},
           {R"("tools":[{"type":"function"}])", "tools[0].name"},
           {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
           {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
           {R"("tools":[{"type":"function","function":{"name":"f","parameters":5}}])",
            "tools[0].function.parameters"},
           {R"("tools":[{"name":"f"},{"name":"f"}])", "tools[1]"},
           {R"("parallel_tool_calls":"no")", "parallel_tool_calls"}}) {
    EXPECT_EQ(chat(more).status().field(), field) << more << chat_error(more);
  }
}

TEST(ChatRequest, FormatsOfEveryServerBecomeConstraints) {
  using engine::ConstraintKind;
  const auto kind = [](const std::string& more) {
    const auto result = chat(more);
    EXPECT_TRUE(result.ok()) << more << result.status().message();
    return result.ok() && result->constraint ? std::optional(result->constraint->kind) : std::nullopt;
  };
  EXPECT_EQ(kind(R"("response_format":{"type":"text"})"), std::nullopt);
  EXPECT_EQ(kind(R"("response_format":{"type":"json_object"})"), ConstraintKind::kJsonObject);
  EXPECT_EQ(kind(R"("structured_outputs":{"json_object":true})"), ConstraintKind::kJsonObject);
  for (const char* more : {
           R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}})",
           R"("response_format":{"type":"json_object","schema":{"type":"object"}})",
           R"("json_schema":{"type":"object"})", R"("guided_json":{"type":"object"})",
           R"("guided_json":"{\"type\":\"object\"}")", R"("structured_outputs":{"json":{"type":"object"}})"}) {
    EXPECT_EQ(kind(more), ConstraintKind::kJsonSchema) << more;
    EXPECT_EQ(to_text(chat(more)->constraint->schema), R"({"type":"object"})");
  }
  EXPECT_EQ(chat(R"("guided_regex":"a+")")->constraint->text, "a+");
  EXPECT_EQ(kind(R"("structured_outputs":{"regex":"a+"})"), ConstraintKind::kRegex);
  EXPECT_EQ(chat(R"("grammar":"root ::= \"x\"")")->constraint->text, R"(root ::= "x")");
  EXPECT_EQ(kind(R"("guided_grammar":"root ::= \"x\"")"), ConstraintKind::kGrammar);
  EXPECT_EQ(chat(R"("guided_choice":["a\"b","c\n"])")->constraint->text,
            "root ::= \"a\\\"b\" | \"c\\x0A\"\n");
  EXPECT_EQ(kind(R"("grammar":"","json_schema":null)"), std::nullopt);
  const auto with_tools =
      chat(R"("tools":[{"name":"f"}],"response_format":{"type":"json_object"})");
  EXPECT_EQ(with_tools->constraint->kind, ConstraintKind::kJsonObject);
  EXPECT_EQ(with_tools->constraint->tools.size(), 1u);
  for (const auto& [more, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("response_format":{"type":"yaml"})", "response_format.type"},
           {R"("response_format":{})", "response_format.type"},
           {R"("response_format":{"type":"json_schema"})", "response_format.json_schema.schema"},
           {R"("guided_choice":[])", "guided_choice"},
           {R"("guided_choice":["a",5])", "guided_choice[1]"},
           {R"("grammar":5)", "grammar"},
           {R"("grammar":"root ::= x","guided_regex":"x")", "guided_regex"}}) {
    EXPECT_EQ(chat(more).status().field(), field) << more << chat_error(more);
  }
}

TEST(ChatRequest, SystemMessagesAreBroughtIntoTheFormOfTheTemplate) {
  const auto messages = [](const std::string& given) {
    const auto result = parse_chat_completion(Json::parse("{\"messages\":" + given + "}"), kFacts);
    return result.ok() ? to_text(result->chat.messages) : result.status().message();
  };
  EXPECT_EQ(messages(R"([{"role":"developer","content":"a"},{"role":"system","content":[{"type":"text","text":"b"}]},
                         {"role":"user","content":"u"}])"),
            R"([{"role":"system","content":"a\n\nb"},{"role":"user","content":"u"}])");
  EXPECT_EQ(messages(R"([{"role":"user","content":"u"},{"role":"system","content":"late"}])"),
            R"([{"role":"user","content":"u"},{"role":"user","content":"<system>\nlate\n</system>"}])");
  EXPECT_EQ(messages(R"([{"role":"system","content":"s"},{"role":"user","content":"u"}])"),
            R"([{"role":"system","content":"s"},{"role":"user","content":"u"}])");
  EXPECT_EQ(messages(R"([{"role":"system","content":"alone"}])"),
            R"([{"role":"user","content":"alone"}])");
}

TEST(ChatRequest, CallsWithBrokenArgumentsCanStillBeShown) {
  const auto arguments = [](const std::string& given) {
    const auto result = parse_chat_completion(
        Json::parse(R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":)" +
                    given + R"(}}]},{"role":"tool","content":null}]})"),
        kFacts);
    return result.ok() ? to_text(result->chat.messages[1]["tool_calls"][0]["function"]["arguments"])
                       : result.status().message();
  };
  EXPECT_EQ(arguments(R"("{\"a\":1}")"), R"("{\"a\":1}")");
  EXPECT_EQ(arguments(R"({"a":1})"), R"({"a":1})");
  EXPECT_EQ(arguments(R"("")"), R"("")");
  EXPECT_EQ(arguments(R"("{\"a\":")"), R"({"arguments":"{\"a\":"})");
  EXPECT_EQ(arguments(R"("[1]")"), R"({"arguments":"[1]"})");
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
  EXPECT_EQ(chat_error(R"("typical_p":0)"),
            "typical_p: 0 is out of range; it must be greater than 0 and at most 1");
  EXPECT_NE(chat_error(R"("temperature":-0.1)"), "");
  EXPECT_NE(chat_error(R"("presence_penalty":2.1)"), "");
  EXPECT_NE(chat_error(R"("max_tokens":-2)"), "");
  EXPECT_EQ(chat_error(R"("top_logprobs":3)"), "top_logprobs: needs \"logprobs\": true");
  EXPECT_NE(chat_error(R"("logprobs":true,"top_logprobs":21)"), "");
  EXPECT_TRUE(chat(R"("stop":"")")->fields.stop.empty());
  EXPECT_EQ(chat(R"("stop":["a",""])")->fields.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(chat_error(R"("stop":["a",5])"), "stop[1]: expected a string, got a number");
  EXPECT_EQ(chat("\"stop\":" + to_text(Json(std::vector<std::string>(40, "x"))))->fields.stop.size(), 40u);
  EXPECT_EQ(chat_error("\"stop\":" + to_text(Json(std::vector<std::string>(1025, "x")))),
            "stop: at most 1024 stop strings are allowed, got 1025");
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

TEST(CompletionRequest, TakesPromptsInEveryForm) {
  using Prompts = std::vector<Prompt>;
  const auto prompt = [](const std::string& text) {
    return parse_completion(Json::parse("{\"prompt\":" + text + "}"), kFacts)->prompts;
  };
  const Prompts as_text{{std::string("ab")}};
  const Prompts as_ids{{std::vector<TokenId>{1, 2}}};
  EXPECT_EQ(prompt(R"("ab")"), as_text);
  EXPECT_EQ(prompt(R"(["ab"])"), as_text);
  EXPECT_EQ(prompt("[1,2]"), as_ids);
  EXPECT_EQ(prompt("[[1,2]]"), as_ids);
  EXPECT_EQ(prompt(R"(["ab","c"])"), (Prompts{{std::string("ab")}, {std::string("c")}}));
  EXPECT_EQ(prompt("[[1,2],[3]]"),
            (Prompts{{std::vector<TokenId>{1, 2}}, {std::vector<TokenId>{3}}}));
  for (const char* bad :
       {"{}", R"({"prompt":null})", R"({"prompt":""})", R"({"prompt":[]})", R"({"prompt":[[]]})",
        R"({"prompt":[""]})", R"({"prompt":5})", R"({"prompt":{}})", R"({"prompt":["a",""]})",
        R"({"prompt":[[1],"a"]})", R"({"prompt":["a",[1]]})", R"({"prompt":["a",null]})",
        R"({"prompt":[[1],[]]})", R"({"prompt":[[1],[1000]]})", R"({"prompt":[1,"a"]})", R"({"prompt":[1.5]})",
        R"({"prompt":[-1]})", R"({"prompt":[1000]})", R"({"prompt":[true]})",
        R"({"prompt":[[["x"]]]})"}) {
    const auto result = parse_completion(Json::parse(bad), kFacts);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_TRUE(result.status().field().starts_with("prompt")) << bad << result.status().message();
  }
}

TEST(CompletionRequest, PromptsTimesAnswersAreBounded) {
  Json body = Json::object();
  body["prompt"] = std::vector<std::string>(kMaxAnswers, "a");
  EXPECT_EQ(parse_completion(body, kFacts)->prompts.size(), kMaxAnswers);
  body["n"] = 2;
  EXPECT_EQ(parse_completion(body, kFacts).status().field(), "n");
  body["prompt"].push_back("a");
  body.erase("n");
  EXPECT_EQ(parse_completion(body, kFacts).status().message(),
            "prompt: at most 1024 prompts per request, got 1025");
  EXPECT_EQ(completion_error(R"({"prompt":["a",[1]]})"),
            "prompt[1]: expected a string, as the prompt before it, got an array");
  EXPECT_EQ(completion_error(R"({"prompt":"a","n":2,"best_of":3})"),
            "best_of: choosing the best of several answers is not supported; leave the field out or "
            "make it equal to n");
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
  EXPECT_EQ(parse(R"({"prompt":"a","response_fields":["content","a/b"]})")->response_fields,
            (std::vector<std::string>{"content", "a/b"}));
  EXPECT_EQ(parse(R"({"prompt":"a","response_fields":[1]})").status().field(), "response_fields");
}

TEST(TokenizeRequest, ChecksTypes) {
  EXPECT_EQ(parse_tokenize(Json::parse("{}"), kFacts).status().field(), "content");
  EXPECT_EQ(parse_tokenize(Json::parse(R"({"content":5})"), kFacts).status().field(), "content");
  EXPECT_EQ(parse_tokenize(Json::parse(R"({"content":"","with_pieces":1})"), kFacts).status().field(),
            "with_pieces");
  EXPECT_TRUE(parse_tokenize(Json::parse(R"({"content":""})"), kFacts).ok());
  EXPECT_EQ(parse_detokenize(Json::parse("{}"), kFacts).status().field(), "tokens");
  EXPECT_EQ(parse_detokenize(Json::parse(R"({"tokens":[1,"a"]})"), kFacts).status().field(),
            "tokens[1]");
  EXPECT_EQ(parse_detokenize(Json::parse(R"({"tokens":[]})"), kFacts)->size(), 0u);
}

TEST(ChatRequest, GoesOnWithALastMessageOfTheAssistant) {
  const auto parse = [](const std::string& last, const std::string& more) {
    return parse_chat_completion(
        Json::parse(R"({"messages":[{"role":"user","content":"hi"},)" + last + "]" + more + "}"),
        kFacts);
  };
  const std::string text = R"({"role":"assistant","content":"Hel"})";
  EXPECT_TRUE(parse(text, "")->chat.continue_final);
  EXPECT_TRUE(parse(text, R"(,"continue_final_message":true,"add_generation_prompt":false)")
                  ->chat.continue_final);
  EXPECT_FALSE(parse(text, R"(,"continue_final_message":false)")->chat.continue_final);
  EXPECT_FALSE(parse(text, R"(,"add_generation_prompt":false)")->chat.continue_final);
  const std::string call =
      R"({"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]})";
  EXPECT_FALSE(parse(call, "")->chat.continue_final);
  EXPECT_EQ(parse(call, R"(,"continue_final_message":true)").status().field(),
            "continue_final_message");
  EXPECT_EQ(chat(R"("continue_final_message":true)").status().field(), "continue_final_message");
}

TEST(ChatRequest, AChatWithoutAQuestionGetsANoteOfTheUser) {
  const auto parse = [](const std::string& messages) {
    return parse_chat_completion(Json::parse("{\"messages\":" + messages + "}"), kFacts)
        ->chat.messages;
  };
  EXPECT_EQ(parse(R"([{"role":"developer","content":"x"}])")[0]["role"], "user");
  const Json cut = parse(R"([{"role":"system","content":"s"},{"role":"tool","content":"r"}])");
  ASSERT_EQ(cut.size(), 3u);
  EXPECT_EQ(cut[1]["role"], "user");
}

TEST(ChatRequest, OlderFormsOfAHistoryAreKept) {
  const auto result = parse_chat_completion(Json::parse(R"({"messages":[{"role":"user","content":"q"},
      {"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"reasoning":"hm",
       "function_call":{"name":"f","arguments":"{}"}},
      {"role":"function","name":"f","content":"r"}]})"), kFacts);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Json& messages = result->chat.messages;
  EXPECT_EQ(messages[1]["content"][0]["text"], "no");
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(messages[2]["role"], "tool");
}

TEST(ChatRequest, WhatWouldChangeTheAnswerIsRefusedByName) {
  for (const char* name : {"allowed_token_ids", "samplers", "logits_processors", "documents", "lora"}) {
    EXPECT_EQ(chat(fmt::format("\"{}\":[1]", name)).status().field(), name);
    EXPECT_TRUE(chat(fmt::format("\"{}\":[]", name)).ok()) << name;
  }
  for (const char* name : {"length_penalty", "tfs_z", "top_a", "t_max_predict_ms"}) {
    EXPECT_EQ(chat(fmt::format("\"{}\":0.5", name)).status().field(), name);
  }
  EXPECT_EQ(chat(R"("skip_special_tokens":false)").status().field(), "skip_special_tokens");
  EXPECT_EQ(chat(R"("reasoning_format":"none")").status().field(), "reasoning_format");
  EXPECT_EQ(chat(R"("chat_template":"x")").status().field(), "chat_template");
  EXPECT_EQ(chat(R"("echo":true)").status().field(), "echo");
  EXPECT_FALSE(chat(R"("include_reasoning":false)")->show_reasoning);
}

TEST(ChatRequest, EndsOfTheSamplingRangesMeanTheBestToken) {
  for (const char* more : {R"("top_p":0)", R"("min_p":1)"}) {
    const auto result = chat(more);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->fields.sampling.top_k, 1);
  }
}

TEST(ChatRequest, ConstraintsCarryTheFieldTheyCameIn) {
  EXPECT_EQ(chat(R"("guided_regex":"a")")->constraint->field, "guided_regex");
  EXPECT_EQ(chat(R"("grammar":"root ::= \"a\"")")->constraint->field, "grammar");
}

}  // namespace
}  // namespace strata::server
