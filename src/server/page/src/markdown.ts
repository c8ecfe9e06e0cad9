// Markdown that may be hostile and may still be growing. HTML in it is shown as text, everything goes
// through the sanitiser, and nothing in it makes the browser load anything.

import DOMPurify from "dompurify";
import { marked, type Flags, type Options, type Token, type TokenList } from "marked";
import { copyFrom, el, icon } from "./dom";
import { highlight } from "./highlight";

const SANITISER = {
  ALLOWED_TAGS: ["a", "blockquote", "br", "code", "del", "div", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
  ALLOWED_ATTR: ["align", "class", "href", "start", "title"],
  ALLOW_DATA_ATTR: false,
  ADD_URI_SAFE_ATTR: ["align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  RETURN_DOM_FRAGMENT: true as const,
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

class PlainRenderer extends marked.Renderer {
  // Code is put in as text afterwards; see finishCode().
  override code(): string {
    return "<pre></pre>";
  }
  override html(html: string): string {
    return escapeHtml(html);
  }
  // The page has the first level.
  override heading(text: string, level: number): string {
    const tag = `h${Math.min(level + 1, 6)}`;
    return `<${tag}>${text}</${tag}>`;
  }
  override checkbox(checked: boolean): string {
    return checked ? "☑ " : "☐ ";
  }
  override table(header: string, body: string): string {
    return `<div class="table"><table><thead>${header}</thead><tbody>${body}</tbody></table></div>`;
  }
  override tablecell(content: string, flags: Flags): string {
    const tag = flags.header ? "th" : "td";
    return `<${tag}${flags.align ? ` align="${flags.align}"` : ""}>${content}</${tag}>`;
  }
  // A picture would be loaded from wherever the model says.
  override image(href: string | null, title: string | null, text: string): string {
    return this.link(href, title, text || "picture");
  }
}

const OPTIONS: Options = {
  ...marked.getDefaults(), gfm: true, breaks: true, headerIds: false, mangle: false, renderer: new PlainRenderer(),
};

function codeText(pre: HTMLElement, code: string, language: string): void {
  const coloured = highlight(code, language);
  const node = el("code");
  if (coloured === null) node.textContent = code;
  else node.append(DOMPurify.sanitize(coloured, { ...SANITISER, ALLOWED_TAGS: ["span"] }));
  pre.replaceChildren(node);
}

function codeBlock(code: string, language: string): HTMLElement {
  const pre = el("pre", { tabindex: 0, "aria-label": language ? `Code, ${language}` : "Code" });
  codeText(pre, code, language.toLowerCase());
  const copy: HTMLButtonElement = el("button", {
    type: "button", class: "code-copy", "aria-label": "Copy the code",
    click: () => void copyFrom(copy, pre.textContent ?? ""),
  }, icon("copy"), el("span", { class: "label" }, "Copy"));
  return el("div", { class: "code" }, el("div", { class: "code-bar" }, el("span", {}, language), copy), pre);
}

// Code in the order of the document.
function* codeTokens(tokens: Token[]): Generator<Token> {
  for (const token of tokens) {
    if (token.type === "code") yield token;
    const inside = token as Token & { tokens?: Token[]; items?: Token[] };
    yield* codeTokens(inside.items ?? inside.tokens ?? []);
  }
}

function languageOf(token: Token): string {
  return (token.lang ?? "").trim().split(/\s/, 1)[0]?.slice(0, 32) ?? "";
}

function render(token: Token): HTMLElement {
  const block = el("div", { class: "block" });
  if (token.type === "code") {
    block.append(codeBlock(codeOf(token), languageOf(token)));
    return block;
  }
  block.append(DOMPurify.sanitize(marked.Parser.parse([token], OPTIONS), SANITISER));
  const codes = [...codeTokens([token])];
  block.querySelectorAll("pre").forEach((pre, index) => {
    const code = codes[index];
    if (code) pre.replaceWith(codeBlock(codeOf(code), languageOf(code)));
  });
  for (const link of block.querySelectorAll("a")) {
    if (!link.hasAttribute("href")) {
      link.replaceWith(...link.childNodes);
      continue;
    }
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const table of block.querySelectorAll<HTMLElement>(".table")) {
    table.tabIndex = 0;
    table.setAttribute("role", "region");
    table.setAttribute("aria-label", "Table");
  }
  return block;
}

// The lexer turns tabs at the beginning of lines into spaces, which must not happen to code, and
// counts on plain line ends. Tabs of fenced code pass it as a character that nobody uses.
const TAB = "\ue009";

function normalised(text: string): string {
  if (!/[\t\r]/.test(text)) return text;
  let fence = "";
  return text.split(/\r\n|\r|\n/).map((line) => {
    const mark = /^\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})/.exec(line)?.[1] ?? "";
    if (fence && mark.startsWith(fence) && line.trim() === mark) fence = "";
    else if (!fence && mark) fence = mark;
    else if (fence) return line.replaceAll("\t", TAB);
    return line.replace(/^[ \t]+/, (blank) => blank.replaceAll("\t", "    "));
  }).join("\n");
}

// The lexer takes a fence that is still open for code only where its last line has ended.
function lex(text: string): TokenList {
  return new marked.Lexer(OPTIONS).lex(text.endsWith("\n") ? text : text + "\n");
}

function codeOf(token: Token): string {
  return (token.text ?? "").replaceAll(TAB, "\t");
}

interface Block {
  raw: string;
  type: string;
  node: HTMLElement;
}

// Shows a text that grows at its end: blocks that are complete are read and drawn once. At the end
// the text is read as a whole, since what comes later (the address of a link) may change what came
// before, and only what differs is drawn again.
export class MarkdownView {
  readonly node = el("div", { class: "markdown" });
  private settled: Block[] = [];
  private open: Block[] = [];
  private settledLength = 0;
  private text = "";

  update(given: string, complete: boolean): void {
    const text = normalised(given);
    if (!text.startsWith(this.text)) this.forget();
    if (text === this.text && !complete) return;
    this.text = text;
    if (complete) {
      const tokens = lex(text);
      // Addresses that stand elsewhere may belong to any block.
      if (Object.keys(tokens.links).length > 0) this.forget();
      this.settled = this.redraw([...this.settled, ...this.open], tokens);
      this.open = [];
      this.settledLength = text.length;
      return;
    }
    const tokens: Token[] = lex(text.slice(this.settledLength));
    // The last two may still change: a blank line and what stands before it.
    const settled = Math.max(0, tokens.length - 2);
    this.open = this.redraw(this.open, tokens);
    const now = this.open.splice(0, settled);
    for (const block of now) this.settledLength += block.raw.length;
    this.settled.push(...now);
  }

  private forget(): void {
    this.node.replaceChildren();
    this.settled = [];
    this.open = [];
    this.settledLength = 0;
  }

  // Keeps the blocks that are as they were; `old` are the last nodes of the view.
  private redraw(old: Block[], tokens: Token[]): Block[] {
    const blocks: Block[] = [];
    tokens.forEach((token, index) => {
      const before = old[index];
      if (before && before.raw === token.raw && before.type === token.type) {
        blocks.push(before);
        return;
      }
      const pre = before?.type === "code" && token.type === "code" ? before.node.querySelector("pre") : null;
      if (before && pre && before.node.querySelector(".code-bar span")?.textContent === languageOf(token)) {
        growCode(pre, token);
        blocks.push({ raw: token.raw, type: token.type, node: before.node });
        return;
      }
      const node = render(token);
      if (before) before.node.replaceWith(node);
      else this.node.append(node);
      blocks.push({ raw: token.raw, type: token.type, node });
    });
    for (const block of old.slice(tokens.length)) block.node.remove();
    return blocks;
  }
}

// Colours of long code wait until it is complete; until then lines are only added to it.
const LIVE_COLOURS = 6_000;

function growCode(pre: HTMLElement, token: Token): void {
  const code = codeOf(token);
  const closed = /\n\s*(`{3,}|~{3,})\s*$/.test(token.raw);
  if (closed || code.length < LIVE_COLOURS) {
    codeText(pre, code, languageOf(token).toLowerCase());
    return;
  }
  const node = pre.firstElementChild;
  const shown = node?.textContent ?? "";
  if (node && code.startsWith(shown)) node.append(code.slice(shown.length));
  else codeText(pre, code, "");
}
