#include "format/summary.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

namespace strata {
namespace {

constexpr uint64_t kMaxArrayElements = 8;
constexpr size_t kMaxTextBytes = 200;

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none.
size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  // Overlong forms, surrogates and code points above U+10FFFF show in the second byte.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// Valid UTF-8, cut after about `max` bytes.
std::string clean(std::string_view text, size_t max) {
  std::string out;
  size_t at = 0;
  while (at < text.size() && at < max) {
    const size_t length = utf8_sequence(text.substr(at));
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  if (at < text.size()) out += "...";
  return out;
}

std::string value_text(const GgufValue& value) {
  if (!value.is_array()) return clean(value.text_at(0), kMaxTextBytes);
  std::string out = "[";
  const uint64_t shown = std::min(value.count(), kMaxArrayElements);
  for (uint64_t i = 0; i < shown; ++i) {
    if (i > 0) out += ", ";
    const std::string text = clean(value.text_at(i), kMaxTextBytes / kMaxArrayElements);
    out += value.element_type() == GgufType::kString ? "\"" + text + "\"" : text;
  }
  return out + (shown < value.count() ? ", ...]" : "]");
}

int64_t trunk_layers_of(const GgufFile& file, const std::string& architecture) {
  const auto blocks = file.find<uint32_t>(architecture + ".block_count");
  const auto drafts = file.find<uint32_t>(architecture + ".nextn_predict_layers");
  if (!blocks.ok() || !*blocks || !drafts.ok()) return -1;
  return std::max<int64_t>(0, int64_t{**blocks} - drafts->value_or(0));
}

// The block number and the rest of "blk.N.rest"; false for any other name.
bool split_block_name(std::string_view name, int64_t& number, std::string_view& rest) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return false;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  if (error != std::errc() || number < 0 || at == end || *at != '.') return false;
  rest = std::string_view(at + 1, static_cast<size_t>(end - at - 1));
  return true;
}

ModelPart block_part(std::string_view rest) {
  const auto starts = [&](std::string_view prefix) { return rest.starts_with(prefix); };
  if (starts("nextn.")) return ModelPart::kDraftLayer;
  if (starts("hc_")) return ModelPart::kHyperConnections;
  if (starts("ple_")) return ModelPart::kPleLayer;
  if (starts("ffn_")) {
    const std::string_view stem = rest.substr(0, rest.find('.'));
    if (stem.ends_with("_shexp")) return ModelPart::kSharedExpert;
    if (stem.ends_with("_exps")) return ModelPart::kExperts;
    return stem == "ffn_gate_inp" ? ModelPart::kRouter : ModelPart::kOther;
  }
  if (starts("ssm_") || starts("attn_qkv.") || starts("attn_gate.")) return ModelPart::kDeltaNet;
  if (starts("attn_") || starts("indexer.")) return ModelPart::kAttention;
  return ModelPart::kOther;
}

void count(GgufSummary::Total& total, const TensorInfo& t) {
  ++total.tensors;
  total.elems += static_cast<uint64_t>(t.elems());
  total.bytes += t.bytes;
}

nlohmann::ordered_json total_json(const GgufSummary::Total& t) {
  return {{"name", t.name}, {"tensors", t.tensors}, {"elems", t.elems}, {"bytes", t.bytes}};
}

nlohmann::ordered_json totals_json(const std::vector<GgufSummary::Total>& totals) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& t : totals) out.push_back(total_json(t));
  return out;
}

}  // namespace

const char* model_part_name(ModelPart part) {
  constexpr const char* kNames[kModelPartCount] = {
      "embeddings", "head",          "PLE table",         "PLE layer",
      "attention",  "delta net",     "hyper-connections", "router",
      "experts",    "shared expert", "draft layer",       "vision",
      "other"};
  return kNames[static_cast<int>(part)];
}

