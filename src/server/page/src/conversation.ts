// A conversation is a tree: an edited question or another answer is a sibling of the first. `chosen`
// says which child of a message is shown.

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;  // JSON
}

// What the server told about an answer; what it did not tell is absent.
export interface Stats {
  promptTokens?: number;
  reusedTokens?: number;
  promptRate?: number;  // tokens/s
  tokens?: number;
  thinkingTokens?: number;
  rate?: number;        // tokens/s
}

export interface Failure {
  message: string;
  status?: number;      // of HTTP; absent when a stream broke off or nothing was reached
}

export type Outcome = "complete" | "length" | "stopped" | "failed" | "interrupted";

export interface Message {
  id: string;
  parent: string | null;
  role: "user" | "assistant";
  text: string;
  created: number;      // Unix ms
  reasoning?: string;
  thinkingMs?: number;
  calls?: ToolCall[];
  stats?: Stats;
  outcome?: Outcome;    // of an answer that has ended
  failure?: Failure;
}

export interface Conversation {
  id: string;
  title: string;
  named: boolean;       // by the user
  created: number;
  updated: number;
  messages: Message[];  // parents before children
  chosen: Record<string, string>;
}

const ROOT = "root";
const TITLE_LENGTH = 60;

export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(): Conversation {
  const now = Date.now();
  return { id: newId(), title: "", named: false, created: now, updated: now, messages: [], chosen: {} };
}

export function childrenOf(conversation: Conversation, parent: string | null): Message[] {
  return conversation.messages.filter((message) => message.parent === parent);
}

// The messages that are shown, from the first to the last.
export function shownPath(conversation: Conversation): Message[] {
  const byParent = new Map<string, Message[]>();
  for (const message of conversation.messages) {
    const key = message.parent ?? ROOT;
    const list = byParent.get(key);
    if (list) list.push(message);
    else byParent.set(key, [message]);
  }
  const path: Message[] = [];
  for (let key = ROOT; ;) {
    const children = byParent.get(key);
    if (!children) return path;
    const next = children.find((child) => child.id === conversation.chosen[key]) ?? children[children.length - 1];
    if (!next) return path;
    path.push(next);
    key = next.id;
  }
}

export function choose(conversation: Conversation, message: Message): void {
  conversation.chosen[message.parent ?? ROOT] = message.id;
}

export function addMessage(conversation: Conversation, parent: string | null, role: Message["role"], text: string): Message {
  const message: Message = { id: newId(), parent, role, text, created: Date.now() };
  conversation.messages.push(message);
  choose(conversation, message);
  conversation.updated = message.created;
  if (!conversation.named && role === "user" && parent === null) conversation.title = titleOf(text);
  return message;
}

// `message` must have no children.
export function removeMessage(conversation: Conversation, message: Message): void {
  conversation.messages = conversation.messages.filter((one) => one !== message);
  const key = message.parent ?? ROOT;
  if (conversation.chosen[key] === message.id) delete conversation.chosen[key];
}

export function isEmptyAnswer(message: Message): boolean {
  return message.role === "assistant" && !message.text && !message.reasoning && !message.calls?.length;
}

function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > TITLE_LENGTH ? line.slice(0, TITLE_LENGTH - 1).trimEnd() + "…" : line;
}

// The messages as the server wants them. An answer of which nothing came is left out, and questions
// that follow each other for that reason become one.
export function toRequest(path: Message[], system: string): object[] {
  const out: { role: string; content: string; reasoning_content?: string }[] = [];
  if (system.trim()) out.push({ role: "system", content: system });
  for (const message of path) {
    const last = out[out.length - 1];
    if (message.role === "user") {
      if (last?.role === "user") last.content += "\n\n" + message.text;
      else out.push({ role: "user", content: message.text });
    } else if (message.text || message.reasoning) {
      out.push({ role: "assistant", content: message.text, ...(message.reasoning ? { reasoning_content: message.reasoning } : {}) });
    }
  }
  return out;
}

// ---- conversations from files

function isText(value: unknown, limit = 50_000_000): value is string {
  return typeof value === "string" && value.length <= limit;
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

function readStats(value: unknown): Stats | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const given = value as Record<string, unknown>;
  const stats: Stats = {};
  for (const name of ["promptTokens", "reusedTokens", "promptRate", "tokens", "thinkingTokens", "rate"] as const) {
    const number = given[name];
    if (isTime(number)) stats[name] = number;
  }
  return stats;
}

function readMessage(value: unknown): Message | null {
  if (typeof value !== "object" || value === null) return null;
  const given = value as Record<string, unknown>;
  const { id, parent, role, text, created } = given;
  if (!isText(id, 100) || !(parent === null || isText(parent, 100)) || !isText(text) || !isTime(created)) return null;
  if (role !== "user" && role !== "assistant") return null;
  const message: Message = { id, parent, role, text, created };
  if (isText(given.reasoning)) message.reasoning = given.reasoning;
  if (isTime(given.thinkingMs)) message.thinkingMs = given.thinkingMs;
  const stats = readStats(given.stats);
  if (stats) message.stats = stats;
  const outcomes: Outcome[] = ["complete", "length", "stopped", "failed", "interrupted"];
  const outcome = outcomes.find((one) => one === given.outcome);
  if (outcome) message.outcome = outcome;
  const failure = given.failure as Record<string, unknown> | undefined;
  if (typeof failure === "object" && failure !== null && isText(failure.message)) {
    message.failure = { message: failure.message, ...(isTime(failure.status) ? { status: failure.status } : {}) };
  }
  if (Array.isArray(given.calls)) {
    message.calls = given.calls.filter((call) => isText(call?.id) && isText(call?.name) && isText(call?.arguments))
      .map((call) => ({ id: call.id, name: call.name, arguments: call.arguments }));
  }
  return message;
}

// A conversation that somebody may have edited by hand, or null when it is none.
export function readConversation(value: unknown): Conversation | null {
  if (typeof value !== "object" || value === null) return null;
  const given = value as Record<string, unknown>;
  if (!isText(given.id, 100) || !isText(given.title, 10_000) || !isTime(given.created) || !isTime(given.updated)) return null;
  if (!Array.isArray(given.messages)) return null;
  const messages: Message[] = [];
  const known = new Set<string>();
  for (const one of given.messages) {
    const message = readMessage(one);
    // Parents first and every id once: what else is a tree without cycles?
    if (!message || known.has(message.id) || message.id === ROOT || (message.parent !== null && !known.has(message.parent))) return null;
    known.add(message.id);
    messages.push(message);
  }
  const chosen: Record<string, string> = {};
  if (typeof given.chosen === "object" && given.chosen !== null) {
    for (const [parent, child] of Object.entries(given.chosen)) {
      if (typeof child === "string" && known.has(child) && (parent === ROOT || known.has(parent))) chosen[parent] = child;
    }
  }
  return { id: given.id, title: given.title, named: given.named === true, created: given.created, updated: given.updated, messages, chosen };
}
