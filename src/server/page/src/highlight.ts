// Colours for code, as markup of spans that still has to go through the sanitiser.

import highlighter from "highlight.js/lib/highlight";
import bash from "highlight.js/lib/languages/bash";
import cmake from "highlight.js/lib/languages/cmake";
import cpp from "highlight.js/lib/languages/cpp";
import cs from "highlight.js/lib/languages/cs";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import haskell from "highlight.js/lib/languages/haskell";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import scala from "highlight.js/lib/languages/scala";
import shell from "highlight.js/lib/languages/shell";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash, cmake, cpp, cs, css, diff, dockerfile, go, haskell, ini, java, javascript, json, kotlin, lua, makefile, markdown,
  php, python, ruby, rust, scala, shell, sql, swift, typescript, xml, yaml,
};
// Version 9 is the one that Debian has and looks after; the sanitiser and LONGEST bound what it can do.
highlighter.configure({ hideUpgradeWarningAcceptNoSupportOrSecurityUpdates: true });
for (const [name, language] of Object.entries(LANGUAGES)) highlighter.registerLanguage(name, language);

// What the library does not know by that name.
const ALIASES: Record<string, string> = { cuda: "cpp", hip: "cpp", csharp: "cs", dotenv: "bash", jsonc: "json", tsx: "typescript" };

// Longer code stays plain, so that a page never waits for its colours.
const LONGEST = 60_000;

// HTML, or null for a language that is not known.
export function highlight(code: string, language: string): string | null {
  const name = ALIASES[language] ?? language;
  if (code.length > LONGEST || !name || !highlighter.getLanguage(name)) return null;
  return highlighter.highlight(name, code, true).value;
}
