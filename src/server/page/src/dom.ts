// Elements from code: nothing here ever reads text as markup.

export type Child = Node | string | null | undefined | false;
type Listener = (event: Event) => void;
export type Attributes = Record<string, string | number | boolean | undefined | Listener>;

// A function is a listener of the event that the attribute's name says; `false` leaves one out.
function apply(node: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  apply(node, attributes);
  for (const child of children) if (child) node.append(child);
  return node;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Node[]): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(node, attributes);
  node.append(...children);
  return node;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element ${id}`);
  return node as T;
}

// Changes text only where it differs, so that screen readers and selections are left alone.
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

const ICONS = {
  plus: "M8 3v10M3 8h10",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  check: "M3 8.5l3.2 3.2L13 4.8",
  edit: "M3 13l.6-2.8 7.2-7.2 2.2 2.2-7.2 7.2zM9.2 4.6l2.2 2.2",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9",
  left: "M9.5 4L5.5 8l4 4",
  right: "M6.5 4l4 4-4 4",
  down: "M8 3v9.5M4 8.5l4 4 4-4",
  up: "M8 13V3.5M4 7.5l4-4 4 4",
  stop: "M4.5 4.5h7v7h-7z",
  sliders: "M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M8.5 3.5v3h3v-3zM4.5 9.5v3h3v-3z",
  key: "M6.8 9.2L13 3M10.5 5.5l2 2M7.5 10.8a2.4 2.4 0 1 1-4.8 0 2.4 2.4 0 0 1 4.8 0z",
  help: "M6 6.2a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.2M8 11.6v.2M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z",
} as const;
export type Icon = keyof typeof ICONS;

export function icon(name: Icon): SVGElement {
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

// A button that shows an icon only; its name is for assistive technology and the tooltip.
export function iconButton(name: Icon, label: string, click: Listener, className = ""): HTMLButtonElement {
  return el("button", { type: "button", class: `icon-button ${className}`.trim(), "aria-label": label, title: label, click }, icon(name));
}

// False when the browser forbids it.
export async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// Puts `text` on the clipboard and lets the button say for a moment whether that worked.
export async function copyFrom(button: HTMLButtonElement, text: string): Promise<void> {
  const before = button.getAttribute("aria-label") ?? "Copy";
  const label = button.querySelector(".label");
  const glyph = button.querySelector("svg");
  const copied = await toClipboard(text);
  const said = copied ? "Copied" : "The browser forbids it";
  if (label) label.textContent = said;
  else if (glyph && copied) glyph.replaceWith(icon("check"));
  button.setAttribute("aria-label", said);
  announce(said);
  setTimeout(() => {
    if (label) label.textContent = "Copy";
    else button.querySelector("svg")?.replaceWith(icon("copy"));
    button.setAttribute("aria-label", before);
  }, 1600);
}

// For those who do not see the page.
export function announce(text: string): void {
  byId("announcer").textContent = text;
}

export interface Action {
  label: string;
  run: () => void;
}

// A short notice at the edge of the page. It goes by itself, later if there is something to do.
export function notify(text: string, action?: Action): void {
  const close = () => notice.remove();
  const notice = el("div", { class: "notice" }, el("span", {}, text),
    action && el("button", { type: "button", class: "link", click: () => { close(); action.run(); } }, action.label),
    iconButton("close", "Close this notice", close));
  byId("notices").append(notice);
  setTimeout(close, action ? 10_000 : 6_000);
}
