// What the server is doing now. Numbers are the server's own; a part it does not tell is not shown.

import { ServerError, fetchStatus } from "./api";
import { Core, Sparkline, StackedBar, deviceTone, fillTable, layersText, type Segment } from "./charts";
import { byId, el, setText } from "./dom";
import { bytes, clock, count, duration, percent, plural, rate } from "./format";
import type { DeviceStatus, FinishedRequest, RunningRequest, StageBytes, Status } from "./status";

const POLL_MS = { watched: 1_000, unwell: 2_000, calm: 8_000, hidden: 30_000 };
const RATE_WINDOW_MS = 2_500;

interface Sample {
  time: number;  // ms
  read: number;
  generated: number;
}

// A number with a name, and its last minute where that makes sense.
class Figure {
  readonly node: HTMLElement;
  private readonly value = el("span", { class: "value" });
  private readonly detail = el("span", { class: "detail" });
  private readonly spark: Sparkline | null;

  constructor(name: string, unit: string, spark: boolean) {
    this.spark = spark ? new Sparkline(`${name}, ${unit}`) : null;
    this.node = el("div", { class: "figure" }, el("h2", {}, name),
      el("p", {}, this.value, unit ? el("span", { class: "unit" }, unit) : null), this.detail, this.spark?.node);
  }

  update(value: number, text: string, detail: string): void {
    this.spark?.push(value);
    setText(this.value, text);
    setText(this.detail, detail);
  }

  get peak(): number {
    return this.spark?.peak ?? 0;
  }
}

class DeviceCard {
  readonly node: HTMLElement;
  private readonly name = el("h3");
  private readonly facts = el("p", { class: "facts" });
  private readonly bar = new StackedBar();
  private readonly legend = el("ul", { class: "legend" });

  constructor() {
    this.node = el("article", { class: "device" }, this.name, this.facts, this.bar.node, this.legend);
  }

  update(device: DeviceStatus, tone: number, layers: string, planned: StageBytes | undefined): void {
    this.name.replaceChildren(el("span", { class: `swatch tone-${tone}` }), device.name || device.id);
    this.node.className = `device tone-of-${tone}`;
    const total = (device.memory_mib ?? 0) * 2 ** 20;
    const facts = [device.id, device.architecture !== device.id && device.architecture, total && bytes(total), layers];
    setText(this.facts, facts.filter(Boolean).join(" · "));
    const segments = segmentsOf(device, planned, total);
    const whole = total || segments.reduce((sum, segment) => sum + segment.value, 0);
    const hidden = segments.length === 0;
    this.bar.node.hidden = hidden;
    this.bar.update(segments, whole, `Memory of ${device.id}: ${segments.map((s) => `${s.label} ${bytes(s.value)}`).join(", ")}`);
    this.legend.replaceChildren(...segments.map((segment) => el("li", {},
      el("span", { class: `swatch part ${segment.kind}` }), `${segment.label} `, el("b", {}, bytes(segment.value)))));
  }
}

function segmentsOf(device: DeviceStatus, planned: StageBytes | undefined, total: number): Segment[] {
  const segments: Segment[] = [];
  const add = (kind: string, label: string, value: number | undefined) => {
    if (value && value > 0) segments.push({ kind, label, value });
  };
  if (planned) {
    add("weights", "weights", (planned.dense ?? 0) + (planned.embedding ?? 0) + (planned.head ?? 0) + (planned.draft ?? 0));
    add("experts", "experts", planned.experts);
    add("cache", "keys and values", (planned.cache ?? 0) + (planned.state ?? 0));
    add("workspace", "workspace", planned.workspace);
  }
  const ours = segments.reduce((sum, segment) => sum + segment.value, 0);
  if (total && device.memory_free_mib !== undefined) {
    const free = device.memory_free_mib * 2 ** 20;
    add("others", segments.length ? "others" : "used", total - free - ours);
    add("free", "free", Math.min(free, total - ours));
  } else if (total && planned?.free_before !== undefined) {
    add("others", "others, at the start", total - planned.free_before);
    add("free", "left free", planned.free_before - ours);
  }
  return segments;
}

function stageText(request: RunningRequest): string {
  if (request.stage === "reading") return `reading ${percent(request.prompt_read, request.prompt_tokens)}`;
  return request.stage;
}

