// The list of conversations: search, rename, delete with a way back, files out and in.

import { readConversation, type Conversation } from "./conversation";
import { byId, el, iconButton, notify, setText } from "./dom";
import { dayName, plural } from "./format";
import type { Store, Summary } from "./store";

export interface SidebarActions {
  open(id: string): void;
  isOpen(id: string): boolean;
  isRunning(id: string): boolean;
  // Before a conversation is deleted: nothing may write to it any more.
  leave(id: string): void;
}

const SEARCH_DELAY_MS = 120;
const FORMAT = "strata-conversations";

export class Sidebar {
  private readonly list = byId("conversations");
  private readonly search = byId<HTMLInputElement>("search");
  private readonly nothing = byId("no-conversations");
  private summaries: Summary[] = [];
  private found: Set<string> | null = null;  // null: no search
  private timer = 0;

  constructor(private readonly store: Store, private readonly actions: SidebarActions) {
    this.search.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.runSearch(), SEARCH_DELAY_MS);
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.search.value) {
        event.stopPropagation();
        this.search.value = "";
        void this.runSearch();
      } else if (event.key === "ArrowDown") {
        event.preventDefault();
        this.links()[0]?.focus();
      }
    });
    this.list.addEventListener("keydown", (event) => this.moveFocus(event));
    byId("export").addEventListener("click", () => void this.exportAll());
    const file = byId<HTMLInputElement>("import-file");
    byId("import").addEventListener("click", () => file.click());
    file.addEventListener("change", () => {
      const chosen = file.files?.[0];
      file.value = "";
      if (chosen) void this.importFile(chosen);
    });
  }

  async refresh(): Promise<void> {
    this.summaries = await this.store.list();
    if (this.found) this.found = await this.store.search(this.search.value.trim());
    this.draw();
  }

  // Marks what is open and what is running, without reading anything.
  mark(): void {
    for (const row of this.list.querySelectorAll<HTMLElement>("li[data-id]")) {
      const id = row.dataset.id ?? "";
      const link = row.querySelector("a");
      if (this.actions.isOpen(id)) link?.setAttribute("aria-current", "page");
      else link?.removeAttribute("aria-current");
      row.classList.toggle("open", this.actions.isOpen(id));
      row.classList.toggle("running", this.actions.isRunning(id));
      const state = row.querySelector(".state");
      if (state) setText(state, this.actions.isRunning(id) ? "answering" : "");
    }
  }

  private async runSearch(): Promise<void> {
    const text = this.search.value.trim();
    this.found = text ? await this.store.search(text) : null;
    if (text !== this.search.value.trim()) return;
    this.draw();
  }

  private draw(): void {
    const focused = (document.activeElement?.closest("li[data-id]") as HTMLElement | null)?.dataset.id;
    if (this.list.querySelector(".renaming")) return;  // what is being typed must not go away
    const shown = this.summaries.filter((summary) => !this.found || this.found.has(summary.id));
    const nodes: Node[] = [];
    let day = "";
    for (const summary of shown) {
      const name = dayName(summary.updated);
      if (name !== day) nodes.push(el("li", { class: "day" }, el("h2", {}, (day = name))));
      nodes.push(this.row(summary));
    }
    this.list.replaceChildren(...nodes);
    this.nothing.hidden = shown.length > 0;
    setText(this.nothing, this.found ? "Nothing found." : "Conversations appear here. They stay in this browser.");
    byId<HTMLButtonElement>("export").disabled = this.summaries.length === 0;
    if (focused) this.list.querySelector<HTMLElement>(`li[data-id="${CSS.escape(focused)}"] a`)?.focus();
    this.mark();
  }

  private row(summary: Summary): HTMLElement {
    const title = summary.title || "Untitled";
    const row: HTMLLIElement = el("li", {}, el("a", { href: `#c=${summary.id}`, title }, el("span", { class: "name" }, title), el("span", { class: "state visually-hidden" })),
      el("span", { class: "row-actions" },
        iconButton("edit", `Rename “${title}”`, () => this.rename(row, summary)),
        iconButton("trash", `Delete “${title}”`, () => void this.remove(summary))));
    row.dataset.id = summary.id;
    return row;
  }

  private links(): HTMLElement[] {
    return [...this.list.querySelectorAll<HTMLElement>("li[data-id] > a")];
  }

  private moveFocus(event: KeyboardEvent): void {
    const links = this.links();
    const at = links.indexOf(document.activeElement as HTMLElement);
    const row = document.activeElement?.closest<HTMLElement>("li[data-id]");
    const summary = this.summaries.find((one) => one.id === row?.dataset.id);
    if (at < 0 || !row || !summary) return;
    if (event.key === "ArrowDown") links[at + 1]?.focus();
    else if (event.key === "ArrowUp") (links[at - 1] ?? this.search).focus();
    else if (event.key === "Delete") void this.remove(summary);
    else if (event.key === "F2") this.rename(row, summary);
    else return;
    event.preventDefault();
  }

  private rename(row: HTMLElement, summary: Summary): void {
    const field = el("input", { class: "renaming", "aria-label": "Name of the conversation", maxlength: 200 });
    field.value = summary.title;
    let over = false;
    const finish = async (keep: boolean) => {
      if (over) return;
      over = true;
      const title = field.value.trim();
      field.remove();
      if (keep && title && title !== summary.title) {
        const conversation = await this.store.get(summary.id);
        if (conversation) {
          conversation.title = title;
          conversation.named = true;
          await this.store.put(conversation);
          this.onRenamed(conversation);
        }
      }
      await this.refresh();
      this.list.querySelector<HTMLElement>(`li[data-id="${CSS.escape(summary.id)}"] a`)?.focus();
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && !event.isComposing) void finish(true);
      else if (event.key === "Escape") void finish(false);
    });
    field.addEventListener("blur", () => void finish(true));
    row.replaceChildren(field);
    field.focus();
    field.select();
  }

  // A conversation may be held by others, who must learn its new name.
  onRenamed: (conversation: Conversation) => void = () => {};

  private async remove(summary: Summary): Promise<void> {
    const conversation = await this.store.get(summary.id);
    if (!conversation) return;
    const links = this.links();
    const at = links.findIndex((link) => link.parentElement?.dataset.id === summary.id);
    const next = links[at + 1] ?? links[at - 1];
    this.actions.leave(summary.id);
    await this.store.remove(summary.id);
    next?.focus();
    await this.refresh();
    notify(`“${summary.title || "Untitled"}” is deleted.`, {
      label: "Undo",
      run: () => void this.store.put(conversation).then(() => this.refresh()),
    });
  }

  private async exportAll(): Promise<void> {
    const conversations = await this.store.all();
    const text = JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const day = new Date().toISOString().slice(0, 10);
    el("a", { href: address, download: `strata-conversations-${day}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  private async importFile(file: File): Promise<void> {
    let conversations: unknown[];
    try {
      const read = JSON.parse(await file.text());
      if (read?.format !== FORMAT || !Array.isArray(read.conversations)) throw new Error();
      conversations = read.conversations;
    } catch {
      notify(`${file.name} is not a file of exported conversations.`);
      return;
    }
    let taken = 0;
    let older = 0;
    let damaged = 0;
    for (const one of conversations) {
      const conversation = readConversation(one);
      if (!conversation) {
        damaged++;
        continue;
      }
      const here = await this.store.get(conversation.id);
      if (here && here.updated >= conversation.updated) {
        older++;
        continue;
      }
      await this.store.put(conversation);
      taken++;
    }
    await this.refresh();
    notify([`${plural(taken, "conversation")} imported`, older ? `${older} here already` : "", damaged ? `${damaged} damaged and left out` : ""]
      .filter(Boolean).join(", ") + ".");
  }
}
