import { ServerError } from "./api";
import { Chat } from "./chat";
import { Core } from "./charts";
import { byId, icon, notify, setText, toClipboard, type Icon } from "./dom";
import { count } from "./format";
import { Monitor } from "./monitor";
import { applyTheme, loadSettings, saveSettings } from "./settings";
import { SettingsDialog } from "./settings_dialog";
import { bindKeys } from "./shortcuts";
import { Sidebar } from "./sidebar";
import type { Status } from "./status";
import { Store } from "./store";

for (const node of document.querySelectorAll<HTMLElement>("[data-icon]")) node.prepend(icon(node.dataset.icon as Icon));

const settings = loadSettings();
applyTheme(settings.theme);

const store = new Store();
store.onProblem = (sentence) => {
  setText(byId("storage-problem"), sentence);
  byId("storage-problem").hidden = false;
};

let toldUnsaved = false;
const save = () => {
  applyTheme(settings.theme);
  if (!saveSettings(settings) && !toldUnsaved) {
    toldUnsaved = true;
    notify("This browser keeps no settings: they last until the page is closed.");
  }
  dialog.fill();
};
const saveKey = (key: string) => {
  settings.key = key;
  save();
  monitor.again();
};

const chat = new Chat(store, settings, { saveKey });
const sidebar = new Sidebar(store, {
  open: (id) => go(`#c=${id}`),
  isOpen: (id) => view === "chat" && chat.conversation.id === id,
  isRunning: (id) => chat.isRunning(id),
  leave: (id) => {
    chat.drop(id);
    if (chat.conversation.id === id) go("#new");
  },
});
const monitor = new Monitor(() => settings.key);
const dialog = new SettingsDialog(settings, save, () => monitor.again());

// ---- which view and which conversation: the fragment of the address

let view: "chat" | "monitor" = "chat";

function go(fragment: string): void {
  if (location.hash !== fragment) history.pushState(null, "", fragment);
  void route();
}

async function route(): Promise<void> {
  const fragment = location.hash;
  closeDrawer();
  view = fragment === "#monitor" ? "monitor" : "chat";
  if (fragment === "#new" || fragment === "") {
    chat.start();
    if (matchMedia("(pointer: fine)").matches) input.focus();
  } else if (fragment.startsWith("#c=")) {
    const id = fragment.slice(3);
    if (chat.conversation.id !== id && !await chat.open(id)) {
      notify("That conversation is not in this browser.");
      return go("#new");
    }
  }
  byId("chat").hidden = view !== "chat";
  byId("monitor").hidden = view !== "monitor";
  for (const [id, name] of [["to-chat", "chat"], ["to-monitor", "monitor"]] as const) {
    if (view === name) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  byId<HTMLAnchorElement>("to-chat").href = chat.conversation.messages.length ? `#c=${chat.conversation.id}` : "#new";
  monitor.setVisible(view === "monitor");
  if (view === "chat") chat.redraw();
  showTitle();
  sidebar.mark();
}

function showTitle(): void {
  const title = view === "monitor" ? "Monitor" : chat.conversation.title || "New chat";
  setText(byId("title"), title);
  document.title = view === "chat" && !chat.conversation.title ? "Strata" : `${title} – Strata`;
}

chat.onChange = () => {
  showTitle();
  void sidebar.refresh();
};
sidebar.onRenamed = (conversation) => {
  chat.rename(conversation);
  showTitle();
};
store.onForeignChange = (id) => {
  void sidebar.refresh();
  // An answer that comes here is the newer state.
  if (chat.conversation.id === id && !chat.run) void store.get(id).then((found) => found && chat.conversation.id === id && chat.open(id));
};

// ---- the field for the message

const input = byId<HTMLTextAreaElement>("input");

function fitInput(): void {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight}px`;
}

function submit(): void {
  const text = input.value.trim();
  if (!text || chat.run) return;
  input.value = "";
  fitInput();
  chat.send(text);
  history.replaceState(null, "", `#c=${chat.conversation.id}`);
  byId<HTMLAnchorElement>("to-chat").href = location.hash;
  showTitle();
}

input.addEventListener("input", fitInput);
input.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    submit();
  } else if (event.key === "ArrowUp" && !input.value) {
    event.preventDefault();
    chat.editLast();
  }
});
byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("stop").addEventListener("click", () => {
  chat.stop();
  input.focus();
});

// ---- the drawer of small screens, and what the buttons do

const menu = byId("menu");

