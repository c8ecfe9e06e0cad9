// Keys alone, small screens, light and dark, and the rules of axe.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { before } from "node:test";
import { answers, ask, done, fakeServer, open, questions, test, until } from "./harness.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ANSWER = "# Wide\n\n```cpp\n" + "int a_very_long_name_of_a_variable = another_very_long_function_name(1, 2, 3); ".repeat(3) + "\n```\n\n" +
  "| " + "a wide column | ".repeat(9) + "\n|" + "-|".repeat(9) + "\n| " + "value value | ".repeat(9) + "\n\n" + "Unbreakable" + "x".repeat(300) +
  "\n\nA [link](https://example.com/" + "y".repeat(200) + ") and `" + "z".repeat(120) + "`.";

let server;
before(async () => {
  server = await fakeServer({
    id: "a-model-with-a-long-name-q4_k_m-instruct", context: 1000, engine: {
      devices: [{ id: "cuda:0", name: "Card", architecture: "sm_90", memory_mib: 24000 }, { id: "cpu", name: "CPU", memory_mib: 1000 }],
      layers: [{ device: "cuda:0", first: 0, last: 5 }, { device: "cpu", first: 6, last: 7 }], not_built: ["drafts"],
      plan: { lines: ["layer split auto: K=6 predicted 9.4 ms per decode window"], stages: [{ device: "cuda:0", bytes: { dense: 1e9, experts: 4e9, free_before: 2e10 } }], rejected: [{ what: "a", why: "b" }] },
    },
    rules: [
      { last: "full", refusal: "full" }, { last: "endless", text: "and on ", repeat: 5000, delay_ms: 5 },
      { last: "wide", thinking: "Hm.", text: ANSWER }, { last: "again", text: "Again." }, { text: "Fine." },
    ],
  });
});

async function axe(page, what) {
  // The policy forbids scripts from elsewhere, so axe comes in through the debugger.
  await page.evaluate(AXE);
  const found = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert.deepEqual(found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html} ${node.any[0]?.message ?? ""}`).join(" | ")}`), [], what);
}

for (const colorScheme of ["light", "dark"]) {
  test(`Every view keeps the rules of axe, ${colorScheme}`, async () => {
    const page = await open(server, { colorScheme, reducedMotion: "reduce", expected: [/Failed to load resource/] });
    await page.locator("#empty-core .layer").first().waitFor();
    await axe(page, "empty");
    await ask(page, "wide");
    await done(page);
    await page.locator(".thinking summary").click();
    await ask(page, "full");
    await done(page);
    await page.locator(".question").first().hover();
    await axe(page, "chat");
    await page.getByRole("button", { name: "Edit the message" }).first().click();
    await axe(page, "editor");
    await page.keyboard.press("Escape");
    await page.click("#settings-open");
    await axe(page, "settings");
    await page.keyboard.press("Escape");
    await page.click("#help-open");
    await axe(page, "shortcuts");
    await page.keyboard.press("Escape");
    await page.click("#to-monitor");
    await page.locator("#recent-rows tr").first().waitFor();
    await axe(page, "monitor");
    const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g).map(Number));
    assert.equal(back[0] > 128, colorScheme === "light", String(back));
    await page.finish();
  });
}

test("The theme of the settings wins over the system's, at once and after a reload", async () => {
  const page = await open(server, { colorScheme: "light" });
  const light = () => page.evaluate(() => Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0]) > 128);
  assert.equal(await light(), true);
  await page.click("#settings-open");
  await page.selectOption("#theme", "dark");
  assert.equal(await light(), false);
  await page.reload();
  assert.equal(await light(), false);
  await page.finish();
});

