// The SDKs against `strata serve` with the embedded model: node tiny.mjs BASE_URL
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";
import OpenAI from "openai";

const url = process.argv[2];
const model = "strata-tiny";
const openai = new OpenAI({ baseURL: url + "/v1", apiKey: "unused", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "What is 17 + 25?" }];
const sum = "17 + 25 = 42";  // of the reference

const chat = await openai.chat.completions.create({ model, messages, temperature: 0, reasoning_effort: "none" });
assert.equal(chat.choices[0].message.content, sum);
const response = await openai.responses.create({ model, input: messages, temperature: 0, reasoning: { effort: "none" } });
assert.equal(response.output_text, sum);
const message = await anthropic.messages.stream({ model, messages, max_tokens: 50, temperature: 0 }).finalMessage();
assert.equal(message.content[0].text, sum);
const provider = createOpenAICompatible({ name: "strata", baseURL: url + "/v1" });
const streamed = streamText({
  model: provider(model), messages, temperature: 0, maxRetries: 0,
  providerOptions: { strata: { reasoningEffort: "none" } } });
assert.equal(await streamed.text, sum);

// A budget ends the thinking, and the answer follows it.
const thought = await openai.chat.completions.create({
  model, messages, temperature: 0, reasoning_budget_tokens: 6, max_tokens: 60 });
const used = thought.usage.completion_tokens_details.reasoning_tokens;
assert.ok(used >= 6 && used <= 9, used);
assert.ok(thought.choices[0].message.content.length > 0);

// A call that must be made is made, whatever the model would rather say.
const parameters = {
  type: "object", required: ["city", "days"], additionalProperties: false,
  properties: { city: { type: "string", enum: ["Oakdale", "Elm"] }, days: { type: "integer", minimum: 1, maximum: 9 } } };
for (const reasoning_effort of ["none", "low"]) {
  const forced = await openai.chat.completions.create({
    model, messages, temperature: 1, seed: 3, max_tokens: 300, reasoning_effort, reasoning_budget_tokens: reasoning_effort === "none" ? undefined : 20,
    tools: [{ type: "function", function: { name: "get_weather", parameters, strict: true } }],
    tool_choice: "required", parallel_tool_calls: false });
  assert.equal(forced.choices[0].finish_reason, "tool_calls");
  assert.equal(forced.choices[0].message.tool_calls.length, 1);
  const made = JSON.parse(forced.choices[0].message.tool_calls[0].function.arguments);
  assert.ok(["Oakdale", "Elm"].includes(made.city) && made.days >= 1 && made.days <= 9, JSON.stringify(made));
}
const used_tool = await anthropic.messages.stream({
  model, messages, max_tokens: 300, temperature: 1,
  tools: [{ name: "get_weather", input_schema: parameters, strict: true }],
  tool_choice: { type: "tool", name: "get_weather", disable_parallel_tool_use: true } }).finalMessage();
assert.equal(used_tool.stop_reason, "tool_use");
assert.ok(["Oakdale", "Elm"].includes(used_tool.content.at(-1).input.city));

const formatted = await openai.chat.completions.create({
  model, messages, temperature: 1, seed: 5, max_tokens: 300, reasoning_effort: "none",
  response_format: { type: "json_schema", json_schema: { name: "place", strict: true, schema: parameters } } });
assert.ok(["Oakdale", "Elm"].includes(JSON.parse(formatted.choices[0].message.content).city));
console.log("ok");
