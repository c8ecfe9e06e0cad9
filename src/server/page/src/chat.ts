// The conversation that is open, and the answers that are coming, which may belong to others.

import { ServerError, streamChat } from "./api";
import {
  addMessage, childrenOf, choose, isEmptyAnswer, newConversation, removeMessage, shownPath, toRequest,
  type Conversation, type Message, type ToolCall,
} from "./conversation";
import { announce, byId, el, setText } from "./dom";
import { count, percent } from "./format";
import { AnswerView, QuestionView, type Live, type MessageActions, type View } from "./message_view";
import { requestFields, type Settings } from "./settings";
import type { Store } from "./store";

interface Run {
  conversation: Conversation;
  answer: Message;
  abort: AbortController;
  live: Live;
  saved: number;  // Unix ms
}

const FIRST_COST_MS = 16;
const SAVE_EVERY_MS = 1_000;
const NEAR_END_PX = 80;

export class Chat {
  // The list of conversations, their titles or their states have changed.
  onChange: () => void = () => {};
  conversation: Conversation = newConversation();
  contextLength = 0;  // tokens; 0 until the server has told

  private readonly runs = new Map<string, Run>();  // by conversation
  private readonly views = new Map<string, View>();
  private readonly thread = byId("thread");
  private readonly scroller = byId("scroller");
  private readonly toEnd = byId<HTMLButtonElement>("to-end");
  private following = true;
  private frame = 0;
  private frameCost = 0;
  private lastFrame = 0;

  constructor(private readonly store: Store, private readonly settings: Settings, private readonly actions: { saveKey(key: string): void }) {
    this.scroller.addEventListener("scroll", () => {
      const left = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
      this.following = left < NEAR_END_PX;
      this.toEnd.hidden = this.following;
    }, { passive: true });
    this.toEnd.addEventListener("click", () => this.scrollToEnd());
    // Times tick also while nothing comes.
    setInterval(() => this.run && this.schedule(), 500);
    window.addEventListener("pagehide", () => {
      for (const run of this.runs.values()) void this.store.put(run.conversation);
    });
  }

  get run(): Run | undefined {
    return this.runs.get(this.conversation.id);
  }

  isRunning(id: string): boolean {
    return this.runs.has(id);
  }

  start(): void {
    this.show(newConversation());
  }

  async open(id: string): Promise<boolean> {
    const conversation = this.runs.get(id)?.conversation ?? await this.store.get(id);
    if (!conversation) return false;
    this.show(conversation);
    return true;
  }

  send(text: string): void {
    if (this.run) return;
    const path = shownPath(this.conversation);
    let parent = path[path.length - 1];
    // A question to which nothing came is answered together with the new one.
    if (parent && isEmptyAnswer(parent)) {
      removeMessage(this.conversation, parent);
      parent = path[path.length - 2];
    }
    this.answer(addMessage(this.conversation, parent?.id ?? null, "user", text));
  }

  stop(): void {
    this.run?.abort.abort();
  }

  // Ends what writes to a conversation that is about to be deleted.
  drop(id: string): void {
    const run = this.runs.get(id);
    this.runs.delete(id);
    run?.abort.abort();
  }

  rename(conversation: Conversation): void {
    for (const held of [this.conversation, this.runs.get(conversation.id)?.conversation]) {
      if (held?.id === conversation.id) Object.assign(held, { title: conversation.title, named: true });
    }
  }

  // After the thread was not on the page.
  redraw(): void {
    this.refresh();
  }

  // The last question of the user, to be edited.
  editLast(): void {
    const last = shownPath(this.conversation).filter((message) => message.role === "user").pop();
    const view = last && this.views.get(last.id);
    if (view instanceof QuestionView && !this.run) view.edit();
  }

  copyLast(): string {
    return shownPath(this.conversation).filter((message) => message.role === "assistant").pop()?.text ?? "";
  }

