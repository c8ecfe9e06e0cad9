// A browser, servers with scripts, and pages that are watched: whatever a page reports as an error, and every request
// that would leave for another host, fails the test that opened it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test as nodeTest } from "node:test";
import { chromium } from "playwright-core";

const { STRATA_BINARY, STRATA_BROWSER, STRATA_FAKE_SERVER } = process.env;
const PATIENCE_MS = 15_000;

let browser;
const folder = mkdtempSync(join(tmpdir(), "strata-page-"));
const processes = [];

before(async () => {
  // A test runs as root in containers, where Chromium has no sandbox; the clipboard is for the copy buttons.
  browser = await chromium.launch({ executablePath: STRATA_BROWSER, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
});
after(async () => {
  await browser?.close();
  for (const process of processes) process.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

async function start(command, args) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"] });
  processes.push(child);
  let output = "";
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", () => reject(new Error(`${command} ended without an address: ${output}`)));
    // Read to the end: a full pipe would stop the server.
    child.stdout.on("data", (data) => {
      output = (output + data).slice(0, 1000);
      const address = /listening on (http:\/\/127\.0\.0\.1:\d+)\n/.exec(output)?.[1];
      if (address) resolve({ url: address, stop: () => child.kill("SIGKILL") });
    });
  });
}

// `script`: see fake_server.cpp.
export async function fakeServer(script) {
  const file = join(folder, `${processes.length}.json`);
  writeFileSync(file, JSON.stringify(script));
  return start(STRATA_FAKE_SERVER, [file]);
}

export async function realServer(...args) {
  const server = await start(STRATA_BINARY, ["serve", "--port", "0", "--log-level", "error", ...args]);
  for (let i = 0; ; i++) {
    if ((await fetch(`${server.url}/health`)).ok) return server;
    assert.ok(i < 600, "the model does not get ready");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// A page of its own profile. `expected`: patterns of console errors that the test brings about.
export async function open(server, { path = "/", expected = [], init, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, permissions: ["clipboard-read", "clipboard-write"], ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  if (init) await context.addInitScript(init);
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => {
    const text = message.text();
    if (["error", "warning"].includes(message.type()) && !expected.some((pattern) => pattern.test(text))) problems.push(text);
  });
  page.on("pageerror", (error) => problems.push(String(error.stack)));
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (!["blob:", "data:"].includes(url.protocol) && url.origin !== server.url) problems.push(`request to ${url}`);
  });
  await page.goto(server.url + path);
  await page.waitForSelector('#model[data-state]');
  return Object.assign(page, {
    finish: async () => {
      await context.close();
      assert.deepEqual(problems, []);
    },
  });
}

export function test(name, body) {
  nodeTest(name, { timeout: 120_000 }, body);
}

export async function ask(page, text) {
  await page.fill("#input", text);
  await page.press("#input", "Enter");
}

export async function done(page) {
  await page.waitForSelector("#send:not([hidden])");
}

export const answers = (page) => page.locator(".answer");
export const questions = (page) => page.locator(".question-text");

// Waits until `read` gives what is wanted.
export async function until(read, wanted) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await read();
    if (wanted instanceof RegExp ? wanted.test(value) : value === wanted) return value;
    assert.ok(Date.now() < end, `${JSON.stringify(value)} instead of ${wanted}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}

// The body of the next chat request.
export async function nextRequest(page, action) {
  const [request] = await Promise.all([page.waitForRequest(/chat\/completions/), action()]);
  return request.postDataJSON();
}
