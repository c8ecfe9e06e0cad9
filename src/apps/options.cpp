#include "apps/options.h"

#include <algorithm>
#include <array>
#include <limits>

#include "apps/option_values.h"
#include "backend/device_spec.h"
#include "engine/sampler.h"

namespace strata::apps {

namespace {

using enum CommandId;

constexpr CommandSet kEverything =
    in(kRun) | in(kChat) | in(kServe) | in(kInspect) | in(kTokenize) | in(kEval) | in(kBench) |
    in(kDoctor) | in(kKernels) | in(kPlan);
constexpr CommandSet kAnswering = in(kRun) | in(kChat);
constexpr CommandSet kEngine = in(kRun) | in(kChat) | in(kServe);
constexpr CommandSet kComputing = kEngine | in(kEval) | in(kBench);

constexpr CommandSet kLooking = in(kDoctor) | in(kKernels) | in(kPlan);
constexpr CommandSet kPlacing = kComputing | in(kPlan);  // commands that divide a model among devices

constexpr int kMaxContext = 1 << 24;
constexpr int kMaxThreads = 1024;
constexpr int kMaxChunk = 1 << 16;
constexpr int kMaxTokens = 1 << 30;
constexpr int kMaxBodyMib = 4096;
constexpr int kMaxSilence = 7 * 24 * 3600;
constexpr int kMaxBatch = 256;
constexpr int kMaxRepeat = 1000;
constexpr size_t kMaxList = 32;
constexpr RealRange kShare = {.least = 0, .most = 1, .open_below = true};
constexpr RealRange kPenalty = {.least = -2, .most = 2};

template <class T, class Field>
Status store(Result<T> value, Field& field) {
  if (value.ok()) field = static_cast<Field>(*value);
  return value.status();
}
template <class T, class Field>
Status store(Result<T> value, std::optional<Field>& field) {
  if (value.ok()) field = static_cast<Field>(*value);
  return value.status();
}

// A name of a file or the like, which an empty text cannot be.
Status store_name(const std::string& value, std::string& field) {
  if (value.empty()) return invalid_argument("expected a name, got nothing");
  field = value;
  return {};
}

// Whole numbers separated by commas; "none" is none of them.
Status store_list(const std::string& value, int least, int most, std::vector<int>& field) {
  STRATA_ASSIGN_OR_RETURN(field, read_whole_list(value, least, most, kMaxList));
  return {};
}

Status store_kv_type(const std::string& value, backend::KvType& field) {
  using enum backend::KvType;
  constexpr std::array<std::string_view, 5> kNames = {"f32", "f16", "i8", "int8", "q8_0"};
  constexpr std::array kTypes = {kF32, kF16, kI8, kI8, kI8};
  STRATA_ASSIGN_OR_RETURN(const size_t index, read_choice(value, kNames));
  field = kTypes[index];
  return {};
}

// Named once, however many options ask for it.
Status not_built(Settings& settings, const char* what) {
  std::vector<std::string>& list = settings.engine.not_built;
  if (std::find(list.begin(), list.end(), what) == list.end()) list.emplace_back(what);
  return {};
}

Status store_log_level(const std::string& value, std::string& field) {
  constexpr std::array<std::string_view, 5> kLevels = {"debug", "info", "warn", "error", "off"};
  STRATA_RETURN_IF_ERROR(read_choice(value, kLevels).status());
  field = value;
  return {};
}

// The templates of the architecture name their efforts themselves; only the shape is known here.
Status store_effort(const std::string& value, std::string& field) {
  constexpr size_t kLongest = 32;
  if (value.empty() || value.size() > kLongest ||
      value.find_first_not_of("abcdefghijklmnopqrstuvwxyz_-") != std::string::npos) {
    return invalid_argument("expected a word such as xhigh, medium, low or none, got {}",
                            in_quotes(value));
  }
  field = value;
  return {};
}

using S = Settings;
using V = std::string;
constexpr Visibility kVisible = Visibility::kVisible;
constexpr Visibility kDiagnostic = Visibility::kDiagnostic;
constexpr Visibility kAccepted = Visibility::kAccepted;

// clang-format off
constexpr OptionSpec kOptions[] = {
    // Arguments by position.
    {"MODEL", "MODEL", kComputing | in(kTokenize) | in(kPlan), "",
     "a GGUF file, or any shard of a split one; without it the embedded model strata-tiny is used",
     kVisible, false, [](S& s, const V& v) { return store_name(v, s.model); }},
    {"FILE", "FILE", in(kInspect), "",
     "a GGUF file, or any shard of a split one; without it the embedded model strata-tiny is shown",
     kVisible, false, [](S& s, const V& v) { return store_name(v, s.model); }},
    {"TEXT", "TEXT", in(kTokenize), "", "the text to turn into tokens", kVisible, false,
     [](S& s, const V& v) { s.text = v; return Status(); }},

    // What to answer.
    {"-p,--prompt", "TEXT", in(kRun), "", "the prompt", kVisible, false,
     [](S& s, const V& v) { s.prompt = v; return Status(); }},
    {"-f,--file", "FILE", in(kRun) | in(kTokenize), "",
     "read the prompt or text from FILE; - is standard input", kVisible, false,
     [](S& s, const V& v) { return store_name(v, s.prompt_file); }},
    {"--system", "TEXT", kAnswering, "", "the system message", kVisible, false,
     [](S& s, const V& v) { s.system = v; return Status(); }},
    {"--raw", "", in(kRun), "", "continue the prompt as it is, without the chat template",
     kVisible, false, [](S& s, const V&) { s.raw = true; return Status(); }},
    {"--no-think", "", kAnswering, "", "answer without thinking first", kVisible, false,
     [](S& s, const V&) { s.no_think = true; return Status(); }},
    {"--effort", "WORD", kAnswering, "",
     "how long to think, in the words of the model's template: xhigh, medium, low; none is "
     "--no-think", kVisible, false, [](S& s, const V& v) { return store_effort(v, s.effort); }},
    {"--show-thinking", "", kAnswering, "", "show the thinking also when it goes to a pipe or file",
     kVisible, false, [](S& s, const V&) { s.show_thinking = true; return Status(); }},
    {"-n,--max-tokens", "N", kAnswering, "",
     "end an answer after N tokens (without it: when the context is full)", kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 0, kMaxTokens), s.max_tokens); }},
    {"--stop", "TEXT", kAnswering, "", "end the answer before TEXT", kVisible, true,
     [](S& s, const V& v) {
       if (v.empty()) return invalid_argument("expected a text, got nothing");
       s.stop.push_back(v);
       return Status();
     }},
    {"--ignore-eos", "", kAnswering, "", "go on after the end of the turn", kVisible, false,
     [](S& s, const V&) { s.ignore_eos = true; return Status(); }},

    // Sampling. Absent values are the model file's own, else those of the model's makers.
    {"--seed", "N", kAnswering, "",
     "the same seed gives the same answer (without it, or with -1: a random one)", kVisible, false,
     [](S& s, const V& v) {
       s.sampling.seed.reset();
       return v == "-1" ? Status() : store(read_unsigned(v), s.sampling.seed);
     }},
    {"--temp,--temperature", "X", kAnswering, "", "temperature; 0 takes the most probable token",
     kVisible, false, [](S& s, const V& v) {
       return store(read_real(v, {.least = 0, .most = 100}), s.sampling.temperature);
     }},
    {"--top-k", "N", kAnswering, "", "choose among the N most probable tokens; 0 is off", kVisible,
     false, [](S& s, const V& v) {
       return store(read_whole(v, 0, std::numeric_limits<int>::max()), s.sampling.top_k);
     }},
    {"--top-p", "X", kAnswering, "",
     "choose among the fewest tokens that hold the share X of the probability; 1 is off", kVisible,
     false, [](S& s, const V& v) { return store(read_real(v, kShare), s.sampling.top_p); }},
    {"--min-p", "X", kAnswering, "",
     "leave out tokens less probable than X times the best one; 0 is off", kVisible, false,
     [](S& s, const V& v) {
       return store(read_real(v, {.least = 0, .most = 1, .open_above = true}), s.sampling.min_p);
     }},
    {"--typical-p", "X", kAnswering, "",
     "choose among the most typical tokens that hold the share X; 1 is off", kVisible, false,
     [](S& s, const V& v) { return store(read_real(v, kShare), s.sampling.typical_p); }},
    {"--repetition-penalty,--repeat-penalty", "X", kAnswering, "",
     "divide or multiply the logits of tokens seen before by X; 1 is off", kVisible, false,
     [](S& s, const V& v) {
       return store(read_real(v, {.least = 0, .most = 100, .open_below = true}),
                    s.sampling.repetition_penalty);
     }},
    {"--presence-penalty", "X", kAnswering, "",
     "taken off the logit of every token generated before; 0 is off", kVisible, false,
     [](S& s, const V& v) { return store(read_real(v, kPenalty), s.sampling.presence_penalty); }},
    {"--frequency-penalty", "X", kAnswering, "",
     "taken off the logit of a token once for each time it was generated; 0 is off", kVisible,
     false,
     [](S& s, const V& v) { return store(read_real(v, kPenalty), s.sampling.frequency_penalty); }},
    {"--penalty-last-n", "N", kAnswering, "",
     "tokens that the penalties look back on; 0 is none, -1 all", kVisible, false,
     [](S& s, const V& v) {
       return store(read_whole(v, -1, kMaxContext), s.sampling.penalty_last_n);
     }},
    {"--logit-bias", "ID=BIAS", kAnswering, "",
     "add BIAS (-100 to 100) to the logit of token ID; -inf bans it", kVisible, true,
     [](S& s, const V& v) {
       auto bias = read_logit_bias(v);
       if (bias.ok()) s.sampling.logit_bias.push_back(*bias);
       return bias.status();
     }},
    {"--logprobs", "N", in(kRun), "",
     "after the answer, write each token's log-probability and the N best to standard error",
     kVisible, false, [](S& s, const V& v) {
       return store(read_whole(v, 0, engine::kMaxTopLogprobs), s.sampling.top_logprobs);
     }},

    // Serving.
    {"--host", "ADDRESS", in(kServe), "127.0.0.1", "address to listen on", kVisible, false,
     [](S& s, const V& v) { return store_name(v, s.server.host); }},
    {"--port", "N", in(kServe), "8080", "port to listen on; 0 takes a free one and prints it",
     kVisible, false, [](S& s, const V& v) { return store(read_whole(v, 0, 65535), s.server.port); }},
    {"--api-key", "KEY", in(kServe), "",
     "ask clients for this key; others on this machine can see it, --api-key-file is safer",
     kVisible, true, [](S& s, const V& v) {
       s.server.api_keys.emplace_back();
       return store_name(v, s.server.api_keys.back());
     }},
    {"--api-key-file", "FILE", in(kServe), "", "ask clients for one of the keys in FILE, one a line",
     kVisible, false, [](S& s, const V& v) { return store_name(v, s.api_key_file); }},
    {"--ssl-cert-file", "FILE", in(kServe), "",
     "speak HTTPS with the certificate in FILE (PEM, the chain after it)", kVisible, false,
     [](S& s, const V& v) { return store_name(v, s.server.tls_certificate_file); }},
    {"--ssl-key-file", "FILE", in(kServe), "", "the private key of --ssl-cert-file (PEM)", kVisible,
     false, [](S& s, const V& v) { return store_name(v, s.server.tls_key_file); }},
    {"--cors-origin,--allowed-origin", "ORIGIN", in(kServe), "",
     "let web pages of ORIGIN (https://example.org) use the API; * for all", kVisible, true,
     [](S& s, const V& v) {
       auto origin = read_origin(v);
       if (origin.ok()) s.server.allowed_origins.push_back(std::move(*origin));
       return origin.status();
     }},
    {"--allowed-host", "NAME", in(kServe), "",
     "accept requests for the host NAME, as a proxy sends them", kVisible, true,
     [](S& s, const V& v) {
       s.server.allowed_hosts.emplace_back();
       return store_name(v, s.server.allowed_hosts.back());
     }},
    {"--alias", "ID", in(kServe), "", "the model's name in the API (without it: the file's own)",
     kVisible, false, [](S& s, const V& v) { return store_name(v, s.alias); }},
    {"--max-queue", "N", in(kServe), "1024", "waiting requests; one more is refused", kVisible,
     false, [](S& s, const V& v) { return store(read_whole(v, 1, 1 << 20), s.engine.max_queue); }},
    {"--max-connections", "N", in(kServe), "256", "open connections; one more is refused", kVisible,
     false,
     [](S& s, const V& v) { return store(read_whole(v, 1, 1 << 16), s.server.max_connections); }},
    {"--max-body-mib", "N", in(kServe), "64", "largest request body in MiB", kVisible, false,
     [](S& s, const V& v) {
       auto mib = read_whole(v, 1, kMaxBodyMib);
       if (mib.ok()) s.server.max_body_bytes = static_cast<size_t>(*mib) << 20;
       return mib.status();
     }},
    {"--silence-timeout", "SECONDS", in(kServe), "600",
     "give up a request after so long without a token or a step of its prompt; 0 is never", kVisible,
     false, [](S& s, const V& v) {
       const auto limit = read_whole(v, 0, kMaxSilence);
       if (limit.ok()) s.server.silence_timeout = std::chrono::seconds(*limit);
       return limit.status();
     }},
    {"--http-threads", "N", in(kServe), "2", "threads that serve sockets", kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 1, 256), s.server.threads); }},

    // Chatting.
    {"--history", "FILE", in(kChat), "",
     "keep the lines typed at the prompt in FILE, for the arrow keys of later chats", kVisible,
     false, [](S& s, const V& v) { return store_name(v, s.history_file); }},

    // Inspecting and tokenizing.
    {"--tensors", "", in(kInspect), "", "list every tensor", kVisible, false,
     [](S& s, const V&) { s.tensors = true; return Status(); }},
    {"--metadata", "", in(kInspect), "", "list every metadata key", kVisible, false,
     [](S& s, const V&) { s.metadata = true; return Status(); }},
    {"--ids-only", "", in(kTokenize), "", "print nothing but ids, on one line", kVisible, false,
     [](S& s, const V&) { s.ids_only = true; return Status(); }},
    {"--detokenize", "IDS", in(kTokenize), "",
     "print the text of these ids (numbers separated by anything) and nothing else", kVisible,
     false, [](S& s, const V& v) { s.detokenize = v; return Status(); }},

    // Evaluating.
    {"--text", "FILE", in(kEval), "", "the text to read", kVisible, false,
     [](S& s, const V& v) { return store_name(v, s.text_file); }},
    {"--tokens", "FILE", in(kEval), "", "the token ids to read", kVisible, false,
     [](S& s, const V& v) { return store_name(v, s.tokens_file); }},
    {"--plain", "", in(kTokenize) | in(kEval), "",
     "names of control tokens in the text are text like any other", kVisible, false,
     [](S& s, const V&) { s.plain = true; return Status(); }},
    {"--logits", "FILE", in(kEval), "", "write the logits of every position to FILE", kVisible,
     false, [](S& s, const V& v) { return store_name(v, s.logits_file); }},
    {"--compare", "FILE", in(kEval), "",
     "compare with saved logits: divergence, agreement, differences", kVisible, false,
     [](S& s, const V& v) { return store_name(v, s.compare_file); }},
    {"--greedy", "N", in(kEval), "", "print the N most probable tokens that follow, one by one",
     kVisible, false, [](S& s, const V& v) { return store(read_whole(v, 1, kMaxTokens), s.greedy); }},
    {"--activations", "KIND", in(kEval), "int8",
     "int8: the arithmetic of the product; float: double precision throughout, slow", kVisible,
     false, [](S& s, const V& v) {
       constexpr std::array<std::string_view, 2> kKinds = {"int8", "float"};
       return store(read_choice(v, kKinds), s.float_activations);
     }},

    // Measuring speed.
    {"--prompts", "LIST", in(kBench), "128,512,4096", "sizes of the prompts, in tokens, or none",
     kVisible, false, [](S& s, const V& v) { return store_list(v, 1, kMaxContext, s.prompts); }},
    {"--depths", "LIST", in(kBench), "0,512",
     "tokens that stand before those decoded, or none; --batch uses the first depth", kVisible,
     false, [](S& s, const V& v) { return store_list(v, 0, kMaxContext, s.depths); }},
    {"--batch", "LIST", in(kBench), "1,2,4,8", "sequences decoded together, or none", kVisible,
     false, [](S& s, const V& v) { return store_list(v, 1, kMaxBatch, s.batch); }},
    {"--steps", "N", in(kBench), "32", "tokens decoded by each sequence in a round", kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 1, kMaxTokens), s.steps); }},
    {"--repeat", "N", in(kBench), "3", "rounds that count, after one that does not", kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 1, kMaxRepeat), s.repeat); }},

    // Computing.
    {"-c,--context", "N", kEngine | in(kEval) | in(kPlan), "0",
     "tokens a session can hold; 0 is what the model was trained for", kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 0, kMaxContext), s.engine.context); }},
    {"-t,--threads", "N", kComputing | in(kPlan), "0", "threads that compute; 0 is one per usable CPU",
     kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 0, kMaxThreads), s.engine.workers); }},
    {"--kv", "TYPE", kEngine | in(kBench) | in(kPlan), "f16", "how keys and values are kept: f16, f32 or i8", kVisible, false,
     [](S& s, const V& v) { return store_kv_type(v, s.engine.kv_type); }},
    {"--kv", "TYPE", in(kEval), "f32", "how keys and values are kept: f16, f32 or i8", kVisible, false,
     [](S& s, const V& v) { return store_kv_type(v, s.engine.kv_type); }},
    {"--load", "HOW", kEngine | in(kBench) | in(kEval), "mmap",
     "how the CPU holds its weights: mmap (where the file is mapped) or ram (copied into memory, in huge "
     "pages where there are some; the n-gram table stays in the file)",
     kVisible, false,
     [](S& s, const V& v) {
       if (v != "mmap" && v != "ram") return invalid_argument("expected mmap or ram, got {}", in_quotes(v));
       s.engine.weight_memory =
           v == "ram" ? engine::WeightMemory::kCopied : engine::WeightMemory::kMapped;
       return Status();
     }},
    {"--prompt-chunk", "N", kEngine | in(kBench), "512", "prompt tokens computed at a time", kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 1, kMaxChunk), s.engine.prompt_chunk); }},
    {"--prompt-chunk", "N", in(kPlan), "0",
     "prompt tokens computed at a time; 0 takes what is predicted to be fastest", kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 0, kMaxChunk), s.engine.prompt_chunk); }},
    {"--chunk", "N", in(kEval), "512", "tokens computed at a time, fewer where memory asks for it",
     kVisible, false,
     [](S& s, const V& v) { return store(read_whole(v, 1, kMaxChunk), s.engine.prompt_chunk); }},

    // Devices.
    {"--devices", "LIST", kComputing | kLooking, "auto",
     "what computes, separated by commas: cpu, cuda:0, hip:1, a PCI address (hip:0000:03:00.0), "
     "an emulated card (emu:gfx1100); auto: every card this build serves, else the CPU",
     kVisible, false, [](S& s, const V& v) {
       s.engine.devices.clear();
       if (v == "auto") return Status();
       return store(backend::parse_device_list(v), s.engine.devices);
     }},
    {"--device-option", "DEVICE:KEY=VALUE", kComputing | kLooking, "",
     "for one device, by its name or its number in the list: kernels=reference, OP=reference, "
     "graphs=off, peer=off, reserve-mib=N (left free), vram-limit-mib=N",
     kVisible, true, [](S& s, const V& v) {
       if (v.find(':') == V::npos || v.find('=') == V::npos) {
         return invalid_argument("expected DEVICE:KEY=VALUE, got {}", in_quotes(v));
       }
       s.device_options.push_back(v);
       return Status();
     }},
    {"--assume", "LIST", in(kPlan), "",
     "devices described instead of opened, ARCH:MEMORY:BANDWIDTH[:NAME] with commas between: "
     "gfx1100:24GiB:800GB/s; also :100TOPS, :link=12GB/s, :launch=4us; cpu is a CPU",
     kVisible, false, [](S& s, const V& v) { return store(engine::parse_assumed_devices(v), s.assumed); }},
    {"--layer-split", "WHERE", kPlacing, "auto",
     "where the layers are cut between devices: auto, or the first layer of each device after the "
     "first (18 or 16,32)",
     kVisible, false, [](S& s, const V& v) {
       return store(engine::parse_layer_split(v), s.engine.layer_split);
     }},
    {"--gpu-order", "ORDER", kPlacing, "auto",
     "auto: the layers go through the devices in the fastest order; as_given: in that of the list",
     kVisible, false, [](S& s, const V& v) {
       constexpr std::array<std::string_view, 2> kOrders = {"auto", "as_given"};
       return store(read_choice(v, kOrders), s.engine.order_as_given);
     }},
    {"--split-skip-if-fits", "", kPlacing, "", "one card alone whenever it holds the whole model",
     kVisible, false, [](S& s, const V&) { s.engine.skip_split_if_fits = true; return Status(); }},
    {"--expert-profile", "FILE", kPlacing, "",
     "which experts are used most (expert-profile.bin): what caches hold is chosen by it",
     kVisible, false, [](S& s, const V& v) { return store_name(v, s.engine.expert_profile); }},
    {"--config", "FILE", kComputing | kLooking, "",
     "a JSON object of options, {\"context\": 65536}; the command line has the last word",
     kVisible, false, [](S& s, const V& v) { return store_name(v, s.config_file); }},
    {"--vram-reserve-mib", "N", kComputing | kLooking, "0",
     "MiB to leave free on every card", kVisible, false, [](S& s, const V& v) {
       auto mib = read_whole(v, 0, 1 << 30);
       if (mib.ok()) s.engine.reserve_bytes = static_cast<uint64_t>(*mib) << 20;
       return mib.status();
     }},
    {"--module-folder", "FOLDER", kComputing | kLooking, "",
     "where the back ends (libstrata_cuda.so, ...) lie, if not beside the program", kDiagnostic,
     false, [](S& s, const V& v) { return store_name(v, s.engine.module_folder); }},

    // Other engines' command lines. What has a counterpart here is used; the rest is named, once.
    {"--native", "FILE", kComputing, "", "the model, as MODEL", kAccepted, false,
     [](S& s, const V& v) { return store_name(v, s.model); }},
    {"--ple-gguf", "FILE", kComputing, "",
     "the shard that holds the n-gram table; it is found beside the model, and must be there",
     kAccepted, false, [](S& s, const V& v) { return store_name(v, s.table_file); }},
    {"--max-context", "N", kEngine, "", "as --context", kAccepted, false,
     [](S& s, const V& v) { return store(read_whole(v, 0, kMaxContext), s.engine.context); }},
    {"--pack", "FOLDER", kComputing, "", "not used: weights are read from the GGUF file itself",
     kAccepted, false, [](S& s, const V&) { return not_built(s, "packs (--pack); the GGUF file is read"); }},
    {"--prefill", "auto", kComputing, "", "not used: prompts are always read in chunks", kAccepted,
     false, [](S&, const V& v) {
       constexpr std::array<std::string_view, 1> kWords = {"auto"};
       return read_choice(v, kWords).status();
     }},
    {"--expert-cache", "SIZE", kComputing, "", "auto, off or MiB; not in this version: cards hold whole layers",
     kAccepted, false, [](S& s, const V& v) {
       if (v != "auto" && v != "off") STRATA_RETURN_IF_ERROR(read_whole(v, 0, 1 << 30).status());
       return v == "off" ? Status() : not_built(s, "expert caches (--expert-cache)");
     }},
    {"--spec", "N", kComputing, "", "not in this version: no drafts", kAccepted, false,
     [](S& s, const V& v) {
       STRATA_RETURN_IF_ERROR(read_whole(v, 0, 64).status());
       return not_built(s, "drafts (--spec, --spec-min-p, --mtp)");
     }},
    {"--spec-min-p", "X", kComputing, "", "not in this version: no drafts", kAccepted, false,
     [](S& s, const V& v) {
       STRATA_RETURN_IF_ERROR(read_real(v, {.least = 0, .most = 1}).status());
       return not_built(s, "drafts (--spec, --spec-min-p, --mtp)");
     }},
    {"--mtp", "", kComputing, "", "not in this version: no drafts; a folder may follow", kAccepted,
     false, [](S& s, const V&) { return not_built(s, "drafts (--spec, --spec-min-p, --mtp)"); }},
    {"--vision", "", kComputing, "", "not in this version: no pictures", kAccepted, false,
     [](S& s, const V&) { return not_built(s, "pictures (--vision)"); }},
    {"--kv-resident", "N", kComputing, "",
     "not in this version: keys and values lie on their cards entirely", kAccepted, false,
     [](S& s, const V& v) {
       STRATA_RETURN_IF_ERROR(read_whole(v, 0, kMaxContext).status());
       return not_built(s, "keys and values partly in RAM (--kv-resident)");
     }},

    // Output and help.
    {"--json", "", in(kInspect) | in(kEval) | in(kBench) | kLooking, "", "print the result as JSON", kVisible, false,
     [](S& s, const V&) { s.json = true; return Status(); }},
    {"--csv", "", in(kBench), "", "print the result as comma-separated values", kVisible, false,
     [](S& s, const V&) { s.csv = true; return Status(); }},
    {"-q,--quiet", "", kAnswering | in(kEval) | in(kBench), "", "no progress and no statistics", kVisible, false,
     [](S& s, const V&) { s.quiet = true; return Status(); }},
    {"-h,--help", "", kEverything, "", "show this help", kVisible, false,
     [](S& s, const V&) { s.help = true; return Status(); }},

    // Diagnostics.
    {"--kernels", "LIST", kComputing, "auto",
     "ops that run on the reference kernels: auto (none), reference (all), or names with commas",
     kDiagnostic, false, [](S& s, const V& v) {
       auto policy = backend::parse_kernel_policy(v);
       if (policy.ok()) s.engine.kernels = *policy;
       return policy.status();
     }},
    {"--qsa", "FORM", in(kEval), "hf",
     "rule by which sparse attention cuts its budget: hf (trained) or lc050 (llama.cpp 0.5.0)",
     kDiagnostic, false, [](S& s, const V& v) {
       constexpr std::array<std::string_view, 2> kForms = {"hf", "lc050"};
       auto form = read_choice(v, kForms);
       if (form.ok()) s.engine.qsa_form = *form == 0 ? backend::QsaForm::kHf : backend::QsaForm::kLc050;
       return form.status();
     }},
    {"--show-special", "", kAnswering, "", "show control tokens in the answer", kDiagnostic, false,
     [](S& s, const V&) { s.show_special = true; return Status(); }},
    {"--log-level", "LEVEL",
     kAnswering | in(kInspect) | in(kTokenize) | in(kEval) | in(kBench) | kLooking, "warn",
     "what is logged to standard error: debug, info, warn, error or off", kDiagnostic, false,
     [](S& s, const V& v) { return store_log_level(v, s.log_level); }},
    {"--log-level", "LEVEL", in(kServe), "info",
     "what is logged to standard error: debug, info, warn, error or off", kDiagnostic, false,
     [](S& s, const V& v) { return store_log_level(v, s.log_level); }},
};
// clang-format on

}  // namespace

