// Conversations in the browser: kept, found, renamed, deleted, carried over, and what happens where nothing can be kept.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { before } from "node:test";
import { answers, ask, done, fakeServer, open, questions, test, until } from "./harness.mjs";

let server;
before(async () => {
  server = await fakeServer([
    { last: "endless", text: "and on ", repeat: 5000, delay_ms: 5 },
    { last: "mountains", text: "Granite is an igneous rock." },
    { text: "Noted." },
  ]);
});

const titles = (page) => page.locator("#conversations .name").allInnerTexts();

async function converse(page, ...texts) {
  for (const text of texts) {
    await page.click("#new-chat");
    await ask(page, text);
    await done(page);
  }
}

test("Conversations are there after a reload, newest first, and open by their address", async () => {
  const page = await open(server);
  await converse(page, "about rivers", "about mountains");
  assert.deepEqual(await titles(page), ["about mountains", "about rivers"]);
  await page.locator("#conversations a").last().click();
  const address = page.url();
  assert.match(address, /#c=/);
  await page.reload();
  await until(() => questions(page).allInnerTexts().then(String), "about rivers");
  assert.equal(await answers(page).locator(".markdown").last().innerText(), "Noted.");
  assert.match(await page.locator(".stats").innerText(), /tokens/);
  await page.locator("#conversations a").first().click();
  await until(() => page.title(), "about mountains – Strata");
  await page.goBack();
  await until(() => page.title(), "about rivers – Strata");
  await page.finish();
});

test("Search finds titles and what was said", async () => {
  const page = await open(server);
  await converse(page, "about rivers", "about mountains");
  await page.fill("#search", "IGNEOUS");
  await until(() => titles(page).then(String), "about mountains");
  await page.fill("#search", "rivers");
  await until(() => titles(page).then(String), "about rivers");
  await page.fill("#search", "nowhere");
  await until(() => page.locator("#no-conversations").innerText(), "Nothing found.");
  await page.press("#search", "Escape");
  await until(() => titles(page).then((all) => all.length), 2);
  await page.finish();
});

test("Renaming, deleting and taking that back", async () => {
  const page = await open(server);
  await converse(page, "one", "two");
  await page.locator("#conversations li").filter({ hasText: "two" }).getByRole("button", { name: /^Rename/ }).click();
  await page.keyboard.type("Number two");
  await page.keyboard.press("Enter");
  await until(() => titles(page).then(String), "Number two,one");
  assert.equal(await page.locator("#title").innerText(), "Number two");
  await ask(page, "go on");
  await done(page);
  await page.reload();
  await until(() => titles(page).then(String), "Number two,one");
  assert.deepEqual(await questions(page).allInnerTexts(), ["two", "go on"]);
  await page.getByRole("button", { name: "Delete “Number two”" }).click();
  await until(() => titles(page).then(String), "one");
  assert.equal(await questions(page).count(), 0, "what was open is closed");
  await page.getByRole("button", { name: "Undo" }).click();
  await until(() => titles(page).then(String), "Number two,one");
  await page.locator("#conversations a").last().hover();
  await page.getByRole("button", { name: "Delete “one”" }).click();
  await until(() => titles(page).then(String), "Number two");
  await page.reload();
  await until(() => titles(page).then(String), "Number two");
  await page.finish();
});

test("What is deleted while it is answered stays deleted", async () => {
  const page = await open(server);
  await ask(page, "endless");
  await until(() => answers(page).innerText(), /and on/);
  await page.getByRole("button", { name: "Delete “endless”" }).click();
  await until(() => titles(page).then(String), "");
  await ask(page, "next");
  await done(page);
  await page.reload();
  await until(() => titles(page).then(String), "next");
  await page.finish();
});

test("An answer that a reload interrupts is kept as far as it came", async () => {
  const page = await open(server);
  await ask(page, "endless");
  await page.waitForTimeout(1500);  // what came is written down every second
  await page.reload();
  await until(() => page.locator(".outcome").innerText(), /^Interrupted/);
  assert.match(await answers(page).locator(".markdown").last().innerText(), /^and on and on/);
  await page.finish();
});

test("Export and import carry everything over, once, and leave out what is damaged", async () => {
  const page = await open(server);
  await converse(page, "about rivers", "about mountains");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  assert.match(download.suggestedFilename(), /^strata-conversations-\d{4}-\d\d-\d\d\.json$/);
  const file = await download.path();
  const data = JSON.parse(readFileSync(file, "utf8"));
  assert.equal(data.format, "strata-conversations");
  assert.equal(data.conversations.length, 2);
  await page.setInputFiles("#import-file", { name: "again.json", mimeType: "application/json", buffer: readFileSync(file) });
  await until(() => page.locator(".notice").innerText(), /^0 conversations imported, 2 here already\./);

  const [first] = data.conversations;
  const cycle = structuredClone(first);
  cycle.id = "cycle";
  cycle.messages[0].parent = cycle.messages[1].id;
  data.conversations.push(cycle, { ...first, id: 7 }, { ...first, id: "x", messages: [{ role: "system" }] }, null);
  const other = await open(server);
  writeFileSync(file, JSON.stringify(data));
  await other.setInputFiles("#import-file", { name: "mixed.json", mimeType: "application/json", buffer: readFileSync(file) });
  await until(() => other.locator(".notice").innerText(), /^2 conversations imported, 4 damaged and left out\./);
  assert.deepEqual((await titles(other)).sort(), ["about mountains", "about rivers"]);
  await other.locator("#conversations a").filter({ hasText: "mountains" }).click();
  await until(() => answers(other).innerText(), /Granite/);
  await other.setInputFiles("#import-file", { name: "no.json", mimeType: "application/json", buffer: Buffer.from("[1]") });
  await until(() => other.locator(".notice").last().innerText(), /^no\.json is not a file of exported conversations\./);
  await other.finish();
  await page.finish();
});

test("Two tabs see each other's conversations", async () => {
  const page = await open(server);
  const second = await page.context().newPage();
  await second.goto(server.url);
  await ask(page, "from the first tab");
  await done(page);
  await until(() => titles(second).then(String), "from the first tab");
  await page.finish();
});

test("A browser without storage chats all the same and says what that means", async () => {
  const page = await open(server, {
    init: () => {
      const refuse = { get() { throw new DOMException("denied", "SecurityError"); } };
      Object.defineProperty(window, "localStorage", refuse);
      Object.defineProperty(window, "indexedDB", refuse);
    },
  });
  await until(() => page.locator("#storage-problem").innerText(), /does not let the page store anything/);
  await converse(page, "one", "two");
  await page.locator("#conversations a").last().click();
  await until(() => questions(page).allInnerTexts().then(String), "one");
  await page.selectOption("#quick-effort", "low");
  await until(() => page.locator(".notice").innerText(), /keeps no settings/);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  assert.equal(JSON.parse(readFileSync(await download.path(), "utf8")).conversations.length, 2);
  await page.finish();
});

test("A full storage is told, and the conversation goes on", async () => {
  const page = await open(server, {
    init: () => {
      const put = IDBObjectStore.prototype.put;
      IDBObjectStore.prototype.put = function (value) {
        if (JSON.stringify(value).includes("too much")) throw new DOMException("full", "QuotaExceededError");
        return put.call(this, value);
      };
    },
  });
  await converse(page, "small", "too much");
  await until(() => page.locator("#storage-problem").innerText(), /storage for this page is full/);
  await ask(page, "go on");
  await done(page);
  await page.locator("#conversations a").filter({ hasText: "small" }).click();
  await page.locator("#conversations a").filter({ hasText: "too much" }).click();
  await until(() => questions(page).allInnerTexts().then(String), "too much,go on");
  await page.reload();
  await until(() => titles(page).then(String), "small");
  await page.finish();
});