  scrollToEnd(): void {
    this.following = true;
    this.toEnd.hidden = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  private show(conversation: Conversation): void {
    this.conversation = conversation;
    for (const message of conversation.messages) {
      // The page was closed while it came.
      const unfinished = message.role === "assistant" && !message.outcome && !this.runs.has(conversation.id);
      if (unfinished) message.outcome = "interrupted";
    }
    this.views.clear();
    this.thread.replaceChildren();
    this.refresh();
    this.scrollToEnd();
    this.onChange();
  }

  private readonly messageActions: MessageActions = {
    edit: (message, text) => {
      if (!this.run) this.answer(addMessage(this.conversation, message.parent, "user", text));
    },
    answerAgain: (message) => {
      const question = this.parentOf(message);
      if (!this.run && question) this.answer(question);
    },
    retry: (message) => {
      const question = this.parentOf(message);
      if (this.run || !question) return;
      // What failed before it said anything is not worth a version of its own.
      if (isEmptyAnswer(message)) removeMessage(this.conversation, message);
      this.answer(question);
    },
    show: (sibling) => {
      choose(this.conversation, sibling);
      this.refresh();
      void this.save();
      const node = this.views.get(sibling.id)?.node;
      const forth = node?.querySelectorAll<HTMLButtonElement>(".branches button");
      [...(forth ?? [])].find((button) => !button.disabled)?.focus({ preventScroll: true });
      node?.scrollIntoView({ block: "nearest" });
    },
    saveKey: (key) => this.actions.saveKey(key),
  };

  private parentOf(message: Message): Message | undefined {
    return this.conversation.messages.find((one) => one.id === message.parent);
  }

  private answer(question: Message): void {
    const conversation = this.conversation;
    choose(conversation, question);
    const messages = toRequest(pathTo(conversation, question), this.settings.system);
    const answer = addMessage(conversation, question.id, "assistant", "");
    const run: Run = { conversation, answer, abort: new AbortController(), live: { phase: "sending", since: Date.now() }, saved: Date.now() };
    this.runs.set(conversation.id, run);
    this.refresh();
    this.scrollToEnd();
    void this.save();
    announce("Answering");
    void this.follow(run, { ...requestFields(this.settings), messages });
  }

  private async follow(run: Run, fields: Record<string, unknown>): Promise<void> {
    const { answer } = run;
    try {
      for await (const event of streamChat(fields, this.settings.key, run.abort.signal)) {
        switch (event.kind) {
          case "open":
            this.enter(run, "waiting");
            break;
          case "progress":
            if (!answer.text && !answer.reasoning) {
              this.enter(run, "reading");
              run.live.read = event.read;
              run.live.total = event.total;
            }
            break;
          case "reasoning":
            this.enter(run, "thinking");
            answer.reasoning = (answer.reasoning ?? "") + event.text;
            break;
          case "text":
            this.enter(run, "writing");
            answer.text += event.text;
            break;
          case "call":
            this.enter(run, "writing");
            addCall(answer, event.index, event.part);
            break;
          case "finish":
            answer.outcome = event.reason === "length" ? "length" : "complete";
            break;
          case "stats":
            answer.stats = { ...answer.stats, ...event.stats };
            break;
        }
        this.changed(run);
      }
      answer.outcome ??= "complete";
      announce("The answer is complete");
    } catch (error) {
      if (run.abort.signal.aborted) {
        answer.outcome = "stopped";
        announce("Stopped");
      } else {
        answer.outcome = "failed";
        answer.failure = failureOf(error);
      }
    }
    this.enter(run, "writing");  // the time of thinking ends here at the latest
    if (!this.isCurrent(run)) return;
    run.conversation.updated = Date.now();
    this.runs.delete(run.conversation.id);
    await this.store.put(run.conversation);
    if (this.conversation === run.conversation) this.refresh();
    this.onChange();
  }

  private enter(run: Run, phase: Live["phase"]): void {
    if (run.live.phase === phase) return;
    const thought = run.live.phase === "thinking" ? Date.now() - run.live.since : 0;
    if (thought) run.answer.thinkingMs = (run.answer.thinkingMs ?? 0) + thought;
    run.live = { phase, since: Date.now() };
  }

  // False once its conversation has been deleted.
  private isCurrent(run: Run): boolean {
    return this.runs.get(run.conversation.id) === run;
  }

  private changed(run: Run): void {
    if (!this.isCurrent(run)) return;
    if (this.conversation === run.conversation) this.schedule();
    if (Date.now() - run.saved < SAVE_EVERY_MS) return;
    run.saved = Date.now();
    void this.store.put(run.conversation);
  }

  private async save(): Promise<void> {
    await this.store.put(this.conversation);
    this.onChange();
  }

  // Draws at most once a frame, and takes at most a quarter of the time however long an answer is.
  private schedule(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      if (now - this.lastFrame < 3 * this.frameCost) return this.schedule();
      this.lastFrame = now;
      const begin = performance.now();
      this.refreshAnswer();
      // A draw during which the machine stood still says little about the next.
      this.frameCost = Math.min(performance.now() - begin, 2 * this.frameCost + FIRST_COST_MS);
    });
  }

  private refreshAnswer(): void {
    const run = this.run;
    if (!run) return;
    this.views.get(run.answer.id)?.refresh(run.live, childrenOf(this.conversation, run.answer.parent));
    if (this.following) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  private refresh(): void {
    const path = shownPath(this.conversation);
    const run = this.run;
    const nodes = path.map((message) => {
      let view = this.views.get(message.id);
      if (!view) {
        view = message.role === "user" ? new QuestionView(message, this.messageActions) : new AnswerView(message, this.messageActions);
        this.views.set(message.id, view);
      }
      view.refresh(run && (message === run.answer || message.role === "user") ? run.live : null, childrenOf(this.conversation, message.parent));
      return view.node;
    });
    for (const node of [...this.thread.children]) if (!nodes.includes(node as HTMLElement)) node.remove();
    nodes.forEach((node, index) => {
      if (this.thread.children[index] !== node) this.thread.insertBefore(node, this.thread.children[index] ?? null);
    });
    byId("empty").hidden = path.length > 0;
    byId("send").hidden = run !== undefined;
    byId("stop").hidden = run === undefined;
    this.showContext(path);
    if (this.following) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  // How full the context was at the end of the last answer.
  private showContext(path: Message[]): void {
    const stats = path.filter((message) => message.stats?.promptTokens !== undefined).pop()?.stats;
    const used = (stats?.promptTokens ?? 0) + (stats?.tokens ?? 0);
    const node = byId("context");
    node.hidden = !used || !this.contextLength;
    if (node.hidden) return;
    const meter = node.querySelector("meter") ?? node.appendChild(el("meter", { min: 0, max: 1, high: 0.9, "aria-label": "Context used" }));
    meter.value = used / this.contextLength;
    let text = node.querySelector("span");
    if (!text) node.append(text = el("span"));
    setText(text, `${count(used)} of ${count(this.contextLength)} tokens (${percent(used, this.contextLength)})`);
  }
}

function pathTo(conversation: Conversation, message: Message): Message[] {
  const byName = new Map(conversation.messages.map((one) => [one.id, one]));
  const path: Message[] = [];
  for (let one: Message | undefined = message; one; one = one.parent === null ? undefined : byName.get(one.parent)) path.unshift(one);
  return path;
}

function addCall(answer: Message, index: number, part: Partial<ToolCall>): void {
  const calls = (answer.calls ??= []);
  const call = (calls[index] ??= { id: "", name: "", arguments: "" });
  if (part.id) call.id = part.id;
  if (part.name) call.name += part.name;
  if (part.arguments) call.arguments += part.arguments;
}

function failureOf(error: unknown): { message: string; status?: number } {
  if (!(error instanceof ServerError)) return { message: `The page failed: ${error instanceof Error ? error.message : String(error)}` };
  const sentence = /[.!?]$/.test(error.message) ? error.message : `${error.message}.`;
  const wait = error.retryAfter ? ` The server asks to wait ${error.retryAfter} s.` : "";
  return { message: sentence + wait, ...(error.status !== undefined && { status: error.status }) };
}
