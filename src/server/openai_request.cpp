#include "server/openai_request.h"

#include "server/chat_messages.h"
#include "server/output_format.h"
#include "server/thinking.h"

namespace strata::server {
namespace {

constexpr int kMaxTopLogprobs = 20;

// continue_final_message, or what other servers do without it: a last message of the assistant is
// gone on with.
bool read_continue(FieldReader& reader, const Json& messages) {
  const auto flag = reader.boolean("continue_final_message");
  const auto prompt = reader.boolean("add_generation_prompt");
  if (!reader.ok() || (flag && !*flag)) return false;
  const Json& last = messages.back();
  const auto given = [&](const char* name) {
    const auto value = last.find(name);
    return value != last.end() && !value->is_null() && !value->empty() && *value != "";
  };
  const bool assistant = last["role"] == "assistant";
  const bool calls = given("tool_calls") || given("function_call");
  if (!flag) return assistant && given("content") && !calls && prompt.value_or(true);
  if (prompt.value_or(false)) {
    reader.fail("continue_final_message", "cannot be used together with add_generation_prompt");
  } else if (!assistant) {
    reader.fail("continue_final_message", "the last message must be the assistant's");
  } else if (calls) {
    reader.fail("continue_final_message",
                "a message with tool calls cannot be continued; leave the calls out");
  } else if (!given("content")) {
    reader.fail("continue_final_message", "the last message has no text to be continued");
  }
  return reader.ok();
}

std::optional<int> read_chat(FieldReader& reader, engine::ChatRequest& out, ToolUse& tools) {
  const Json* messages = reader.array("messages");
  if (messages == nullptr) {
    reader.fail("messages", "this field is required: an array of messages");
    return {};
  }
  reader.set_status(check_messages(*messages, "messages"));
  if (!reader.ok()) return {};
  out.messages = messages_for_template(*messages);
  tools = read_tools(reader);
  out.tools = tools.shown;
  out.add_generation_prompt = reader.boolean("add_generation_prompt").value_or(true);
  out.continue_final = read_continue(reader, *messages);
  out.template_kwargs = read_template_variables(reader);
  return read_thinking(reader, out.template_kwargs);
}

void read_common(FieldReader& reader, const ModelFacts& facts, GenerationFields& fields) {
  reader.string("model");
  refuse_unsupported(reader);
  read_generation_fields(reader, facts, fields);
  fields.max_tokens =
      read_token_limit(reader, {"max_completion_tokens", "max_tokens", "n_predict"});
  fields.choices = read_choices(reader);
}

}  // namespace

Result<ChatCompletionRequest> parse_chat_completion(const Json& body, const ModelFacts& facts) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  ChatCompletionRequest out;
  FieldReader reader(body);
  out.reasoning_budget = read_chat(reader, out.chat, out.tools);
  read_common(reader, facts, out.fields);
  out.constraint = constraint_of(out.tools, read_output_format(reader));
  out.show_reasoning = reader.boolean("include_reasoning").value_or(true);
  if (const auto format = reader.string("reasoning_format");
      format && *format != "auto" && *format != "deepseek") {
    reader.fail("reasoning_format", "only \"auto\" and \"deepseek\" are supported: thinking is told "
                                    "in reasoning_content; leave the field out");
  }
  if (reader.boolean("echo").value_or(false)) {
    reader.fail("echo", "a chat is not repeated in its answer; leave the field out");
  }
  const bool logprobs = reader.boolean("logprobs").value_or(false);
  const auto top = reader.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (logprobs) {
    out.fields.sampling.top_logprobs = static_cast<int>(top.value_or(0));
  } else if (top && *top > 0) {
    reader.fail("top_logprobs", "needs \"logprobs\": true");
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

Result<CompletionRequest> parse_completion(const Json& body, const ModelFacts& facts) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  CompletionRequest out;
  FieldReader reader(body);
  out.prompts = read_prompts(reader, "prompt", facts);
  read_common(reader, facts, out.fields);
  if (const size_t answers = out.prompts.size() * static_cast<size_t>(out.fields.choices);
      answers > kMaxAnswers) {
    reader.fail("n", fmt::format("{} prompts with {} answers each are too many; a request has at "
                                 "most {} answers",
                                 out.prompts.size(), out.fields.choices, kMaxAnswers));
  }
  refuse_tools(reader);
  out.constraint = read_output_format(reader);
  if (const auto top = reader.integer("logprobs", 0, kMaxTopLogprobs)) {
    out.fields.sampling.top_logprobs = static_cast<int>(*top);
  }
  if (const auto best = reader.integer("best_of", 0, 1 << 20);
      best && *best != out.fields.choices) {
    reader.fail("best_of", "choosing the best of several answers is not supported; leave the field "
                           "out or make it equal to n");
  }
  out.echo = reader.boolean("echo").value_or(false);
  if (out.echo && out.fields.sampling.top_logprobs) {
    reader.fail("echo",
                "log-probabilities of the prompt are not supported; leave out one of echo "
                "and logprobs");
  }
  if (const auto suffix = reader.string("suffix"); suffix && !suffix->empty()) {
    reader.fail("suffix", "filling in the middle is not supported by this version");
  }
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

Result<engine::ChatRequest> parse_chat_prompt(const Json& body) {
  STRATA_RETURN_IF_ERROR(check_body(body));
  engine::ChatRequest out;
  ToolUse tools;
  FieldReader reader(body);
  read_chat(reader, out, tools);
  STRATA_RETURN_IF_ERROR(reader.status());
  return out;
}

}  // namespace strata::server
