// One message on the page. It shows what its message says; what the user does with it is for others.

import { isEmptyAnswer, type Message, type ToolCall } from "./conversation";
import { copyFrom, el, iconButton, setText } from "./dom";
import { count, duration, percent, plural, rate } from "./format";
import { MarkdownView } from "./markdown";

export interface MessageActions {
  edit(message: Message, text: string): void;
  answerAgain(message: Message): void;
  retry(message: Message): void;
  show(sibling: Message): void;
  saveKey(key: string): void;
}

// What is known of an answer while it comes.
export interface Live {
  phase: "sending" | "waiting" | "reading" | "thinking" | "writing";
  since: number;         // of the phase; Unix ms
  read?: number;         // prompt tokens
  total?: number;
}

export interface View {
  readonly node: HTMLElement;
  refresh(live: Live | null, siblings: Message[]): void;
}

// "< 2/3 >" between versions of a message.
class Branches {
  readonly node = el("span", { class: "branches", role: "group", "aria-label": "Versions", hidden: true });
  private readonly place = el("span", { class: "place" });
  private readonly back = iconButton("left", "Previous version", () => this.step(-1));
  private readonly forth = iconButton("right", "Next version", () => this.step(1));
  private siblings: Message[] = [];

  constructor(private readonly message: Message, private readonly actions: MessageActions) {
    this.node.append(this.back, this.place, this.forth);
  }

  refresh(siblings: Message[], busy: boolean): void {
    this.siblings = siblings;
    const index = siblings.indexOf(this.message);
    this.node.hidden = siblings.length < 2;
    setText(this.place, `${index + 1} / ${siblings.length}`);
    this.back.disabled = busy || index <= 0;
    this.forth.disabled = busy || index === siblings.length - 1;
  }

  private step(by: number): void {
    const next = this.siblings[this.siblings.indexOf(this.message) + by];
    if (next) this.actions.show(next);
  }
}

export class QuestionView implements View {
  readonly node = el("article", { class: "message question", "aria-label": "You" });
  private readonly text = el("div", { class: "question-text" });
  private readonly branches: Branches;
  private readonly bar: HTMLElement;
  private editor: HTMLElement | null = null;

  constructor(private readonly message: Message, private readonly actions: MessageActions) {
    this.branches = new Branches(message, actions);
    const copy = iconButton("copy", "Copy the message", () => void copyFrom(copy, message.text));
    this.bar = el("div", { class: "bar" }, this.branches.node, copy, iconButton("edit", "Edit the message", () => this.edit(), "edit"));
    this.text.textContent = message.text;
    this.node.dataset.id = message.id;
    this.node.append(this.text, this.bar);
  }

  refresh(live: Live | null, siblings: Message[]): void {
    this.branches.refresh(siblings, live !== null);
    const edit = this.bar.querySelector<HTMLButtonElement>(".edit");
    if (edit) edit.disabled = live !== null;
  }

  edit(): void {
    if (this.editor) return;
    const field = el("textarea", { "aria-label": "The message, edited", rows: 3 });
    field.value = this.message.text;
    const close = () => {
      this.editor?.remove();
      this.editor = null;
      this.text.hidden = this.bar.hidden = false;
      this.node.classList.remove("editing");
      this.bar.querySelector<HTMLElement>(".edit")?.focus();
    };
    const send = () => {
      const text = field.value.trim();
      if (text) this.actions.edit(this.message, text);
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        send();
      }
    });
    this.editor = el("div", { class: "editor" }, field, el("div", { class: "editor-bar" },
      el("span", { class: "hint" }, "The first version stays; arrows lead back to it."),
      el("button", { type: "button", click: close }, "Cancel"),
      el("button", { type: "button", class: "primary", click: send }, "Send")));
    this.text.hidden = this.bar.hidden = true;
    this.node.classList.add("editing");
    this.node.append(this.editor);
    field.style.height = `${Math.min(field.scrollHeight + 2, 400)}px`;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

function callNode(call: ToolCall): HTMLElement {
  let values: [string, unknown][] = [];
  try {
    const read: unknown = JSON.parse(call.arguments || "{}");
    if (typeof read === "object" && read !== null) values = Object.entries(read);
  } catch {
    values = [["arguments", call.arguments]];  // still coming, or damaged
  }
  const list = el("dl");
  for (const [name, value] of values) {
    list.append(el("dt", {}, name), el("dd", {}, typeof value === "string" ? value : JSON.stringify(value, null, 1)));
  }
  return el("div", { class: "call" }, el("p", {}, "Tool call ", el("code", {}, call.name || "…")), list);
}

const OUTCOMES: Record<string, string> = {
  length: "Ended at the longest answer allowed, or because the context is full.",
  stopped: "Stopped.",
  interrupted: "Interrupted: the page was closed while this answer came.",
};

export class AnswerView implements View {
  readonly node = el("article", { class: "message answer", "aria-label": "Answer" });
  private readonly thoughts = new MarkdownView();
  private readonly thinkingTitle = el("summary");
  private readonly thinking = el("details", { class: "thinking", hidden: true }, this.thinkingTitle, this.thoughts.node);
  private readonly answer = new MarkdownView();
  private readonly calls = el("div", { class: "calls", hidden: true });
  private readonly phase = el("p", { class: "phase", hidden: true });
  private readonly reading = el("progress", { class: "reading", hidden: true, "aria-label": "Prompt read", max: 1 });
  private readonly failure = el("div", { class: "failure", role: "alert", hidden: true });
  private readonly note = el("p", { class: "outcome", hidden: true });
  private readonly branches: Branches;
  private readonly stats = el("span", { class: "stats" });
  private readonly bar: HTMLElement;
  private shownFailure = "";
  private shownCalls = "";
  private complete = false;

