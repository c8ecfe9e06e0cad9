// Keys. Plain letters work only where nothing is being typed.

export interface KeyActions {
  newChat(): void;
  search(): void;
  monitor(): void;
  settings(): void;
  help(): void;
  message(): void;
  editLast(): void;
  copyLast(): void;
  escape(): void;
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.matches("input, textarea, select") || target.isContentEditable);
}

export function bindKeys(actions: KeyActions): void {
  const plain: Record<string, () => void> = {
    n: actions.newChat, m: actions.monitor, s: actions.settings, e: actions.editLast, y: actions.copyLast,
    "/": actions.message, "?": actions.help,
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const command = event.ctrlKey || event.metaKey;
    let action: (() => void) | undefined;
    if (event.key === "Escape") action = actions.escape;
    else if (command && !event.altKey && event.key.toLowerCase() === "k") action = actions.search;
    else if (command && event.shiftKey && event.key.toLowerCase() === "o") action = actions.newChat;
    else if (!command && !event.altKey && !typing(event.target)) action = plain[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