function endpointText(path: string): string {
  return path.replace(/^\/(v1\/)?/, "");
}

function recentRow(request: FinishedRequest): string[] {
  const reused = request.reused_tokens ?? 0;
  const read = request.prompt_tokens - reused;
  const known = request.prompt_ms !== undefined && request.decode_ms !== undefined;
  return [
    clock(request.finished), endpointText(request.endpoint), request.outcome, count(request.prompt_tokens),
    known ? count(reused) : "–", count(request.generated_tokens),
    known && request.prompt_ms ? rate((read * 1000) / request.prompt_ms) : "–",
    known && request.decode_ms ? rate((request.generated_tokens * 1000) / request.decode_ms) : "–",
    duration(request.seconds),
  ];
}

export class Monitor {
  // Called with every status, and with null when there is none.
  onStatus: (status: Status | null, problem: ServerError | null) => void = () => {};

  private readonly generating = new Figure("Generating", "tokens/s", true);
  private readonly reading = new Figure("Reading prompts", "tokens/s", true);
  private readonly queue = new Figure("Running", "", true);
  private readonly experts = new Figure("Expert cache hits", "%", true);
  private readonly drafts = new Figure("Drafts accepted", "%", true);
  private readonly core = new Core();
  private readonly cards = new Map<string, DeviceCard>();
  private samples: Sample[] = [];
  private lastExperts = { hits: 0, lookups: 0 };
  private lastDrafts = { drafted: 0, accepted: 0 };
  private visible = false;
  private unwell = true;
  private timer = 0;
  private asking = false;

  constructor(private readonly key: () => string) {
    byId("figures").append(this.generating.node, this.reading.node, this.queue.node, this.experts.node, this.drafts.node);
    byId("core-box").append(this.core.node);
    document.addEventListener("visibilitychange", () => this.again());
  }

  start(): void {
    this.again();
  }

  setVisible(visible: boolean): void {
    this.visible = visible;
    this.again();
  }

  // Asks now, and later as often as it makes sense.
  again(): void {
    clearTimeout(this.timer);
    void this.poll();
  }

