// What goes wrong is said where it happened, and can be tried again.
import assert from "node:assert/strict";
import { before } from "node:test";
import { answers, ask, done, fakeServer, nextRequest, open, questions, test, until } from "./harness.mjs";

const RULES = [
  { last: "full", refusal: "full" },
  { last: "unavailable", refusal: "unavailable" },
  { last: "breaks", text: "The first half", failure: "a device failed" },
  { last: "endless", text: "and on ", repeat: 5000, delay_ms: 5 },
  { text: "All is well." },
];
const LOADING = [/Failed to load resource/];

let server;
before(async () => {
  server = await fakeServer(RULES);
});

for (const [name, status, sentence] of [["full", 503, /8 requests are waiting already\. The server asks to wait \d+ s\.$/], ["unavailable", 503, /the model rests\./]]) {
  test(`A request that is refused, ${name}, says why and can be sent again`, async () => {
    const page = await open(server, { expected: LOADING });
    const refused = page.waitForResponse(/chat\/completions/);
    await ask(page, name);
    assert.equal((await refused).status(), status);
    await until(() => page.locator(".failure p").innerText(), sentence);
    assert.equal(await page.locator(".failure").getAttribute("role"), "alert");
    const body = await nextRequest(page, () => page.getByRole("button", { name: "Try again" }).click());
    assert.deepEqual(body.messages, [{ role: "user", content: name }]);
    await done(page);
    assert.equal(await answers(page).count(), 1, "what failed at once is no version of its own");
    assert.equal(await page.locator(".branches:visible").count(), 0);
    // Another question instead: both go together, since the first has no answer.
    const next = await nextRequest(page, () => ask(page, "Hello"));
    assert.deepEqual(next.messages, [{ role: "user", content: `${name}\n\nHello` }]);
    await done(page);
    await page.finish();
  });
}

test("A stream that breaks keeps what came; trying again makes another version", async () => {
  const page = await open(server);
  await ask(page, "breaks");
  await until(() => page.locator(".failure p").innerText(), /a device failed/);
  assert.equal(await answers(page).locator(".markdown").last().innerText(), "The first half");
  await page.getByRole("button", { name: "Try again" }).click();
  await until(() => page.locator(".answer .place").innerText(), "2 / 2");
  await page.reload();
  await until(() => page.locator(".failure p").innerText(), /a device failed/);
  await page.finish();
});

test("A server that asks for a key gets it, from the message and from the banner", async () => {
  const locked = await fakeServer({ key: "open sesame", rules: RULES });
  const page = await open(locked, { expected: LOADING });
  await until(() => page.locator("#banner-text").innerText(), "This server asks for an API key.");
  await ask(page, "Hello");
  await until(() => page.locator(".failure p").innerText(), /API key is required/);
  await page.fill(".key-form input", "wrong");
  await page.press(".key-form input", "Enter");
  await until(() => page.locator(".failure p").innerText(), /API key is required/);
  await page.fill(".key-form input", "open sesame");
  await page.getByRole("button", { name: "Save and try again" }).click();
  await until(() => answers(page).innerText(), /All is well\./);
  await until(() => page.locator("#banner").isVisible(), false);
  await page.reload();
  await ask(page, "Hello again");
  await done(page);
  assert.equal(await page.locator(".failure:visible").count(), 0, "the key is kept");
  const other = await open(locked, { expected: LOADING });
  await other.click("#banner-settings");
  assert.equal(await other.evaluate(() => document.activeElement.id), "key");
  await other.fill("#key", "open sesame");
  await other.press("#key", "Enter");
  await until(() => other.locator("#model-state").innerText(), "ready");
  await other.finish();
  await page.finish();
  locked.stop();
});

test("A server that goes away is told in the answer and in the banner, and the page comes back with it", async () => {
  const mortal = await fakeServer(RULES);
  const page = await open(mortal, { expected: [...LOADING, /net::ERR/] });
  await ask(page, "endless");
  await until(() => answers(page).innerText(), /and on/);
  mortal.stop();
  await until(() => page.locator(".failure p").innerText(), /broke off before the answer was complete|ended before the answer was complete/);
  assert.match(await answers(page).locator(".markdown").last().innerText(), /^and on/);
  await ask(page, "anybody there?");
  await until(() => page.locator(".failure p").last().innerText(), /cannot be reached/);
  await page.click("#to-monitor");
  await until(() => page.locator("#banner-text").innerText(), /cannot be reached/);
  assert.equal(await page.locator("#model-name").innerText(), "not reachable");
  await page.finish();
});

test("What is not an answer of the server is told as what it is", async () => {
  const page = await open(server, { expected: LOADING });
  const replies = [
    { status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" },
    { status: 429, headers: { "Retry-After": "7" }, json: { error: { message: "Slow down", code: "rate" } } },
    { status: 200, contentType: "text/event-stream", body: "data: {broken\n\n" },
    { status: 200, contentType: "text/event-stream", body: 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n' },
  ];
  const wanted = [/^The server answered with status 502\.$/, /^Slow down\. The server asks to wait 7 s\.$/, /not JSON/, /ended before the answer was complete/];
  for (const [index, reply] of replies.entries()) {
    await page.route(/chat\/completions/, (route) => route.fulfill(reply), { times: 1 });
    await page.click("#new-chat");
    await ask(page, `reply ${index}`);
    await until(() => page.locator(".failure p").innerText(), wanted[index]);
  }
  assert.equal(await questions(page).count(), 1);
  await page.finish();
});
