// Conversations in the browser's database. Where the browser offers none or has no room left, they
// stay in memory, and whoever listens is told why.

import type { Conversation } from "./conversation";

export interface Summary {
  id: string;
  title: string;
  created: number;
  updated: number;
}

const DATABASE = "strata";
const SUMMARIES = "summaries";
const CONVERSATIONS = "conversations";

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function committed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error("the transaction was aborted"));
  });
}

function openDatabase(): Promise<IDBDatabase> {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(SUMMARIES, { keyPath: "id" });
    request.result.createObjectStore(CONVERSATIONS, { keyPath: "id" });
  };
  return done(request);
}

function summaryOf({ id, title, created, updated }: Conversation): Summary {
  return { id, title, created, updated };
}

export class Store {
  // Called with the id of a conversation that another tab has changed.
  onForeignChange: (id: string) => void = () => {};
  // Called once for each new reason why something cannot be stored.
  onProblem: (sentence: string) => void = () => {};

  private database: IDBDatabase | null = null;
  private readonly memory = new Map<string, Conversation>();
  private channel: BroadcastChannel | null = null;
  private told = "";

  // Never fails.
  async open(): Promise<void> {
    try {
      this.database = await openDatabase();
      this.database.onversionchange = () => this.database?.close();
      this.channel = new BroadcastChannel(DATABASE);
      this.channel.onmessage = (event) => this.onForeignChange(String(event.data));
    } catch {
      this.problem("This browser does not let the page store anything: conversations last until the page is closed. Export keeps them.");
    }
  }

  // Newest first.
  async list(): Promise<Summary[]> {
    const stored: Summary[] = this.database
      ? await done(this.database.transaction(SUMMARIES).objectStore(SUMMARIES).getAll()) : [];
    const all = new Map(stored.map((summary) => [summary.id, summary]));
    for (const conversation of this.memory.values()) all.set(conversation.id, summaryOf(conversation));
    return [...all.values()].sort((a, b) => b.updated - a.updated);
  }

  async get(id: string): Promise<Conversation | undefined> {
    const kept = this.memory.get(id);
    if (kept || !this.database) return kept;
    return done(this.database.transaction(CONVERSATIONS).objectStore(CONVERSATIONS).get(id));
  }

  async put(conversation: Conversation): Promise<void> {
    if (this.database) {
      try {
        const transaction = this.database.transaction([SUMMARIES, CONVERSATIONS], "readwrite");
        transaction.objectStore(SUMMARIES).put(summaryOf(conversation));
        transaction.objectStore(CONVERSATIONS).put(conversation);
        await committed(transaction);
        this.memory.delete(conversation.id);
        this.channel?.postMessage(conversation.id);
        return;
      } catch (error) {
        const full = error instanceof DOMException && error.name === "QuotaExceededError";
        this.problem(full
          ? "The browser's storage for this page is full: what is new lasts until the page is closed. Delete old conversations, or export them."
          : "The browser could not store this conversation: it lasts until the page is closed. Export keeps it.");
      }
    }
    this.memory.set(conversation.id, conversation);
  }

  async remove(id: string): Promise<void> {
    this.memory.delete(id);
    if (!this.database) return;
    const transaction = this.database.transaction([SUMMARIES, CONVERSATIONS], "readwrite");
    transaction.objectStore(SUMMARIES).delete(id);
    transaction.objectStore(CONVERSATIONS).delete(id);
    await committed(transaction);
    this.channel?.postMessage(id);
  }

  async all(): Promise<Conversation[]> {
    const found: Conversation[] = [];
    await this.each((conversation) => found.push(conversation));
    return found;
  }

  // Ids of the conversations in which `text` occurs, however written.
  async search(text: string): Promise<Set<string>> {
    const wanted = text.toLocaleLowerCase();
    const found = new Set<string>();
    await this.each((conversation) => {
      const holds = (part: string) => part.toLocaleLowerCase().includes(wanted);
      if (holds(conversation.title) || conversation.messages.some((message) => holds(message.text))) found.add(conversation.id);
    });
    return found;
  }

  // One after the other, so that a long history is never in memory as a whole.
  private async each(visit: (conversation: Conversation) => void): Promise<void> {
    for (const conversation of this.memory.values()) visit(conversation);
    if (!this.database) return;
    const request = this.database.transaction(CONVERSATIONS).objectStore(CONVERSATIONS).openCursor();
    await new Promise<void>((resolve, reject) => {
      request.onerror = () => reject(request.error);
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) return resolve();
        const conversation = cursor.value as Conversation;
        if (!this.memory.has(conversation.id)) visit(conversation);
        cursor.continue();
      };
    });
  }

  private problem(sentence: string): void {
    if (this.told === sentence) return;
    this.told = sentence;
    this.onProblem(sentence);
  }
}
