// What an answer may be made of: markdown, code, hostile markup, tool calls, a hundred kilobytes.
import assert from "node:assert/strict";
import { before } from "node:test";
import { answers, ask, done, fakeServer, open, test, until } from "./harness.mjs";

const MARKDOWN = `# Title

A *first* paragraph with \`code\`, **bold**, ~~gone~~ and a [link][late].

- [x] done
- item
  - nested

3. three
4. four

> quoted

| name | value |
|:-----|------:|
| a    | 12    |

\`\`\`python
def f(x):
    return "<b>" + x  # <script>
\`\`\`

\`\`\`makefile
all:
\ttouch a\tb
\`\`\`

Line one
line two

[late]: https://example.com/late
`;

// Each of these would do something if it were taken as what it looks like.
const HOSTILE = [
  "<img src=x onerror=\"window.hit=1\">", "<script>window.hit=1</script>", "<svg onload=window.hit=1>", "<iframe src='//evil.test/'></iframe>",
  "<a href='javascript:window.hit=1'>html link</a>", "[js](javascript:window.hit=1)", "[js2](JaVaScRiPt:window.hit=1)", "[data](data:text/html,<script>window.hit=1</script>)",
  "[tab](java\\tscript:window.hit=1)", "[entity](&#106;avascript:window.hit=1)", "[vb](vbscript:x)", "<javascript:window.hit=1>", "[own](/v1/status)", "[file](file:///etc/passwd)",
  "![pixel](https://evil.test/pixel.png)", "![x](x\" onerror=\"window.hit=1)", "<style>body{display:none}</style>", "<link rel=stylesheet href=https://evil.test/x.css>",
  "<form action=https://evil.test><input name=q><button>go</button></form>", "<base href=https://evil.test/>", "<meta http-equiv=refresh content='0;url=https://evil.test'>",
  "<div style='position:fixed;inset:0'>cover</div>", "<details open ontoggle=window.hit=1>", "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=window.hit=1&gt;\">",
  "```html\n<img src=x onerror=window.hit=1>\n```", "```\"><img src=x onerror=window.hit=1>\ncode\n```", "|<img src=x onerror=window.hit=1>|b|\n|-|-|\n|<script>window.hit=1</script>|x|",
  "# <img src=x onerror=window.hit=1>", "<div id=input>", "<p id=thread name=thread class=notice>", "https://evil.test/<img src=x onerror=window.hit=1>", "[title](https://ok.test \"<img src=x onerror=window.hit=1>\")",
].join("\n\n");

const paragraph = (i) => `Paragraph ${i}: ${"words and *more* words with `code`, ".repeat(6)}end.\n\n`;
const BIG = Array.from({ length: 400 }, (_, i) => (i % 40 === 39 ? `\`\`\`cpp\n${"int value = compute(1, 2); // line\n".repeat(40)}\`\`\`\n\n` : paragraph(i))).join("");

let server;
before(async () => {
  assert.ok(BIG.length > 100_000);
  server = await fakeServer([
    { last: "markdown", text: MARKDOWN, cut: 7, delay_ms: 1 },
    { last: "open fence", text: "```cpp\nint one;\nint two; int three", cut: 4, delay_ms: 60 },
    { last: "hostile", thinking: HOSTILE, text: HOSTILE, cut: 5 },
    { last: "big", text: BIG, cut: 60, delay_ms: 1 },
    { last: "one block", text: "```cpp\n" + "int value = compute(1, 2); // line\n".repeat(3000) + "```\n", cut: 200, delay_ms: 1 },
    { last: "endless", text: BIG, cut: 60, delay_ms: 2, repeat: 100 },
    { text: "plain" },
  ]);
});

