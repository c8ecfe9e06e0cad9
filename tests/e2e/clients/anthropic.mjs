// The official Anthropic client against `fake_server script.json`: node anthropic.mjs BASE_URL
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.argv[2], apiKey: "unused", maxRetries: 0 });
const model = "fake-model";
const ask = (content) => ({ model, max_tokens: 500, messages: [{ role: "user", content }] });
const tools = [{ name: "get_weather", description: "tells the weather", input_schema: {
  type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } } }];

// A full queue is tried again, not sooner than the server asks; the answer is looked at in the end.
const asking = Date.now();
const patient = client.messages.create(ask("full queue"), { maxRetries: 2 })
  .then((answer) => [answer, Date.now() - asking]);

const whole = await client.messages.create({ ...ask("hello"), thinking: { type: "enabled", budget_tokens: 1024 } });
assert.deepEqual(whole.content.map((block) => block.type), ["thinking", "text"]);
assert.equal(whole.content[0].thinking, "greet");
assert.equal(whole.content[1].text, "Hello, wörld \u{1F98A}!");
assert.equal(whole.stop_reason, "end_turn");
const stream = client.messages.stream({ ...ask("hello"), thinking: { type: "enabled", budget_tokens: 1024 } });
let thought = "";
let said = "";
stream.on("thinking", (delta) => { thought += delta; });
stream.on("text", (delta) => { said += delta; });
const final = await stream.finalMessage();
assert.deepEqual(final.content, whole.content);
assert.equal(thought, whole.content[0].thinking);
assert.equal(said, whole.content[1].text);
assert.equal(final.usage.output_tokens, whole.usage.output_tokens);

// A loop of calls, as agents run it.
const messages = [...ask("weather?").messages];
const inputs = [];
let answer;
for (;;) {
  answer = await client.messages.stream({ model, max_tokens: 500, tools, messages }).finalMessage();
  if (answer.stop_reason !== "tool_use") break;
  messages.push({ role: "assistant", content: answer.content });
  const calls = answer.content.filter((block) => block.type === "tool_use");
  inputs.push(...calls.map((call) => call.input));
  messages.push({ role: "user", content: calls.map((call) => (
    { type: "tool_result", tool_use_id: call.id, content: [{ type: "text", text: "sunny 21" }] })) });
  assert.ok(messages.length < 6);
}
assert.deepEqual(inputs, [{ city: "Oak\"dale", days: 2 }, { city: "Elm", days: 1 }]);
assert.equal(answer.content[0].text, "It is sunny.");

const count = await client.messages.countTokens(ask("hello"));
assert.ok(count.input_tokens > 5);
const models = await client.models.list();
assert.deepEqual(models.data.map((one) => one.id), [model]);

await assert.rejects(client.messages.create({ ...ask("hello"), max_tokens: 0 }),
  (error) => error instanceof Anthropic.BadRequestError && error.error.error.type === "invalid_request_error" &&
    /max_tokens/.test(error.message) && !!error.requestID);
await assert.rejects(client.messages.create(ask([{ type: "image", source: { type: "url", url: "x" } }])), /images/);

const endless = client.messages.stream(ask("endless"));
await new Promise((resolve) => endless.on("text", resolve));
endless.abort();
await endless.done().catch(() => {});
const begin = Date.now();
await client.messages.create(ask("hello"));
assert.ok(Date.now() - begin < 5000);
const [late, waited] = await patient;
assert.equal(late.content[0].text, "A place at last.");
assert.ok(waited > 4500, `${waited} ms`);
console.log("ok");
