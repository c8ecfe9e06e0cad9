// The form of the settings. Every change holds at once; what is out of range is told and not taken.

import { byId } from "./dom";
import { readSettings, type Settings } from "./settings";

const NUMBERS = [["temperature", "temperature"], ["top-p", "topP"], ["max-tokens", "maxTokens"]] as const;
const TEXTS = [["effort", "effort"], ["system", "system"], ["key", "key"], ["theme", "theme"]] as const;

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

export class SettingsDialog {
  private readonly dialog = byId<HTMLDialogElement>("settings");
  private readonly quickEffort = byId<HTMLSelectElement>("quick-effort");

  constructor(private readonly settings: Settings, private readonly save: () => void, private readonly keyChanged: () => void) {
    for (const [id] of [...NUMBERS, ...TEXTS]) {
      const field = byId<Field>(id);
      field.addEventListener("input", () => this.take(field));
      field.addEventListener("change", () => {
        if (field.reportValidity() && id === "key") this.keyChanged();
      });
    }
    this.quickEffort.addEventListener("change", () => {
      this.settings.effort = this.quickEffort.value as Settings["effort"];
      this.save();
    });
    byId("settings-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (byId<HTMLFormElement>("settings-form").reportValidity()) this.dialog.close();
    });
    byId("settings-reset").addEventListener("click", () => {
      for (const [, name] of NUMBERS) delete this.settings[name];
      Object.assign(this.settings, readSettings({ key: this.settings.key }));
      this.save();
    });
    this.fill();
  }

  open(field?: "key"): void {
    this.fill();
    this.dialog.showModal();
    if (field) byId(field).focus();
  }

  fill(): void {
    const show = (id: string, value: string) => {
      const field = byId<Field>(id);
      if (field !== document.activeElement) field.value = value;  // what is being typed stays as it is
    };
    for (const [id, name] of NUMBERS) show(id, String(this.settings[name] ?? ""));
    for (const [id, name] of TEXTS) show(id, this.settings[name]);
    this.quickEffort.value = this.settings.effort;
  }

  private take(field: Field): void {
    if (!field.checkValidity()) return;
    for (const [id, name] of NUMBERS) {
      if (field.id !== id) continue;
      const value = parseFloat(field.value);
      if (Number.isFinite(value)) this.settings[name] = value;
      else delete this.settings[name];
    }
    for (const [id, name] of TEXTS) {
      if (field.id === id) Object.assign(this.settings, readSettings({ ...this.settings, [name]: field.value }));
    }
    this.save();
  }
}
