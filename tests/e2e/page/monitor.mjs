// The monitor shows the server's numbers, all that it tells and nothing else.
import assert from "node:assert/strict";
import { before } from "node:test";
import { fakeServer, open, test, until } from "./harness.mjs";

const GIB = 2 ** 30;
const STAGE = { dense: GIB, embedding: GIB, experts: 5 * GIB, cache: 2 * GIB, state: GIB, workspace: GIB / 2, used: 10.5 * GIB, free_before: 20 * GIB };
const ENGINE = {
  devices: [
    { id: "cuda:0", architecture: "sm_90", name: "Card <b>One</b>", memory_mib: 24 * 1024 },
    { id: "cpu", architecture: "x86-64", name: "Some CPU", memory_mib: 64 * 1024 },
  ],
  layers: [{ device: "cuda:0", first: 0, last: 5 }, { device: "cpu", first: 6, last: 7 }],
  self_tests: "passed",
  not_built: ["drafts (--spec)"],
  plan: {
    stages: [{ device: "cuda:0", bytes: STAGE }],
    lines: ["layer split auto: K=6", "layers 0-5 (cuda:0), 6-7 (cpu)"],
    rejected: [{ what: "all on cuda:0", why: "does not fit" }],
    warnings: ["the context is short"],
  },
};
const RULES = [
  { last: "quick", text: "0123456789", timed: true, delay_ms: 10 },
  { last: "slow prompt", progress: 20, prompt_delay_ms: 4000, text: "done" },
  { last: "endless", text: "and on ", cut: 7, whole_tokens: true, repeat: 100000, delay_ms: 20 },
];

// A client beside the page; its request goes on until it is aborted.
function request(server, text) {
  const abort = new AbortController();
  const response = fetch(`${server.url}/v1/chat/completions`, {
    method: "POST", signal: abort.signal, headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ stream: true, messages: [{ role: "user", content: text }] }),
  }).then((answer) => answer.text()).catch(() => {});
  return { response, stop: () => (abort.abort(), response) };
}

const figure = (page, name) => page.locator(".figure").filter({ has: page.getByRole("heading", { name }) });

let server;
before(async () => {
  server = await fakeServer({ id: "monitored", context: 1000, engine: ENGINE, rules: RULES });
});

test("Devices, layers, memory and the plan are the server's", async () => {
  const page = await open(server, { path: "/#monitor" });
  await page.locator(".device").first().waitFor();
  assert.deepEqual(await page.locator(".device h3").allInnerTexts(), ["Card <b>One</b>", "Some CPU"]);
  assert.deepEqual(await page.locator(".facts").allInnerTexts(),
    ["cuda:0 · sm_90 · 24.0 GiB · layers 0–5", "cpu · x86-64 · 64.0 GiB · layers 6–7"]);
  assert.deepEqual((await page.locator(".device").first().locator(".legend li").allInnerTexts()).map((text) => text.replace(/\s+/g, " ").trim()),
    ["weights 2.0 GiB", "experts 5.0 GiB", "keys and values 3.0 GiB", "workspace 512 MiB", "others, at the start 4.0 GiB", "left free 9.5 GiB"]);
  const widths = await page.locator(".device").first().locator(".stack").evaluate((bar) => [...bar.children].map((part) => part.style.width));
  assert.deepEqual(widths.map((width) => parseFloat(width).toFixed(1)), ["8.3", "20.8", "12.5", "2.1", "16.7", "39.6"]);
  assert.equal(await page.locator(".device").last().locator(".part").count(), 0, "no plan, no bar");
  assert.equal(await page.locator("#core-box .layer").count(), 8);
  assert.equal(await page.locator("#plan-lines").innerText(), ENGINE.plan.lines.join("\n"));
  assert.equal(await page.locator("#plan-warnings").innerText(), "the context is short");
  await page.locator("#rejected-box summary").click();
  assert.equal(await page.locator("#plan-rejected").innerText(), "all on cuda:0: does not fit");
  assert.equal(await page.locator("#not-built-list").innerText(), "drafts (--spec)");
  assert.match(await page.locator("#devices-note").innerText(), /passed its self-tests/);
  for (const name of ["Expert cache hits", "Drafts accepted"]) assert.equal(await figure(page, name).isVisible(), false, name);
  await page.finish();
});

