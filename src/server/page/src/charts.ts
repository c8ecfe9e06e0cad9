// Small charts of the monitor. Text beside them says the same.

import { el, setText, svg } from "./dom";
import type { LayerRange } from "./status";

const SAMPLES = 60;
const WIDTH = 240;
const HEIGHT = 44;

// The last minute of a rate, one sample a second.
export class Sparkline {
  readonly node: SVGSVGElement;
  private readonly line = svg("path", { class: "spark-line" });
  private readonly area = svg("path", { class: "spark-area" });
  private readonly samples: number[] = [];

  constructor(private readonly label: string) {
    this.node = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
      svg("path", { class: "spark-base", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` }), this.area, this.line);
  }

  get peak(): number {
    return Math.max(0, ...this.samples);
  }

  push(value: number): void {
    this.samples.push(value);
    if (this.samples.length > SAMPLES) this.samples.shift();
    const top = this.peak || 1;
    const step = WIDTH / (SAMPLES - 1);
    const first = WIDTH - (this.samples.length - 1) * step;
    const points = this.samples.map((one, i) => `${(first + i * step).toFixed(1)} ${(HEIGHT - 1.5 - (HEIGHT - 4) * (one / top)).toFixed(1)}`);
    this.line.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M${points.join("L")}L${WIDTH} ${HEIGHT}L${first.toFixed(1)} ${HEIGHT}Z`);
    this.node.setAttribute("aria-label", `${this.label}, last minute: now ${value.toFixed(1)}, peak ${top.toFixed(1)}`);
  }
}

export interface Segment {
  kind: string;   // the class that has its colour
  label: string;
  value: number;
}

// Parts of a whole, in proportion; what is left stays empty.
export class StackedBar {
  readonly node = el("div", { class: "stack", role: "img" });

  update(segments: Segment[], total: number, description: string): void {
    while (this.node.children.length > segments.length) this.node.lastElementChild?.remove();
    segments.forEach((segment, index) => {
      const part = (this.node.children[index] ?? this.node.appendChild(el("span"))) as HTMLElement;
      part.className = `part ${segment.kind}`;
      part.style.width = `${(100 * segment.value) / Math.max(total, 1)}%`;
      part.title = segment.label;
    });
    this.node.setAttribute("aria-label", description);
  }
}

// The layers of the model as a drill core: one line each, in the colour of the device that has it.
export class Core {
  readonly node = el("div", { class: "core", role: "img" });
  private shown = "";

  update(layers: LayerRange[], devices: string[]): void {
    const key = JSON.stringify([layers, devices]);
    if (key === this.shown) return;
    this.shown = key;
    const lines: HTMLElement[] = [];
    for (const range of layers) {
      for (let layer = range.first; layer <= range.last; layer++) {
        lines.push(el("span", { class: `layer tone-${deviceTone(devices, range.device)}`, title: `layer ${layer}: ${range.device}` }));
      }
    }
    this.node.replaceChildren(...lines);
    this.node.setAttribute("aria-label", "Layers of the model: " + layersText(layers));
  }
}

export function layersText(layers: LayerRange[]): string {
  return layers.map((range) => `${range.first === range.last ? range.first : `${range.first}–${range.last}`} on ${range.device}`).join(", ");
}

const TONES = 6;

export function deviceTone(devices: string[], device: string): number {
  return Math.max(0, devices.indexOf(device)) % TONES;
}

// Rows of a table, changed in place.
export function fillTable(body: HTMLElement, rows: string[][]): void {
  while (body.children.length > rows.length) body.lastElementChild?.remove();
  rows.forEach((cells, index) => {
    const row = body.children[index] ?? body.appendChild(el("tr"));
    cells.forEach((text, column) => setText(row.children[column] ?? row.appendChild(el("td")), text));
  });
}