test("Markdown becomes what it means, and what came in pieces is the same as what came at once", async () => {
  const page = await open(server);
  await ask(page, "markdown");
  await done(page);
  const answer = answers(page).locator(".markdown").last();
  assert.equal(await answer.locator("h2").innerText(), "Title");
  assert.deepEqual(await answer.locator("p").first().evaluate((p) => [...p.children].map((e) => e.tagName)), ["EM", "CODE", "STRONG", "DEL", "A"]);
  assert.equal(await answer.locator("ul > li > ul > li").innerText(), "nested");
  assert.equal(await answer.locator("li").first().innerText(), "☑ done");
  assert.equal(await answer.locator("ol").getAttribute("start"), "3");
  assert.equal(await answer.locator("blockquote").innerText(), "quoted");
  assert.equal(await answer.locator("td").last().evaluate((cell) => getComputedStyle(cell).textAlign), "right");
  assert.equal(await answer.locator("p br").count(), 1);
  const link = answer.locator("a");
  assert.deepEqual([await link.getAttribute("href"), await link.getAttribute("target"), await link.getAttribute("rel")],
    ["https://example.com/late", "_blank", "noopener noreferrer nofollow"]);
  assert.ok(await answer.locator(".hljs-keyword").count() > 0, "code has its colours");
  const streamed = await answer.evaluate((node) => node.innerHTML);
  await page.reload();
  await until(() => answers(page).count(), 1);
  assert.equal(await answer.evaluate((node) => node.innerHTML), streamed);
  await page.finish();
});

test("Code that is cut off is code, while it comes and when the answer ends in it", async () => {
  const page = await open(server);
  await ask(page, "open fence");
  await until(() => answers(page).locator(".markdown").last().innerText(), /two/);
  assert.match(await answers(page).locator("pre").innerText(), /^int one;\nint two/);
  await done(page);
  assert.equal(await answers(page).locator("pre").innerText(), "int one;\nint two; int three");
  assert.equal(await answers(page).locator("p:visible").count(), 0);
  await page.finish();
});

test("Copy gives the code as it was written, tabs included, and the answer as markdown", async () => {
  const page = await open(server);
  await ask(page, "markdown");
  await done(page);
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  await page.getByRole("button", { name: "Copy the code" }).first().click();
  await until(clipboard, 'def f(x):\n    return "<b>" + x  # <script>');
  assert.equal(await page.locator(".code-copy").first().innerText(), "Copied");
  await page.getByRole("button", { name: "Copy the code" }).last().click();
  await until(clipboard, "all:\n\ttouch a\tb");
  await page.getByRole("button", { name: "Copy the answer" }).click();
  await until(clipboard, MARKDOWN);
  await page.finish();
});

test("Hostile markup stays text, loads nothing and runs nothing, streamed and after a reload", async () => {
  const page = await open(server);
  await ask(page, "hostile");
  await page.locator(".thinking summary").click();
  await done(page);
  for (const when of ["streamed", "reloaded"]) {
    const found = await page.evaluate(() => {
      const thread = document.getElementById("thread");
      return {
        hit: window.hit,
        tags: [...new Set([...thread.querySelectorAll(".markdown *")].map((node) => node.tagName.toLowerCase()))],
        handlers: [...thread.querySelectorAll("*")].filter((node) => [...node.attributes].some((a) => /^on|^style$/.test(a.name))).length,
        links: [...thread.querySelectorAll("a")].map((a) => a.getAttribute("href")),
        named: thread.querySelectorAll("[id], [name]").length,
        base: document.baseURI,
      };
    });
    assert.equal(found.hit, undefined, when);
    assert.equal(found.handlers, 0, when);
    assert.equal(found.named, 0, when);
    for (const tag of ["img", "script", "iframe", "style", "link", "form", "input", "base", "meta", "math", "details", "object"]) {
      assert.ok(!found.tags.includes(tag), `${tag}, ${when}`);
    }
    assert.ok(found.links.length > 0, when);
    for (const link of found.links) assert.match(link, /^https:\/\/(evil|ok)\.test(\/|$)/, when);
    assert.ok(found.base.startsWith(server.url));
    assert.match(await answers(page).innerText(), /<script>window\.hit=1<\/script>/);
    await page.reload();
    await until(() => answers(page).count(), 1);
    await page.locator(".thinking summary").click();
  }
  await page.finish();
});

