// One chat and the monitor with the real program and its embedded model.
import assert from "node:assert/strict";
import { answers, ask, done, nextRequest, open, realServer, test, until } from "./harness.mjs";

test("The embedded model answers, thinks, and shows up in the monitor", async () => {
  const server = await realServer();
  const page = await open(server);
  await until(() => page.locator("#empty-model").innerText(), "strata-tiny");
  assert.match(await page.locator("#empty-facts").innerText(), /^8 layers on .+, 32,768 tokens of context$/);
  await page.click("#settings-open");
  await page.fill("#temperature", "0");
  await page.getByRole("button", { name: "Done" }).click();
  await ask(page, "What is 7 plus 12?");
  await done(page);
  // A sum of the micro-world that the model was trained for.
  assert.match(await answers(page).locator(".markdown").last().innerText(), /\b19\b/);
  assert.match(await page.locator(".thinking summary").innerText(), /^Thought for/);
  assert.match(await page.locator(".stats").innerText(), /^\d+ tokens \(\d+ of thought\) · [\d.,]+ tokens\/s · prompt \d+/);
  await page.selectOption("#quick-effort", "none");
  const body = await nextRequest(page, () => ask(page, "What is 2 plus 3?"));
  assert.equal(body.reasoning_effort, "none");
  assert.equal(body.messages.length, 3);
  await done(page);
  assert.equal(await answers(page).last().locator(".thinking").isVisible(), false);
  await page.click("#to-monitor");
  await until(() => page.locator("#recent-rows tr").count(), 2);
  assert.equal(await page.locator(".device").count(), 1);
  assert.match(await page.locator(".facts").innerText(), /^cpu · .* · layers 0–7$/);
  await page.finish();
});
