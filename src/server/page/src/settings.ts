// What the user has set; kept in the browser where it allows that.

export type Effort = "" | "none" | "low" | "medium" | "xhigh";
export type Theme = "" | "light" | "dark";

// An absent number is the model's or the server's own value.
export interface Settings {
  temperature?: number;
  topP?: number;
  maxTokens?: number;
  effort: Effort;
  system: string;
  key: string;
  theme: Theme;
}

const STORED_AS = "strata.settings";
const EFFORTS: readonly string[] = ["", "none", "low", "medium", "xhigh"];
const THEMES: readonly string[] = ["", "light", "dark"];

function within(value: unknown, low: number, high: number): value is number {
  return typeof value === "number" && value >= low && value <= high;
}

export function readSettings(given: unknown): Settings {
  const from = (typeof given === "object" && given !== null ? given : {}) as Record<string, unknown>;
  const settings: Settings = {
    effort: (EFFORTS.includes(from.effort as string) ? from.effort : "") as Effort,
    system: typeof from.system === "string" ? from.system : "",
    key: typeof from.key === "string" ? from.key : "",
    theme: (THEMES.includes(from.theme as string) ? from.theme : "") as Theme,
  };
  if (within(from.temperature, 0, 2)) settings.temperature = from.temperature;
  if (within(from.topP, 0, 1)) settings.topP = from.topP;
  if (within(from.maxTokens, 1, 1e9) && Number.isInteger(from.maxTokens)) settings.maxTokens = from.maxTokens;
  return settings;
}

export function loadSettings(): Settings {
  try {
    return readSettings(JSON.parse(localStorage.getItem(STORED_AS) ?? "null"));
  } catch {
    return readSettings(null);
  }
}

// False when the browser keeps nothing.
export function saveSettings(settings: Settings): boolean {
  try {
    localStorage.setItem(STORED_AS, JSON.stringify(settings));
    return true;
  } catch {
    return false;
  }
}

export function applyTheme(theme: Theme): void {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

// The fields of a chat request that settings stand for.
export function requestFields(settings: Settings): Record<string, unknown> {
  return {
    ...(settings.temperature !== undefined && { temperature: settings.temperature }),
    ...(settings.topP !== undefined && { top_p: settings.topP }),
    ...(settings.maxTokens !== undefined && { max_completion_tokens: settings.maxTokens }),
    ...(settings.effort && { reasoning_effort: settings.effort }),
  };
}