std::vector<std::string_view> OptionSpec::all_names() const {
  std::vector<std::string_view> out;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t comma = std::min(names.find(',', begin), names.size());
    out.push_back(names.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return out;
}

std::string_view OptionSpec::long_name() const {
  for (const std::string_view name : all_names()) {
    if (is_positional() || name.starts_with("--")) return name;
  }
  return names;
}

std::span<const OptionSpec> options() { return kOptions; }

Status settle(Settings& settings) {
  std::vector<backend::DeviceRequest>& devices = settings.engine.devices;
  if (!settings.device_options.empty() && devices.empty()) {
    devices.push_back({.id = "cpu", .target = {}, .kernels = settings.engine.kernels});
  } else {
    for (backend::DeviceRequest& device : devices) device.kernels = settings.engine.kernels;
  }
  for (backend::DeviceRequest& device : devices) device.reserve_bytes = settings.engine.reserve_bytes;
  for (const std::string& option : settings.device_options) {
    STRATA_RETURN_IF_ERROR(
        backend::apply_device_option(option, devices).with_context("--device-option"));
  }
  return {};
}

Result<Settings> default_settings(CommandId id) {
  Settings settings;
  for (const OptionSpec& option : kOptions) {
    if ((option.commands & in(id)) == 0 || option.default_text.empty()) continue;
    const Status status = option.set(settings, std::string(option.default_text));
    if (!status.ok()) return status.with_context(option.long_name());
  }
  return settings;
}

Status set_option(CommandId id, std::string_view name, const std::string& value,
                  Settings& settings) {
  for (const OptionSpec& option : kOptions) {
    if ((option.commands & in(id)) == 0) continue;
    const auto names = option.all_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    return option.set(settings, value);
  }
  return internal_error("\"strata {}\" has no option {}", command(id).name, name);
}

}  // namespace strata::apps