test("The policy lets nothing through that the page does not need", async () => {
  const page = await open(server, { expected: [/Content Security Policy/, /TrustedHTML|TrustedScript/] });
  const policy = (await page.request.get(server.url)).headers()["content-security-policy"];
  assert.match(policy, /^default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:|data:/);
  const tried = await page.evaluate(async () => {
    const script = document.createElement("script");
    script.append("window.inline = 1");
    document.head.append(script);
    const outcome = {};
    try {
      document.getElementById("thread").innerHTML = "<b>x</b>";
      outcome.markup = "taken";
    } catch (error) {
      outcome.markup = error.name;
    }
    outcome.inline = window.inline ?? "refused";
    outcome.fetch = await fetch("http://localhost:1/").then(() => "sent", (error) => error.name);
    return outcome;
  });
  assert.deepEqual(tried, { markup: "TypeError", inline: "refused", fetch: "TypeError" });
  await page.finish();
});

// Counts frames, the longest time between two of them, and how often a block of markdown is drawn.
async function watch(page) {
  await page.evaluate(() => {
    const seen = (window.seen = { frames: 0, longest: 0, drawn: 0 });
    let last = performance.now();
    const frame = (now) => {
      seen.frames++;
      seen.longest = Math.max(seen.longest, now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    new MutationObserver((records) => {
      for (const record of records) for (const node of record.addedNodes) if (node.classList?.contains("block")) seen.drawn++;
    }).observe(document.getElementById("thread"), { childList: true, subtree: true });
  });
}

for (const [name, length, drawsPerFrame] of [["big", BIG.length, 3], ["one block", 100_000, 0]]) {
  test(`A hundred kilobytes stream smoothly: ${name}`, async () => {
    const page = await open(server);
    await watch(page);
    await ask(page, name);
    await page.waitForSelector("#send:not([hidden])", { timeout: 60_000 });
    const { frames, longest, drawn } = await page.evaluate(() => window.seen);
    const blocks = await answers(page).locator(".block").count();
    // What is complete is drawn once; only the end is drawn again.
    assert.ok(drawn <= blocks + drawsPerFrame * frames + 2, `${drawn} blocks were drawn for ${blocks} in ${frames} frames`);
    assert.ok(frames > 10);
    // Whatever else this machine does at the time is in it.
    assert.ok(longest < 2000, `a frame took ${longest.toFixed(0)} ms`);
    const shown = await answers(page).locator(".markdown").last().evaluate((node) => node.textContent.length);
    assert.ok(shown > 0.85 * length, `${shown} characters are shown`);
    const end = await page.locator("#scroller").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
    assert.ok(end < 100, "the end is in view");
    await page.finish();
  });
}

test("Who scrolls up while an answer comes is left there", async () => {
  const page = await open(server);
  await ask(page, "endless");
  await until(() => page.locator("#scroller").evaluate((box) => box.scrollHeight > 3 * box.clientHeight), true);
  await page.locator("#scroller").hover();
  await page.mouse.wheel(0, -1500);
  await page.locator("#to-end").waitFor();
  const top = await page.locator("#scroller").evaluate((box) => box.scrollTop);
  const size = await page.locator("#scroller").evaluate((box) => box.scrollHeight);
  await until(() => page.locator("#scroller").evaluate((box, was) => box.scrollHeight > was + 500, size), true);
  assert.ok(Math.abs(await page.locator("#scroller").evaluate((box) => box.scrollTop) - top) < 400);
  await page.click("#to-end");
  await until(() => page.locator("#scroller").evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 200), true);
  await page.click("#stop");
  await page.finish();
});

test("Tool calls are shown with their values, also while their arguments are incomplete", async () => {
  const page = await open(server);
  const chunks = [
    { tool_calls: [{ index: 0, id: "call_1", function: { name: "get_weather", arguments: "" } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"city": "<b>Oak' } }] },
    { tool_calls: [{ index: 0, function: { arguments: 'dale</b>", "days": 2}' } }] },
  ].map((delta) => `data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`);
  // The page has no tools of its own, so the server sends calls only to those that have.
  await page.route(/chat\/completions/, (route) => route.fulfill({
    contentType: "text/event-stream",
    body: ": hello\r\n\r\n" + chunks.join("") + 'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n',
  }));
  await ask(page, "weather");
  await done(page);
  assert.equal(await page.locator(".call p").innerText(), "Tool call get_weather");
  assert.deepEqual(await page.locator(".call dt").allInnerTexts(), ["city", "days"]);
  assert.deepEqual(await page.locator(".call dd").allInnerTexts(), ["<b>Oakdale</b>", "2"]);
  await page.finish();
});
