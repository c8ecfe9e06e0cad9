// The pictures of the README, into docs/images: page_test.py screenshots. Everything they show is scripted here.
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { before } from "node:test";
import { answers, ask, done, fakeServer, open, test, until } from "./harness.mjs";

const FOLDER = process.env.STRATA_IMAGES;
const LARGEST = 300_000;
const SIZE = { width: 1280, height: 860 };
const GB = 1e9;

const EXPLANATION = `Hyper-connections widen the residual stream: instead of **one** vector per token a block reads a mix of *n* streams and writes back to all of them.

## What changes

1. The read is a weighted sum over the streams.
2. The write goes to every stream, each with a weight of its own.
3. A small matrix mixes the streams between blocks.

| | residual | hyper-connections |
|:--|--:|--:|
| streams | 1 | *n* |
| more weights per block | 0 | *n*² + 2*n* |

\`\`\`python
def step(streams, block, read, write, mix):
    """One block over n residual streams."""
    x = (read[:, None] * streams).sum(axis=0)
    y = block(norm(x))                      # attention or experts
    return mix @ streams + write[:, None] * y
\`\`\`

With \`n = 1\` and unit weights this is the plain residual again.`;

const stage = (device, dense, experts, cache, workspace, free) => (
  { device, bytes: { dense: dense * GB, experts: experts * GB, cache: cache * GB, workspace: workspace * GB, free_before: free * GB } });

const SCRIPT = {
  id: "Qwen3.8-Flash-Next",
  context: 32768,
  engine: {
    devices: [
      { id: "cuda:0", architecture: "sm_86", name: "GeForce RTX 3090", memory_mib: 24576 },
      { id: "hip:0", architecture: "gfx1100", name: "Radeon RX 7900 XTX", memory_mib: 24560 },
      { id: "cpu", architecture: "x86-64", name: "Ryzen 9 7950X", memory_mib: 95900 },
    ],
    layers: [{ device: "cuda:0", first: 0, last: 19 }, { device: "hip:0", first: 20, last: 41 }, { device: "cpu", first: 42, last: 47 }],
    self_tests: "passed",
    not_built: [],
    plan: {
      stages: [stage("cuda:0", 3.1, 15.9, 1.7, 1.2, 24.8), stage("hip:0", 3.3, 16.4, 1.9, 1.1, 25.2), stage("cpu", 1.6, 6.2, 0.6, 0.5, 88)],
      lines: ["layer split auto: K=20,42", "layers 0-19 (cuda:0), 20-41 (hip:0), 42-47 (cpu), two hand-offs per window"],
    },
  },
  rules: [
    { last: "hyper-connections", progress: 8, prompt_delay_ms: 300, timed: true, whole_tokens: true, cut: 4, delay_ms: 18,
      thinking: "They want the idea and some code. A table helps to compare.", text: EXPLANATION },
    { last: "short", progress: 6, prompt_delay_ms: 900, timed: true, whole_tokens: true, cut: 4, delay_ms: 21, text: EXPLANATION.slice(0, 420) },
    { last: "long", progress: 12, prompt_delay_ms: 2600, timed: true, whole_tokens: true, cut: 4, delay_ms: 19, text: EXPLANATION.slice(0, 900) },
    { text: "Fine." },
  ],
};

const PAST = [["A regex for ISO dates", 0.001], ["Why is my loop not vectorised?", 1], ["Names for a sailing club", 1.2], ["Letter to the landlord", 3], ["Unit tests for the parser", 4]];

function history() {
  const conversations = PAST.map(([title, daysAgo], index) => {
    const time = Date.now() - daysAgo * 86_400_000;
    return { id: `past-${index}`, title, named: true, created: time, updated: time, messages: [{ id: `q-${index}`, parent: null, role: "user", text: title, created: time }], chosen: {} };
  });
  return { name: "past.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ format: "strata-conversations", version: 1, conversations })) };
}

async function picture(page, name) {
  const path = join(FOLDER, `${name}.png`);
  await page.screenshot({ path });
  assert.ok(statSync(path).size < LARGEST, `${path} has ${statSync(path).size} bytes`);
}

let server;
before(async () => {
  server = await fakeServer(SCRIPT);
});

test("The chat, light", async () => {
  const page = await open(server, { viewport: SIZE, colorScheme: "light" });
  await page.setInputFiles("#import-file", history());
  await page.getByRole("button", { name: "Close this notice" }).click();
  await ask(page, "What are hyper-connections? Show me one step as code.");
  await done(page);
  await page.mouse.move(900, 5);
  await picture(page, "page-chat");
  await page.finish();
});

test("The monitor, dark", async () => {
  const page = await open(server, { path: "/#monitor", viewport: SIZE, colorScheme: "dark" });
  await page.setInputFiles("#import-file", history());
  await page.getByRole("button", { name: "Close this notice" }).click();
  const end = Date.now() + 58_000;
  const post = (path, body) => fetch(server.url + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).then((answer) => answer.text());
  const message = (text, words) => [{ role: "user", content: `${"context ".repeat(words)}${text}` }];
  const client = async (path, make) => {
    while (Date.now() < end) await post(path, make());
  };
  const clients = [
    client("/v1/chat/completions", () => ({ messages: message("short", 260) })),
    client("/v1/messages", () => ({ max_tokens: 4000, messages: message("long", 900) })),
    client("/v1/responses", () => ({ input: message("short", 90) })),
  ];
  await page.waitForTimeout(50_000);
  await until(() => page.locator("#running-rows tr").first().innerText(), /^generating/);
  await page.waitForTimeout(1500);
  await picture(page, "page-monitor");
  await Promise.all(clients);
  assert.equal(await answers(page).count(), 0);
  await page.finish();
});
