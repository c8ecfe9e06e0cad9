// Asking, reading, stopping, editing, versions, settings.
import assert from "node:assert/strict";
import { before } from "node:test";
import { answers, ask, done, fakeServer, nextRequest, open, questions, test, until } from "./harness.mjs";

let server;
before(async () => {
  server = await fakeServer({
    context: 4000,
    rules: [
      { last: "slow prompt", progress: 10, prompt_delay_ms: 1500, timed: true, thinking: "Let me see.", delay_ms: 30, text: "There it is." },
      { last: "think", thinking: "First **this**.\n\nThen that.", text: "Thought through.", delay_ms: 25 },
      { last: "endless", text: "and on ", repeat: 5000, delay_ms: 5 },
      { last: "long", finish: "length", text: "cut off he" },
      { last: "second", text: "The second answer." },
      { last: "edited", text: "The edited answer." },
      { text: "The first answer." },
    ],
  });
});

test("An answer comes as it is written and says what it cost", async () => {
  const page = await open(server);
  const body = await nextRequest(page, () => ask(page, "Hello there"));
  assert.deepEqual(body.messages, [{ role: "user", content: "Hello there" }]);
  assert.equal(body.stream, true);
  assert.equal(body.return_progress, true);
  assert.ok(!("temperature" in body) && !("reasoning_effort" in body), "what nobody has set is not sent");
  await done(page);
  assert.equal(await answers(page).locator(".markdown").last().innerText(), "The first answer.");
  // 17 characters and the end of the turn; [user]Hello there are 17, half of them reused.
  assert.match(await page.locator(".stats").innerText(), /^18 tokens · .* tokens\/s · prompt 17 \(8 reused/);
  assert.match(await page.locator("#context").innerText(), /^35 of 4,000 tokens \(1 %\)$/);
  assert.equal(await page.title(), "Hello there – Strata");
  assert.equal(await page.evaluate(() => document.activeElement.id), "input");
  await page.finish();
});

test("The prompt's progress, the thinking and the answer follow each other", async () => {
  const page = await open(server);
  await ask(page, "A slow prompt");
  await until(() => page.locator(".phase").innerText(), /^Reading the prompt: \d+ of 19 tokens, \d+ %$/);
  const before = await page.locator("progress.reading").getAttribute("value");
  await until(async () => Number(await page.locator("progress.reading").getAttribute("value")) > Number(before), true);
  await until(() => page.locator(".thinking summary").innerText(), /^Thinking… \d\.\d s$/);
  assert.equal(await page.locator(".thinking").getAttribute("open"), null, "thoughts are folded");
  await done(page);
  assert.match(await page.locator(".thinking summary").innerText(), /^Thought for \d\.\d s$/);
  assert.equal(await page.locator(".phase").isVisible(), false);
  await page.finish();
});

test("A draw during which the machine stood still does not hold up those after it", async () => {
  const page = await open(server, {
    init: () => {
      let lost = 0;
      const now = performance.now.bind(performance);
      performance.now = () => now() + lost;
      const value = Object.getOwnPropertyDescriptor(HTMLProgressElement.prototype, "value");
      Object.defineProperty(HTMLProgressElement.prototype, "value", {
        ...value,
        set(read) {
          if (read > 0.3) lost ||= 30_000;
          value.set.call(this, read);
        },
      });
    },
  });
  await ask(page, "A slow prompt");
  await until(async () => Number(await page.locator("progress.reading").getAttribute("value")) > 0.6, true);
  await done(page);
  await page.finish();
});

test("Thoughts unfold, also while they come, and are read as markdown", async () => {
  const page = await open(server);
  await ask(page, "think");
  await page.locator(".thinking summary").click();
  await until(() => page.locator(".thinking .markdown").innerText(), /First this/);
  await done(page);
  assert.equal(await page.locator(".thinking strong").innerText(), "this");
  assert.equal(await page.locator(".thinking p").count(), 2);
  const body = await nextRequest(page, () => ask(page, "second"));
  assert.deepEqual(body.messages.map((message) => message.role), ["user", "assistant", "user"]);
  assert.match(body.messages[1].reasoning_content, /^First \*\*this\*\*/);
  await page.finish();
});

test("Stop keeps what came, ends the request, and the conversation goes on", async () => {
  const page = await open(server);
  await ask(page, "endless");
  await until(() => answers(page).innerText(), /and on and on/);
  await page.click("#stop");
  await done(page);
  assert.equal(await page.locator(".outcome").innerText(), "Stopped.");
  const kept = await answers(page).locator(".markdown").last().innerText();
  assert.match(kept, /^and on and on/);
  // The server serves one request at a time: it answers only because the other has ended.
  const body = await nextRequest(page, () => ask(page, "second"));
  assert.equal(body.messages[1].content.trimEnd(), kept);
  await done(page);
  assert.equal(await answers(page).last().locator(".markdown").last().innerText(), "The second answer.");
  await page.finish();
});

test("An answer that is cut says so", async () => {
  const page = await open(server);
  await ask(page, "long");
  await done(page);
  assert.match(await page.locator(".outcome").innerText(), /longest answer allowed/);
  await page.finish();
});

test("Editing and answering again make versions, which stay over a reload", async () => {
  const page = await open(server);
  await ask(page, "first");
  await done(page);
  await ask(page, "second");
  await done(page);
  await page.locator(".question").first().hover();
  await page.getByRole("button", { name: "Edit the message" }).first().click();
  const field = page.getByRole("textbox", { name: "The message, edited" });
  assert.equal(await field.inputValue(), "first");
  await field.fill("edited");
  const body = await nextRequest(page, () => page.locator(".editor").getByRole("button", { name: "Send" }).click());
  assert.deepEqual(body.messages, [{ role: "user", content: "edited" }]);
  await done(page);
  assert.deepEqual(await questions(page).allInnerTexts(), ["edited"]);
  assert.equal(await page.locator(".question .place").innerText(), "2 / 2");
  await page.locator(".question").getByRole("button", { name: "Previous version" }).click();
  assert.deepEqual(await questions(page).allInnerTexts(), ["first", "second"], "the other branch is as it was");
  assert.equal(await answers(page).last().locator(".markdown").last().innerText(), "The second answer.");

  const again = await nextRequest(page, () => answers(page).first().getByRole("button", { name: "Answer again" }).click());
  assert.deepEqual(again.messages, [{ role: "user", content: "first" }]);
  await done(page);
  assert.deepEqual(await questions(page).allInnerTexts(), ["first"]);
  assert.equal(await page.locator(".answer .place").first().innerText(), "2 / 2");
  assert.equal(await page.locator(".question .place").first().innerText(), "1 / 2");
  await page.reload();
  await until(() => page.locator(".answer .place").first().innerText(), "2 / 2");
  await page.locator(".answer").getByRole("button", { name: "Previous version" }).click();
  assert.deepEqual(await questions(page).allInnerTexts(), ["first", "second"]);
  await page.finish();
});

test("Settings are checked, sent and kept", async () => {
  const page = await open(server);
  await page.click("#settings-open");
  await page.fill("#temperature", "0.25");
  await page.fill("#top-p", "0.9");
  await page.fill("#max-tokens", "77");
  await page.selectOption("#effort", "low");
  await page.fill("#system", "Be brief.");
  await page.fill("#key", "secret-1");
  await page.getByRole("button", { name: "Done" }).click();
  assert.equal(await page.locator("#settings").isVisible(), false);
  await page.reload();
  assert.equal(await page.inputValue("#quick-effort"), "low");
  await page.selectOption("#quick-effort", "none");
  const request = page.waitForRequest(/chat\/completions/);
  await ask(page, "first");
  const sent = await request;
  const body = sent.postDataJSON();
  assert.deepEqual(
    [body.temperature, body.top_p, body.max_completion_tokens, body.reasoning_effort], [0.25, 0.9, 77, "none"]);
  assert.deepEqual(body.messages[0], { role: "system", content: "Be brief." });
  assert.equal(sent.headers().authorization, "Bearer secret-1");
  await done(page);
  await page.click("#settings-open");
  await page.fill("#temperature", "9");
  await page.locator("#top-p").focus();
  assert.equal(await page.evaluate(() => document.querySelector("#temperature").checkValidity()), false);
  await page.getByRole("button", { name: "Reset all but the key" }).click();
  assert.equal(await page.inputValue("#temperature"), "");
  assert.equal(await page.inputValue("#key"), "secret-1");
  await page.getByRole("button", { name: "Done" }).click();
  const after = await nextRequest(page, () => ask(page, "second"));
  assert.ok(!("temperature" in after) && !("reasoning_effort" in after));
  await page.finish();
});

test("An answer goes on while another conversation is open", async () => {
  const page = await open(server);
  await ask(page, "A slow prompt");
  await until(() => page.locator("#conversations .running").count(), 1);
  await page.click("#new-chat");
  assert.equal(await answers(page).count(), 0);
  await page.locator("#conversations a").click();
  await done(page);
  assert.equal(await answers(page).locator(".markdown").last().innerText(), "There it is.");
  await page.finish();
});
