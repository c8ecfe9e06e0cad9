// GET /v1/status, as far as the page shows it. Only what the server tells is shown: every part that
// a version, a model or a machine may lack is optional.

export interface DeviceStatus {
  id: string;
  name?: string;
  architecture?: string;
  memory_mib?: number;
  memory_free_mib?: number;  // now
}

export interface LayerRange {
  device: string;
  first: number;
  last: number;
}

export interface StageBytes {
  dense?: number;
  experts?: number;
  embedding?: number;
  head?: number;
  draft?: number;
  cache?: number;
  state?: number;
  workspace?: number;
  used?: number;
  free_before?: number;
}

export interface PlanStatus {
  lines?: string[];
  stages?: { device: string; bytes?: StageBytes }[];
  rejected?: { what: string; why: string }[];
  warnings?: string[];
}

export interface RunningRequest {
  id: string;
  endpoint: string;
  stage: "waiting" | "reading" | "generating";
  prompt_tokens: number;
  prompt_read: number;
  generated_tokens: number;
  seconds: number;
}

export interface FinishedRequest {
  id: string;
  endpoint: string;
  outcome: string;
  finished: number;
  seconds: number;
  prompt_tokens: number;
  generated_tokens: number;
  reused_tokens?: number;
  prompt_ms?: number;
  decode_ms?: number;
}

// Counters since the start of the server.
export interface ExpertCounters {
  hits: number;
  lookups: number;
}

export interface DraftCounters {
  drafted: number;
  accepted: number;
}

export interface Status {
  status: "ok" | "degraded" | "loading" | "failed";
  message?: string;
  progress?: number;
  running?: number;
  waiting?: number;
  model?: {
    id: string;
    meta?: { architecture?: string; n_ctx?: number; n_params?: number; size?: number };
  };
  activity?: {
    read_tokens: number;
    generated_tokens: number;
    requests: RunningRequest[];
    recent: FinishedRequest[];
  };
  engine?: {
    devices?: DeviceStatus[];
    layers?: LayerRange[];
    self_tests?: string;
    not_built?: string[];
    plan?: PlanStatus;
    experts?: ExpertCounters;
    drafts?: DraftCounters;
  };
}
