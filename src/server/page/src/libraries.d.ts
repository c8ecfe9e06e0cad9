// What the page uses of the libraries that the build takes from the system.

declare module "marked" {
  export interface Token {
    type: string;
    raw: string;
    lang?: string;
    text?: string;
  }
  export type TokenList = Token[] & { links: Record<string, unknown> };
  export interface Flags {
    header: boolean;
    align: "center" | "left" | "right" | null;
  }
  export class Renderer {
    code(code: string, language: string | undefined): string;
    html(html: string): string;
    heading(text: string, level: number): string;
    checkbox(checked: boolean): string;
    table(header: string, body: string): string;
    tablecell(content: string, flags: Flags): string;
    link(href: string | null, title: string | null, text: string): string;
    image(href: string | null, title: string | null, text: string): string;
  }
  export interface Options {
    breaks?: boolean;
    gfm?: boolean;
    headerIds?: boolean;
    mangle?: boolean;
    renderer?: Renderer;
  }
  export const marked: {
    Lexer: new (options: Options) => { lex(text: string): TokenList };
    Parser: { parse(tokens: Token[], options: Options): string };
    Renderer: new () => Renderer;
    getDefaults(): Options;
  };
}

declare module "dompurify" {
  interface Options {
    ALLOWED_TAGS: string[];
    ALLOWED_ATTR: string[];
    ALLOW_DATA_ATTR: boolean;
    ADD_URI_SAFE_ATTR: string[];
    ALLOWED_URI_REGEXP: RegExp;
    RETURN_DOM_FRAGMENT: true;
  }
  const DOMPurify: { sanitize(html: string, options: Options): DocumentFragment };
  export default DOMPurify;
}

declare module "highlight.js/lib/highlight" {
  type Language = (library: unknown) => unknown;
  const highlighter: {
    highlight(name: string, code: string, ignoreIllegals: boolean): { value: string };
    configure(options: { hideUpgradeWarningAcceptNoSupportOrSecurityUpdates: boolean }): void;
    getLanguage(name: string): unknown;
    registerLanguage(name: string, language: Language): void;
  };
  export default highlighter;
}

declare module "highlight.js/lib/languages/*" {
  const language: (library: unknown) => unknown;
  export default language;
}