ModelPart model_part(std::string_view name, int64_t trunk_layers) {
  int64_t block = 0;
  std::string_view rest;
  if (split_block_name(name, block, rest)) {
    if (trunk_layers >= 0 && block >= trunk_layers) return ModelPart::kDraftLayer;
    return block_part(rest);
  }
  if (name.starts_with("token_embd.")) return ModelPart::kEmbeddings;
  if (name.starts_with("per_layer_token_embd.")) return ModelPart::kPleTable;
  if (name.starts_with("output_hc_")) return ModelPart::kHyperConnections;
  if (name.starts_with("output.")) return ModelPart::kHead;
  if (name.starts_with("v.") || name.starts_with("mm.")) return ModelPart::kVision;
  return ModelPart::kOther;
}

GgufSummary summarize(const GgufFile& file) {
  constexpr size_t kWhole = std::string_view::npos;
  GgufSummary out;
  out.path = clean(file.path(), kWhole);
  if (const auto name = file.find<std::string_view>("general.architecture");
      name.ok() && name->has_value()) {
    out.trunk_layers = trunk_layers_of(file, std::string(**name));
    out.architecture = clean(**name, kMaxTextBytes);
  }
  for (const GgufShard& shard : file.shards()) {
    out.shards.push_back(shard);
    out.shards.back().path = clean(shard.path, kWhole);
  }
  for (const GgufKeyValue& kv : file.key_values()) {
    out.metadata.push_back(
        {clean(kv.key, kMaxTextBytes), kv.value.type_name(), value_text(kv.value)});
  }

  std::vector<GgufSummary::Total> types(kQuantTypeCount);
  std::vector<GgufSummary::Total> parts(kModelPartCount);
  for (size_t i = 0; i < types.size(); ++i) {
    types[i].name = quant_info(static_cast<QuantType>(i)).name;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].name = model_part_name(static_cast<ModelPart>(i));
  }
  out.total.name = "total";
  for (const TensorInfo& t : file.tensors()) {
    const ModelPart part = model_part(t.name, out.trunk_layers);
    out.tensors.push_back(
        {clean(t.name, kWhole), t.shape, quant_info(t.type).name, t.bytes, t.shard, part});
    count(types[static_cast<size_t>(t.type)], t);
    count(parts[static_cast<size_t>(part)], t);
    count(out.total, t);
  }
  const auto is_empty = [](const GgufSummary::Total& t) { return t.tensors == 0; };
  std::erase_if(types, is_empty);
  std::erase_if(parts, is_empty);
  std::ranges::stable_sort(types, std::greater<>(), &GgufSummary::Total::bytes);
  out.by_type = std::move(types);
  out.by_part = std::move(parts);
  return out;
}

nlohmann::ordered_json to_json(const GgufSummary& s) {
  using Json = nlohmann::ordered_json;
  Json out = {{"path", s.path}, {"architecture", s.architecture}};
  out["trunk_layers"] = s.trunk_layers >= 0 ? Json(s.trunk_layers) : Json();
  out["shards"] = Json::array();
  for (const GgufShard& shard : s.shards) {
    out["shards"].push_back({{"path", shard.path},
                             {"bytes", shard.bytes},
                             {"version", shard.version},
                             {"alignment", shard.alignment},
                             {"tensors", shard.tensor_count}});
  }
  out["total"] = total_json(s.total);
  out["by_type"] = totals_json(s.by_type);
  out["by_part"] = totals_json(s.by_part);
  out["metadata"] = Json::array();
  for (const auto& m : s.metadata) {
    out["metadata"].push_back({{"key", m.key}, {"type", m.type}, {"value", m.value}});
  }
  out["tensors"] = Json::array();
  for (const auto& t : s.tensors) {
    out["tensors"].push_back({{"name", t.name},
                              {"shape", t.shape},
                              {"type", t.type},
                              {"bytes", t.bytes},
                              {"shard", t.shard},
                              {"part", model_part_name(t.part)}});
  }
  return out;
}

}  // namespace strata