  private async poll(): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    try {
      const status = await fetchStatus(this.key());
      this.unwell = status.status === "loading" || status.status === "failed";
      this.onStatus(status, null);
      this.show(status);
    } catch (error) {
      this.unwell = true;
      this.samples = [];
      this.onStatus(null, error instanceof ServerError ? error : new ServerError("The server's status cannot be read."));
    }
    this.asking = false;
    const pause = document.hidden ? POLL_MS.hidden : this.visible ? POLL_MS.watched : this.unwell ? POLL_MS.unwell : POLL_MS.calm;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.poll(), pause);
  }

  private show(status: Status): void {
    const engine = status.engine ?? {};
    const activity = status.activity;
    this.showRates(status);
    this.showRatio(this.experts, engine.experts && { part: engine.experts.hits, all: engine.experts.lookups },
      this.lastExperts.hits, this.lastExperts.lookups, "experts");
    if (engine.experts) this.lastExperts = engine.experts;
    this.showRatio(this.drafts, engine.drafts && { part: engine.drafts.accepted, all: engine.drafts.drafted },
      this.lastDrafts.accepted, this.lastDrafts.drafted, "tokens");
    if (engine.drafts) this.lastDrafts = engine.drafts;
    this.showDevices(status);
    this.showRequests(activity?.requests, activity?.recent);

    const plan = engine.plan;
    byId("plan").hidden = !plan?.lines?.length;
    setText(byId("plan-lines"), plan?.lines?.join("\n") ?? "");
    fillList("plan-warnings", plan?.warnings ?? []);
    fillList("plan-rejected", plan?.rejected?.map((one) => `${one.what}: ${one.why}`) ?? []);
    byId("rejected-box").hidden = !plan?.rejected?.length;
    byId("not-built").hidden = !engine.not_built?.length;
    fillList("not-built-list", engine.not_built ?? []);
  }

  private showRates(status: Status): void {
    const { activity, running, waiting } = status;
    this.generating.node.hidden = this.reading.node.hidden = !activity;
    if (activity) {
      const now: Sample = { time: performance.now(), read: activity.read_tokens, generated: activity.generated_tokens };
      const before = this.samples[0];
      // Counters that went back belong to a server that has been started again.
      if (before && (now.read < before.read || now.generated < before.generated)) this.samples = [];
      this.samples.push(now);
      while (this.samples.length > 2 && now.time - (this.samples[1]?.time ?? 0) > RATE_WINDOW_MS) this.samples.shift();
      const from = this.samples[0] ?? now;
      const seconds = (now.time - from.time) / 1000;
      const speed = (delta: number) => (seconds > 0 ? delta / seconds : 0);
      const generated = speed(now.generated - from.generated);
      const read = speed(now.read - from.read);
      this.generating.update(generated, rate(generated), `${count(now.generated)} since the start`);
      this.reading.update(read, rate(read), `${count(now.read)} since the start`);
    }
    this.queue.node.hidden = running === undefined;
    this.queue.update(running ?? 0, count(running ?? 0), waiting ? `${count(waiting)} waiting` : "nobody waits");
  }

  private showRatio(figure: Figure, now: { part: number; all: number } | undefined, partBefore: number, allBefore: number, noun: string): void {
    figure.node.hidden = !now;
    if (!now) return;
    const all = now.all - allBefore;
    const recent = all > 0 ? (100 * (now.part - partBefore)) / all : now.all > 0 ? (100 * now.part) / now.all : 0;
    figure.update(recent, now.all > 0 ? recent.toFixed(1) : "–", `${percent(now.part, now.all)} of ${plural(now.all, noun.replace(/s$/, ""))}`);
  }

  private showDevices(status: Status): void {
    const devices = status.engine?.devices ?? [];
    const layers = status.engine?.layers ?? [];
    const ids = devices.map((device) => device.id);
    byId("devices").hidden = devices.length === 0;
    this.core.node.hidden = layers.length === 0;
    this.core.update(layers, ids);
    setText(byId("core-text"), layers.length ? `Layers ${layersText(layers)}` : "");
    const planned = status.engine?.plan?.stages !== undefined;
    setText(byId("devices-note"), [planned ? "Memory as planned when the model was placed." : "",
      status.engine?.self_tests === "passed" ? "Every device has passed its self-tests." : ""].filter(Boolean).join(" "));
    const box = byId("device-cards");
    for (const device of devices) {
      let card = this.cards.get(device.id);
      if (!card) {
        card = new DeviceCard();
        this.cards.set(device.id, card);
        box.append(card.node);
      }
      const own = layers.filter((range) => range.device === device.id);
      const text = own.map((range) => (range.first === range.last ? `layer ${range.first}` : `layers ${range.first}–${range.last}`)).join(", ");
      card.update(device, deviceTone(ids, device.id), text, status.engine?.plan?.stages?.find((stage) => stage.device === device.id)?.bytes);
    }
    for (const [id, card] of this.cards) {
      if (ids.includes(id)) continue;
      card.node.remove();
      this.cards.delete(id);
    }
  }

  private showRequests(requests: RunningRequest[] | undefined, recent: FinishedRequest[] | undefined): void {
    byId("running").hidden = !requests;
    byId("recent").hidden = !recent;
    const running = requests ?? [];
    fillTable(byId("running-rows"), running.map((request) => [
      stageText(request), endpointText(request.endpoint), count(request.prompt_tokens), count(request.generated_tokens), duration(request.seconds)]));
    byId("running-rows").querySelectorAll("tr").forEach((row, index) => {
      const request = running[index];
      const cell = row.firstElementChild;
      if (!request || !cell) return;
      row.dataset.stage = request.stage;
      cell.querySelector("progress")?.remove();
      if (request.stage !== "reading") return;
      cell.append(el("progress", { max: request.prompt_tokens, value: request.prompt_read, "aria-label": "Prompt read" }));
    });
    byId("running-table").hidden = running.length === 0;
    byId("running-none").hidden = running.length > 0;
    fillTable(byId("recent-rows"), (recent ?? []).map(recentRow));
    byId("recent-table").hidden = !recent?.length;
    byId("recent-none").hidden = Boolean(recent?.length);
  }
}

function fillList(id: string, texts: string[]): void {
  const list = byId(id);
  list.hidden = texts.length === 0;
  while (list.children.length > texts.length) list.lastElementChild?.remove();
  texts.forEach((text, index) => setText(list.children[index] ?? list.appendChild(el("li")), text));
}