  constructor(private readonly message: Message, private readonly actions: MessageActions) {
    this.branches = new Branches(message, actions);
    const copy = iconButton("copy", "Copy the answer", () => void copyFrom(copy, message.text));
    this.bar = el("div", { class: "bar" }, this.branches.node, copy,
      iconButton("retry", "Answer again", () => actions.answerAgain(message), "again"), this.stats);
    this.node.dataset.id = message.id;
    this.node.append(this.thinking, this.answer.node, this.calls, this.reading, this.phase, this.note, this.failure, this.bar);
    this.thinking.addEventListener("toggle", () => this.showThoughts());
  }

  refresh(live: Live | null, siblings: Message[]): void {
    this.complete = live === null;
    this.node.classList.toggle("live", live !== null);
    this.node.setAttribute("aria-busy", String(live !== null));
    this.showThinking(live);
    this.answer.update(this.message.text, this.complete);
    this.showCalls();
    this.showPhase(live);
    setText(this.note, this.message.text || this.message.reasoning || this.message.outcome !== "stopped"
      ? OUTCOMES[this.message.outcome ?? ""] ?? "" : "Stopped before it began.");
    this.note.hidden = live !== null || !this.note.textContent;
    this.showFailure(live);
    this.bar.hidden = live !== null || (isEmptyAnswer(this.message) && this.message.failure !== undefined && siblings.length < 2);
    this.branches.refresh(siblings, live !== null);
    const copy = this.bar.querySelector<HTMLElement>('[aria-label="Copy the answer"]');
    if (copy) copy.hidden = !this.message.text;
    setText(this.stats, this.statsText());
  }

  private showThinking(live: Live | null): void {
    this.thinking.hidden = !this.message.reasoning;
    if (!this.message.reasoning) return;
    const now = live?.phase === "thinking";
    const ms = this.message.thinkingMs ?? (now && live ? Date.now() - live.since : undefined);
    const time = ms === undefined ? "" : duration(ms / 1000);
    setText(this.thinkingTitle, now ? `Thinking… ${time}` : time ? `Thought for ${time}` : "Thoughts");
    this.thinking.classList.toggle("now", now);
    this.showThoughts();
  }

  // Folded thoughts cost nothing.
  private showThoughts(): void {
    if (this.thinking.open) this.thoughts.update(this.message.reasoning ?? "", this.complete);
  }

  private showCalls(): void {
    const calls = this.message.calls ?? [];
    const text = JSON.stringify(calls);
    if (text === this.shownCalls) return;
    this.shownCalls = text;
    this.calls.hidden = calls.length === 0;
    this.calls.replaceChildren(...calls.map(callNode));
  }

  private showPhase(live: Live | null): void {
    const reading = live?.phase === "reading" && live.total !== undefined && live.read !== undefined;
    this.reading.hidden = !reading;
    let text = "";
    if (live && reading) {
      this.reading.value = (live.read ?? 0) / Math.max(1, live.total ?? 1);
      text = `Reading the prompt: ${count(live.read ?? 0)} of ${plural(live.total ?? 0, "token")}, ${percent(live.read ?? 0, live.total ?? 0)}`;
    } else if (live?.phase === "sending") {
      text = "Sending…";
    } else if (live?.phase === "waiting") {
      text = `Waiting for its turn… ${duration((Date.now() - live.since) / 1000)}`;
    }
    setText(this.phase, text);
    this.phase.hidden = !text;
  }

  private showFailure(live: Live | null): void {
    const failure = live ? undefined : this.message.failure;
    const text = failure ? JSON.stringify(failure) : "";
    this.failure.hidden = !failure;
    if (text === this.shownFailure) return;
    this.shownFailure = text;
    if (!failure) return this.failure.replaceChildren();
    const retry = () => this.actions.retry(this.message);
    const button = el("button", { type: "button", class: "retry", click: retry }, "Try again");
    if (failure.status !== 401) {
      this.failure.replaceChildren(el("p", {}, failure.message), button);
      return;
    }
    const field = el("input", { type: "password", autocomplete: "off", "aria-label": "API key", placeholder: "API key", required: true });
    const form = el("form", {
      class: "key-form",
      submit: (event) => {
        event.preventDefault();
        this.actions.saveKey(field.value.trim());
        retry();
      },
    }, field, el("button", { type: "submit" }, "Save and try again"));
    this.failure.replaceChildren(el("p", {}, failure.message), form);
  }

  private statsText(): string {
    const { tokens, thinkingTokens, rate: speed, promptTokens, reusedTokens, promptRate } = this.message.stats ?? {};
    const parts: string[] = [];
    if (tokens !== undefined) parts.push(plural(tokens, "token") + (thinkingTokens ? ` (${count(thinkingTokens)} of thought)` : ""));
    if (speed !== undefined) parts.push(`${rate(speed)} tokens/s`);
    if (promptTokens !== undefined) {
      const details = [reusedTokens ? `${count(reusedTokens)} reused` : "", promptRate !== undefined ? `${rate(promptRate)}/s` : ""].filter(Boolean);
      parts.push(`prompt ${count(promptTokens)}${details.length ? ` (${details.join(", ")})` : ""}`);
    }
    return parts.join(" · ");
  }
}
