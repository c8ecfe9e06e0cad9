// The official OpenAI client against `fake_server script.json`: node openai.mjs BASE_URL
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "unused", maxRetries: 0 });
const model = "fake-model";
const ask = (content) => ({ model, messages: [{ role: "user", content }] });
const parameters = { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

// A full queue is tried again, not sooner than the server asks; the answer is looked at in the end.
const asking = Date.now();
const patient = client.chat.completions.create(ask("full queue"), { maxRetries: 2 })
  .then((answer) => [answer, Date.now() - asking]);

// Whole and streamed, thinking apart.
const whole = await client.chat.completions.create(ask("hello"));
assert.equal(whole.choices[0].message.content, "Hello, wörld \u{1F98A}!");
assert.equal(whole.choices[0].message.reasoning_content, "greet");
assert.equal(whole.choices[0].finish_reason, "stop");
const stream = client.chat.completions.stream({ ...ask("hello"), stream_options: { include_usage: true } });
const final = await stream.finalChatCompletion();
assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
assert.deepEqual(final.usage, whole.usage);
assert.ok(whole.usage.completion_tokens_details.reasoning_tokens > 0);

// A loop of calls, driven by the client.
const asked = [];
const runner = client.chat.completions.runTools({
  ...ask("weather?"),
  tools: [{ type: "function", function: {
    name: "get_weather", parameters, parse: JSON.parse,
    function: ({ city, days }) => { asked.push([city, days]); return "sunny 21"; } } }],
});
assert.equal(await runner.finalContent(), "It is sunny.");
assert.deepEqual(asked, [["Oak\"dale", 2], ["Elm", 1]]);
const streamed = client.chat.completions.runTools({
  ...ask("weather?"), stream: true,
  tools: [{ type: "function", function: {
    name: "get_weather", parameters, parse: JSON.parse, function: () => "sunny 21" } }],
});
assert.equal(await streamed.finalContent(), "It is sunny.");
const calls = await client.chat.completions.create({ ...ask("weather?"), tools });
assert.equal(calls.choices[0].finish_reason, "tool_calls");
assert.equal(calls.choices[0].message.content, null);
assert.equal(new Set(calls.choices[0].message.tool_calls.map((call) => call.id)).size, 2);

// Structured output, several answers, plain completions.
const shape = z.object({ name: z.string(), age: z.number() });
const parsed = await client.chat.completions.parse({ ...ask("json?"), response_format: zodResponseFormat(shape, "person") });
assert.deepEqual(parsed.choices[0].message.parsed, { name: "Ann", age: 7 });
const three = await client.chat.completions.create({ ...ask("hello"), n: 3 });
assert.deepEqual(three.choices.map((choice) => choice.index), [0, 1, 2]);
const text = await client.completions.create({ model, prompt: "once", max_tokens: 5 });
assert.equal(text.choices[0].text, "upon a time");
let joined = "";
for await (const part of await client.completions.create({ model, prompt: "once", stream: true })) {
  joined += part.choices[0].text;
}
assert.equal(joined, "upon a time");
const batch = await client.completions.create({ model, prompt: ["once", "json?"], max_tokens: 5 });
assert.deepEqual(batch.choices.map((choice) => [choice.index, choice.text]), [[0, "upon a time"], [1, '{"name": "Ann", "age": 7}']]);

// Responses: whole, streamed, stored, with calls.
const first = await client.responses.create({ model, input: "hello", reasoning: { effort: "low" } });
assert.equal(first.output_text, whole.choices[0].message.content);
assert.deepEqual(first.output.map((item) => item.type), ["reasoning", "message"]);
assert.equal((await client.responses.retrieve(first.id)).id, first.id);
assert.equal((await client.responses.inputItems.list(first.id)).data[0].role, "user");
const second = await client.responses.create({ model, input: "what did I say?", previous_response_id: first.id });
assert.equal(second.output_text, "You said hello.");
await client.responses.delete(first.id);
await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
const events = client.responses.stream({ model, input: "weather?", tools: [{ type: "function", name: "get_weather", parameters, strict: false }] });
const kinds = new Set();
events.on("event", (event) => kinds.add(event.type));
const done = await events.finalResponse();
assert.deepEqual(done.output.map((item) => JSON.parse(item.arguments)), [{ city: "Oak\"dale", days: 2 }, { city: "Elm", days: 1 }]);
assert.ok(kinds.has("response.function_call_arguments.delta") && kinds.has("response.completed"));
const after = await client.responses.create({ model, input: [
  { role: "user", content: "weather?" }, ...done.output,
  ...done.output.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: "sunny 21" }))] });
assert.equal(after.output_text, "It is sunny.");

// What is refused is refused as the client expects it.
await assert.rejects(client.chat.completions.create({ ...ask("hello"), temperature: -1 }),
  (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
await assert.rejects(client.chat.completions.create({ model, messages: [{ role: "user", content: [
  { type: "image_url", image_url: { url: "data:image/png;base64,AA" } }] }] }), /image_url/);
await assert.rejects(client.embeddings.create({ model, input: "x" }), OpenAI.BadRequestError);
await assert.rejects(client.models.retrieve("other"), OpenAI.NotFoundError);
const models = [];
for await (const one of client.models.list()) models.push(one.id);
assert.deepEqual(models, [model]);

// Leaving a stream ends its request: the next one, which waits for its turn, gets one at once.
const endless = await client.chat.completions.create({ ...ask("endless"), stream: true });
for await (const part of endless) {
  if (part.choices[0].delta.content) break;
}
const begin = Date.now();
await client.chat.completions.create(ask("hello"));
assert.ok(Date.now() - begin < 5000);
const [late, waited] = await patient;
assert.equal(late.choices[0].message.content, "A place at last.");
assert.ok(waited > 4500, `${waited} ms`);
console.log("ok");
