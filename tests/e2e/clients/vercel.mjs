// Vercel's AI SDK with its OpenAI-compatible provider against `fake_server script.json`:
// node vercel.mjs BASE_URL
import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false;
const provider = createOpenAICompatible({
  name: "strata", baseURL: process.argv[2] + "/v1", includeUsage: true, supportsStructuredOutputs: true });
const model = provider("fake-model");

// A full queue is tried again, not sooner than the server asks; the answer is looked at in the end.
const asking = Date.now();
const patient = generateText({ model, prompt: "full queue", maxRetries: 2 }).then((answer) => [answer, Date.now() - asking]);

const whole = await generateText({ model, prompt: "hello", maxRetries: 0 });
assert.equal(whole.text, "Hello, wörld \u{1F98A}!");
assert.equal(whole.reasoningText, "greet");
assert.ok(whole.usage.totalTokens > 0);

const stream = streamText({ model, prompt: "hello", maxRetries: 0 });
let text = "";
for await (const part of stream.textStream) text += part;
assert.equal(text, whole.text);
assert.equal(await stream.reasoningText, whole.reasoningText);
assert.equal(await stream.finishReason, "stop");
assert.equal((await stream.usage).totalTokens, whole.usage.totalTokens);

const asked = [];
const tools = { get_weather: tool({
  description: "tells the weather",
  inputSchema: z.object({ city: z.string(), days: z.number().int() }),
  execute: async (input) => { asked.push(input); return "sunny 21"; } }) };
for (const run of [
  async () => (await generateText({ model, tools, prompt: "weather?", stopWhen: stepCountIs(4), maxRetries: 0 })).text,
  async () => {
    const streamed = streamText({ model, tools, prompt: "weather?", stopWhen: stepCountIs(4), maxRetries: 0 });
    await streamed.consumeStream();
    return await streamed.text;
  }]) {
  asked.length = 0;
  assert.equal(await run(), "It is sunny.");
  assert.deepEqual(asked, [{ city: "Oak\"dale", days: 2 }, { city: "Elm", days: 1 }]);
}

const person = await generateText({
  model, prompt: "json?", maxRetries: 0,
  output: Output.object({ schema: z.object({ name: z.string(), age: z.number() }) }) });
assert.deepEqual(person.output, { name: "Ann", age: 7 });

await assert.rejects(generateText({ model, prompt: "hello", temperature: -1, maxRetries: 0 }), /temperature/);
const [late, waited] = await patient;
assert.equal(late.text, "A place at last.");
assert.ok(waited > 4500, `${waited} ms`);
console.log("ok");