test("Running, waiting and reading requests, live rates, and the last requests", async () => {
  await request(server, "quick").response;
  const page = await open(server, { path: "/#monitor" });
  const last = page.locator("#recent-rows tr").first();
  // [user]quick are 11 tokens, 5 of them reused; ten characters and the end of the turn.
  await until(() => last.locator("td").allInnerTexts().then((cells) => cells.slice(1, 6).join(" ")), "chat/completions stop 11 5 11");
  const rate = parseFloat((await last.locator("td").allInnerTexts())[7]);
  assert.ok(rate > 20 && rate < 400, `${rate} tokens/s of four pieces with 10 ms before each`);
  const endless = request(server, "endless");
  await until(() => page.locator("#running-rows tr").count(), 1);
  const waiting = request(server, "slow prompt");
  await until(() => page.locator("#running-rows tr").allInnerTexts().then((rows) => rows.map((row) => row.split("\t")[0]).join()), "generating,waiting");
  assert.equal(await figure(page, "Running").locator(".value").innerText(), "1");
  await until(() => figure(page, "Running").locator(".detail").innerText(), "1 waiting");
  // One token after 20 ms: never more than 50, on a busy machine less.
  await until(() => figure(page, "Generating").locator(".value").innerText().then((text) => { const now = parseFloat(text); return now > 5 && now < 60; }), true);
  assert.match(await figure(page, "Generating").locator("svg").getAttribute("aria-label"), /^Generating, tokens\/s, last minute: now \d/);
  const before = await page.locator("#running-rows td").nth(3).innerText();
  await until(async () => parseFloat((await page.locator("#running-rows td").nth(3).innerText()).replace(",", "")) > parseFloat(before.replace(",", "")), true);
  await endless.stop();
  await until(() => page.locator("#running-rows tr").first().innerText(), /^reading \d+ %/);
  await until(async () => Number(await page.locator("#running-rows progress").getAttribute("value")) > 2, true);
  await until(() => page.locator("#recent-rows tr").first().locator("td").nth(2).innerText(), "cancelled");
  await waiting.stop();
  await until(() => page.locator("#running-none").isVisible(), true);
  await page.finish();
});

test("A server that tells of experts, drafts and free memory gets them shown; what it does not tell is left out", async () => {
  const page = await open(server);
  let hits = 900;
  await page.route(/v1\/status/, (route) => route.fulfill({
    json: {
      status: "ok", running: 0, waiting: 0, model: { id: "m" },
      engine: { devices: [{ id: "cuda:0", memory_mib: 1000, memory_free_mib: 400 }], experts: { hits: (hits += 50), lookups: hits + 100 }, drafts: { drafted: 0, accepted: 0 } },
    },
  }));
  await page.click("#to-monitor");
  await until(() => figure(page, "Expert cache hits").locator(".value").innerText(), /^(9\d\.\d|100\.0)$/);
  assert.match(await figure(page, "Expert cache hits").locator(".detail").innerText(), /^9\d % of 1,\d+ experts$/);
  assert.equal(await figure(page, "Drafts accepted").locator(".value").innerText(), "–");
  assert.deepEqual(await page.locator(".legend li").allInnerTexts().then((all) => all.map((text) => text.replace(/\s+/g, " ").trim())), ["used 600 MiB", "free 400 MiB"]);
  for (const id of ["running", "recent", "plan", "not-built"]) assert.equal(await page.locator(`#${id}`).isVisible(), false, id);
  for (const name of ["Generating", "Reading prompts"]) assert.equal(await figure(page, name).isVisible(), false, name);
  assert.equal(await page.locator("#core-box .core").isVisible(), false);
  await page.finish();
});

test("Loading, failed and degraded servers say so on every view", async () => {
  const degraded = await fakeServer({ degraded: "cuda:1 is lost, the model runs on cuda:0", rules: [] });
  const page = await open(degraded);
  await until(() => page.locator("#banner-text").innerText(), "cuda:1 is lost, the model runs on cuda:0");
  assert.equal(await page.locator("#model-state").textContent(), "degraded");
  let answer = { status: "loading", progress: 0.42, message: "reading weights" };
  await page.route(/v1\/status/, (route) => route.fulfill({ json: answer }));
  await page.click("#to-monitor");
  await until(() => page.locator("#banner-text").innerText(), "The model is loading: 42 %. reading weights");
  answer = { status: "failed", message: "no device is left" };
  await until(() => page.locator("#banner-text").innerText(), "The engine has failed: no device is left");
  await page.unroute(/v1\/status/);
  await until(() => page.locator("#banner").getAttribute("data-state"), "degraded");
  await page.finish();
  degraded.stop();
});