test("A screen of 360 pixels shows everything without scrolling sideways", async () => {
  const page = await open(server, { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true, expected: [/Failed to load resource/] });
  const overflow = () => page.evaluate(() => {
    const boxes = [document.documentElement, ...document.querySelectorAll("#scroller, #monitor, dialog[open], #sidebar")];
    const wide = boxes.filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => `${box.id || box.tagName} ${box.scrollWidth} > ${box.clientWidth}`);
    const outside = [...document.querySelectorAll("button, a, input, select, textarea")].filter((node) => {
      const box = node.getBoundingClientRect();
      return box.width > 0 && getComputedStyle(node).visibility === "visible" && !node.closest(".table, .code, .skip") && (box.left < -1 || box.right > innerWidth + 1);
    }).map((node) => node.outerHTML.slice(0, 80));
    return [...wide, ...outside];
  });
  assert.deepEqual(await overflow(), [], "empty");
  await ask(page, "wide");
  await done(page);
  await ask(page, "full");
  await done(page);
  assert.deepEqual(await overflow(), [], "chat");
  await page.getByRole("button", { name: "Conversations" }).tap();
  await until(() => page.locator("#sidebar").isVisible(), true);
  await page.waitForTimeout(250);
  assert.deepEqual(await overflow(), [], "list");
  await page.getByRole("button", { name: "New chat" }).tap();
  await until(() => page.locator("#sidebar").isVisible(), false);
  await page.click("#settings-open");
  assert.deepEqual(await overflow(), [], "settings");
  await page.getByRole("button", { name: "Done" }).tap();
  await page.locator("#to-monitor").tap();
  await page.locator("#recent-rows tr").first().waitFor();
  assert.deepEqual(await overflow(), [], "monitor");
  await page.finish();
});

test("Everything can be done with keys alone", async () => {
  const page = await open(server);
  const key = (...keys) => keys.reduce((before, one) => before.then(() => page.keyboard.press(one)), Promise.resolve());
  const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.tagName);
  assert.equal(await focus(), "input");
  await page.keyboard.type("line one");
  await key("Shift+Enter");
  await page.keyboard.type("line two");
  await key("Enter");
  await done(page);
  assert.equal(await questions(page).innerText(), "line one\nline two");
  // Editing with the arrow key, and leaving it again.
  await key("ArrowUp");
  assert.equal(await focus(), "The message, edited");
  await key("Escape");
  assert.equal(await focus(), "Edit the message");
  await key("e");
  await key("Control+a");
  await page.keyboard.type("again");
  await key("Enter");
  await until(() => answers(page).locator(".markdown").last().innerText(), "Again.");
  await page.locator("body").press("y");
  await until(() => page.locator(".notice").innerText(), /The last answer is copied\./);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "Again.");
  // Stopping.
  await key("/");
  await page.keyboard.type("endless");
  await key("Enter");
  await until(() => answers(page).last().innerText(), /and on/);
  await key("Escape");
  await done(page);
  assert.match(await page.locator(".outcome:visible").innerText(), /Stopped/);
  await until(() => page.locator("#announcer").textContent(), "Stopped");
  // Letters are letters while a message is written, commands elsewhere.
  assert.equal(await focus(), "input");
  await page.keyboard.type("nms?/");
  assert.equal(await page.inputValue("#input"), "nms?/");
  await key("Control+a", "Delete", "Escape");
  assert.equal(await focus(), "BODY");
  await key("?");
  assert.equal(await page.locator("#shortcuts").isVisible(), true);
  await key("Escape");
  await key("m");
  assert.equal(await page.locator("#title").innerText(), "Monitor");
  await key("m");
  assert.equal(await page.locator("#title").innerText(), "again");
  await key("s");
  assert.equal(await page.locator("#settings").isVisible(), true);
  await key("Escape");
  await key("n");
  assert.equal(await answers(page).count(), 0);
  assert.equal(await focus(), "input");
  // The list: search, move, rename, delete.
  await key("Control+k");
  assert.equal(await focus(), "search");
  await key("ArrowDown", "F2");
  await page.keyboard.type("Renamed by keys");
  await key("Enter");
  await until(() => page.locator("#conversations .name").innerText(), "Renamed by keys");
  await until(() => page.evaluate(() => document.activeElement.getAttribute("href")?.startsWith("#c=")), true);
  await key("Enter");
  await until(() => page.locator("#title").innerText(), "Renamed by keys");
  await page.locator("#conversations a").focus();
  await key("Delete");
  await until(() => page.locator("#conversations .name").count(), 0);
  await page.finish();
});

test("Tab reaches every control in the order of the page", async () => {
  const page = await open(server);
  await ask(page, "Hello");
  await done(page);
  await page.reload();
  await until(() => answers(page).count(), 1);
  const order = [];
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => document.activeElement === document.body ? "" :
      document.activeElement.id || document.activeElement.getAttribute("aria-label") || document.activeElement.textContent.trim());
    if (!name || order.includes(name)) break;
    order.push(name);
  }
  assert.deepEqual(order, ["Skip to the message", "new-chat", "search", "Hello", "Rename “Hello”", "Delete “Hello”", "export", "import",
    "to-chat", "to-monitor", "settings-open", "help-open", "scroller", "Copy the message", "Edit the message", "Copy the answer", "Answer again",
    "input", "quick-effort", "send"]);
  await page.finish();
});