function openDrawer(): void {
  document.body.classList.add("drawer");
  menu.setAttribute("aria-expanded", "true");
  byId("search").focus();
}

function closeDrawer(): void {
  if (!document.body.classList.contains("drawer")) return;
  document.body.classList.remove("drawer");
  menu.setAttribute("aria-expanded", "false");
  menu.focus();
}

const showShortcuts = () => byId<HTMLDialogElement>("shortcuts").showModal();
const newChat = () => {
  go("#new");
  closeDrawer();
  input.focus();
};
menu.addEventListener("click", () => (document.body.classList.contains("drawer") ? closeDrawer() : openDrawer()));
byId("scrim").addEventListener("click", closeDrawer);
byId("sidebar-close").addEventListener("click", closeDrawer);
byId("new-chat").addEventListener("click", newChat);
byId("settings-open").addEventListener("click", () => dialog.open());
byId("help-open").addEventListener("click", showShortcuts);
byId("banner-settings").addEventListener("click", () => dialog.open("key"));
for (const button of document.querySelectorAll<HTMLElement>("dialog .dialog-close")) {
  button.addEventListener("click", () => button.closest("dialog")?.close());
}

bindKeys({
  newChat,
  search: () => {
    if (getComputedStyle(menu).display !== "none" && !document.body.classList.contains("drawer")) openDrawer();
    byId<HTMLInputElement>("search").select();
    byId("search").focus();
  },
  monitor: () => go(view === "monitor" ? byId<HTMLAnchorElement>("to-chat").hash : "#monitor"),
  settings: () => dialog.open(),
  help: showShortcuts,
  message: () => {
    if (view !== "chat") go(byId<HTMLAnchorElement>("to-chat").hash);
    input.focus();
  },
  editLast: () => view === "chat" && chat.editLast(),
  copyLast: () => {
    const text = chat.copyLast();
    if (text) void toClipboard(text).then((copied) => notify(copied ? "The last answer is copied." : "The browser forbids to copy it."));
  },
  escape: () => {
    if (document.body.classList.contains("drawer")) closeDrawer();
    else if (chat.run) chat.stop();
    else (document.activeElement as HTMLElement | null)?.blur();
  },
});

// ---- how the server is

const emptyCore = new Core();
byId("empty-core").append(emptyCore.node);

function showModel(status: Status): void {
  const meta = status.model?.meta;
  chat.contextLength = meta?.n_ctx ?? chat.contextLength;
  const layers = status.engine?.layers ?? [];
  const devices = status.engine?.devices ?? [];
  emptyCore.update(layers, devices.map((device) => device.id));
  setText(byId("empty-model"), status.model?.id ?? "");
  const depth = layers.reduce((sum, range) => sum + range.last - range.first + 1, 0);
  setText(byId("empty-facts"), [
    depth ? `${depth} layers on ${devices.map((device) => device.name || device.id).join(" and ")}` : "",
    meta?.n_ctx ? `${count(meta.n_ctx)} tokens of context` : "",
  ].filter(Boolean).join(", "));
}

monitor.onStatus = (status, problem: ServerError | null) => {
  let state: string = status?.status ?? "away";
  let banner = "";
  if (status) {
    showModel(status);
    setText(byId("model-name"), status.model?.id ?? (status.status === "loading" ? "loading" : "no model"));
    if (status.status === "loading") banner = `The model is loading: ${Math.round(100 * (status.progress ?? 0))} %. ${status.message ?? ""}`;
    if (status.status === "failed") banner = `The engine has failed: ${status.message ?? "the server's log says why."}`;
    if (status.status === "degraded") banner = status.message ?? "The server runs on fewer devices than it was given.";
  } else if (problem?.status === 401) {
    state = "locked";
    setText(byId("model-name"), "key needed");
    banner = "This server asks for an API key.";
  } else {
    setText(byId("model-name"), "not reachable");
    banner = problem?.message ?? "";
  }
  byId("banner").hidden = !banner;
  byId("banner").dataset.state = state;
  setText(byId("banner-text"), banner);
  byId("banner-settings").hidden = state !== "locked";
  byId("model").dataset.state = state;
  setText(byId("model-state"), state === "ok" ? "ready" : state);
  byId("monitor-content").hidden = !status;
};

window.addEventListener("hashchange", () => void route());
async function begin(): Promise<void> {
  await store.open();
  await sidebar.refresh();
  await route();
  fitInput();
  monitor.start();
}
void begin();
