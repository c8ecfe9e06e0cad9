// The server's APIs as the page uses them. Addresses are relative: a proxy may put a path in front.

import type { Stats, ToolCall } from "./conversation";
import type { Status } from "./status";

export class ServerError extends Error {
  constructor(message: string, readonly status?: number, readonly retryAfter?: number) {
    super(message);
  }
}

export type ChatEvent =
  | { kind: "open" }
  | { kind: "progress"; read: number; total: number }
  | { kind: "reasoning" | "text"; text: string }
  | { kind: "call"; index: number; part: Partial<ToolCall> }
  | { kind: "finish"; reason: string }
  | { kind: "stats"; stats: Stats };

// The part of a chunk that is read here; every field may be missing.
interface Chunk {
  error?: { message?: string };
  choices?: {
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
    };
    finish_reason?: string | null;
  }[];
  prompt_progress?: { processed: number; total: number };
  timings?: { cache_n: number; prompt_n: number; prompt_ms: number; prompt_per_second: number; predicted_n: number; predicted_per_second: number };
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
  } | null;
}

function headers(key: string): Record<string, string> {
  return { "Content-Type": "application/json", ...(key.trim() && { Authorization: `Bearer ${key.trim()}` }) };
}

async function request(path: string, key: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: headers(key), cache: "no-store" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    if (error instanceof TypeError) throw new ServerError("The server cannot be reached. It may have been stopped, or the connection to it is lost.");
    throw error;
  }
  if (response.ok) return response;
  let message = `The server answered with status ${response.status}.`;
  try {
    const body = await response.json();
    if (typeof body?.error?.message === "string") message = body.error.message;
  } catch {
    // The answer is not the server's own; the number says enough.
  }
  const after = Number(response.headers.get("Retry-After"));
  throw new ServerError(message, response.status, after > 0 ? after : undefined);
}

// The data of the events in a stream, one after the other; ends when the stream ends.
export async function* eventData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let data: string[] = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function* chunkEvents(chunk: Chunk): Generator<ChatEvent> {
  if (chunk.error) throw new ServerError(chunk.error.message ?? "The server reported an error without saying which.");
  if (chunk.prompt_progress) {
    yield { kind: "progress", read: chunk.prompt_progress.processed, total: chunk.prompt_progress.total };
  }
  const choice = chunk.choices?.[0];
  if (choice?.delta?.reasoning_content) yield { kind: "reasoning", text: choice.delta.reasoning_content };
  if (choice?.delta?.content) yield { kind: "text", text: choice.delta.content };
  for (const call of choice?.delta?.tool_calls ?? []) {
    yield {
      kind: "call", index: call.index,
      part: {
        ...(call.id && { id: call.id }),
        ...(call.function?.name && { name: call.function.name }),
        ...(call.function?.arguments && { arguments: call.function.arguments }),
      },
    };
  }
  if (choice?.finish_reason) yield { kind: "finish", reason: choice.finish_reason };
  if (chunk.timings) {
    const t = chunk.timings;
    yield {
      kind: "stats",
      stats: {
        promptTokens: t.prompt_n + t.cache_n, reusedTokens: t.cache_n, tokens: t.predicted_n,
        ...(t.prompt_per_second > 0 && { promptRate: t.prompt_per_second }),
        ...(t.predicted_per_second > 0 && { rate: t.predicted_per_second }),
      },
    };
  }
  if (chunk.usage) {
    const thinking = chunk.usage.completion_tokens_details?.reasoning_tokens;
    yield {
      kind: "stats",
      stats: {
        promptTokens: chunk.usage.prompt_tokens, tokens: chunk.usage.completion_tokens,
        ...(thinking && { thinkingTokens: thinking }),
      },
    };
  }
}

// Streams an answer. Throws ServerError, or AbortError once `signal` is aborted.
export async function* streamChat(fields: Record<string, unknown>, key: string, signal: AbortSignal): AsyncGenerator<ChatEvent> {
  const body = JSON.stringify({ ...fields, stream: true, stream_options: { include_usage: true }, return_progress: true });
  const response = await request("v1/chat/completions", key, { method: "POST", body, signal });
  if (!response.body) throw new ServerError("The server's answer has no body.");
  yield { kind: "open" };
  try {
    for await (const data of eventData(response.body)) {
      if (data === "[DONE]") return;
      yield* chunkEvents(JSON.parse(data) as Chunk);
    }
  } catch (error) {
    if (error instanceof TypeError) throw new ServerError("The connection broke off before the answer was complete.");
    if (error instanceof SyntaxError) throw new ServerError("The server sent an event that is not JSON.");
    throw error;
  }
  throw new ServerError("The connection ended before the answer was complete.");
}

const STATUS_LIMIT_MS = 10_000;

export async function fetchStatus(key: string): Promise<Status> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), STATUS_LIMIT_MS);
  try {
    const response = await request("v1/status", key, { signal: late.signal });
    return await response.json() as Status;
  } catch (error) {
    if (late.signal.aborted) throw new ServerError("The server does not answer.");
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
