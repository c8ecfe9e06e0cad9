#include "apps/bench_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "apps/bench_stats.h"
#include "backend/cpu/cpu_device.h"

namespace strata::apps {

namespace {

using Json = BenchJson;

constexpr struct {
  backend::FeatureSet bit;
  const char* name;
} kCpuFeatures[] = {
    {backend::kCpuAvx2, "avx2"},
    {backend::kCpuAvxVnni, "avxvnni"},
    {backend::kCpuAvx512, "avx512"},
    {backend::kCpuAvx512Vnni, "avx512vnni"},
    {backend::kCpuAvx512Vbmi, "avx512vbmi"},
    {backend::kCpuNeonDot, "neondot"},
    {backend::kCpuNeonI8mm, "neoni8mm"},
};

double number(const Json& value) { return value.get<double>(); }
std::string text(const Json& value) { return value.get<std::string>(); }
int64_t whole(const Json& value) { return value.get<int64_t>(); }

std::string joined(const Json& words, std::string_view separator) {
  std::string out;
  for (const Json& word : words) {
    if (!out.empty()) out += separator;
    out += text(word);
  }
  return out;
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// "avx512vnni", or what each instruction set is used for when there are several.
std::string kernel_line(const Json& kernels) {
  if (kernels.size() == 1) return fmt::format("{} for every op", kernels.begin().key());
  std::string out;
  for (const auto& [set, ops] : kernels.items()) {
    out += fmt::format("{}{} for {}", out.empty() ? "" : "; ", set, joined(ops, ", "));
  }
  return out;
}

std::string csv_field(const std::string& value) {
  if (value.find_first_of(",\"\r\n") == std::string::npos) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace

Json device_report(const backend::Device& device) {
  const backend::DeviceCaps& caps = device.caps();
  Json features = Json::array();
  for (const auto& feature : kCpuFeatures) {
    if ((caps.features & feature.bit) != 0) features.push_back(feature.name);
  }
  return {{"name", caps.name},
          {"arch", caps.arch},
          {"workers", caps.workers},
          {"features", features},
          {"memory_bytes", caps.memory_bytes}};
}

Json kernel_report(const backend::Device& device, const GgufFile& file) {
  std::set<QuantType> types;
  for (const TensorInfo& tensor : file.tensors()) types.insert(tensor.type);
  std::map<std::string, std::vector<std::string>> chosen;
  for (int i = 0; i < static_cast<int>(backend::OpId::kCount); ++i) {
    const auto op = static_cast<backend::OpId>(i);
    std::set<std::string> sets;
    for (const QuantType type : types) {
      const backend::KernelSpec* row = device.kernels().find(op, type);
      if (row == nullptr) continue;
      const std::string name = row->name;
      sets.insert(name.substr(std::min(name.find('/') + 1, name.size())));
    }
    for (const std::string& set : sets) chosen[set].push_back(backend::op_name(op));
  }
  return chosen;
}

Json memory_report(const MemoryMeter& memory) {
  return {{"bytes_per_s", memory.best()},
          {"buffer_bytes", memory.buffer_bytes()},
          {"cache_bytes", memory.cache_bytes()},
          {"passes", memory.passes()}};
}

Json result_report(std::span<const BenchMeasure> measures, double memory_rate) {
  Json results = Json::array();
  for (const BenchMeasure& measure : measures) {
    const bool decode = measure.kind == BenchMeasure::Kind::kDecode;
    std::vector<double> rates;
    for (const double seconds : measure.seconds) {
      rates.push_back(measure.tokens_per_round() / std::max(seconds, 1e-9));
    }
    const Spread rate = spread_of(rates);
    Json result = {
        {"test", decode ? "decode" : "prompt"},
        {"depth", measure.depth},
        {"rows", measure.rows},
        {"tokens", measure.tokens},
        {"tokens_per_s", {{"median", rate.median}, {"least", rate.least}, {"most", rate.most}}},
        {"seconds", measure.seconds}};
    if (decode) {
      const double steps_per_s = rate.median / measure.rows;
      const double bytes_per_s = measure.step_bytes * steps_per_s;
      result["step_ms"] = 1e3 / steps_per_s;
      result["step_bytes"] = measure.step_bytes;
      result["bytes_per_s"] = bytes_per_s;
      result["memory_share"] = bytes_per_s / memory_rate;
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::string bench_table(const Json& report) {
  const Json& strata = report["strata"];
  const Json& device = report["device"];
  const Json& model = report["model"];
  const Json& settings = report["settings"];
  const Json& memory = report["memory"];
  const auto plural = [](int64_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  std::string out = fmt::format("strata    {}, {}, {}\n", text(strata["version"]),
                                text(strata["compiler"]), text(strata["build"]));
  out += fmt::format(
      "device    {} ({}), {}, {} of memory\n", text(device["name"]),
      device["features"].empty() ? text(device["arch"]) : joined(device["features"], " "),
      plural(whole(device["workers"]), "worker"), gib(whole(device["memory_bytes"])));
  out += fmt::format("kernels   {}\n", kernel_line(report["kernels"]));
  out += fmt::format("model     {}: {:.2f} billion values, {}, {}, {} of {} experts\n",
                     text(model["path"]), number(model["parameters"]) / 1e9,
                     gib(whole(model["file_bytes"])), plural(whole(model["layers"]), "layer"),
                     whole(model["experts_used"]), whole(model["experts"]));
  out += fmt::format("settings  kv {}, prompt chunk {}, {}, {} after a warm-up\n",
                     text(settings["kv"]), whole(settings["prompt_chunk"]),
                     plural(whole(settings["steps"]), "step"),
                     plural(whole(settings["repeat"]), "round"));
  out += fmt::format("memory    {:.1f} GB/s read (best of {} times over {:.0f} MiB)\n\n",
                     number(memory["bytes_per_s"]) / 1e9, whole(memory["passes"]),
                     number(memory["buffer_bytes"]) / (1 << 20));

  out += fmt::format("{:<7} {:>6} {:>6} {:>4} {:>10} {:>19} {:>9} {:>9} {:>7} {:>7}\n", "test",
                     "tokens", "depth", "rows", "tokens/s", "slowest .. fastest", "ms/step",
                     "MB/step", "GB/s", "memory");
  bool cached = false;
  for (const Json& result : report["results"]) {
    const Json& rate = result["tokens_per_s"];
    out += fmt::format(
        "{:<7} {:>6} {:>6} {:>4} {:>10.2f} {:>19}", text(result["test"]), whole(result["tokens"]),
        whole(result["depth"]), whole(result["rows"]), number(rate["median"]),
        fmt::format("{:.2f} .. {:.2f}", number(rate["least"]), number(rate["most"])));
    if (result.contains("step_bytes")) {
      out += fmt::format(" {:>9.2f} {:>9.1f} {:>7.1f} {:>6.1f}%", number(result["step_ms"]),
                         number(result["step_bytes"]) / 1e6, number(result["bytes_per_s"]) / 1e9,
                         100 * number(result["memory_share"]));
      cached = cached || number(result["step_bytes"]) < number(memory["cache_bytes"]);
    }
    out += '\n';
  }
  if (cached) {
    out += "\nA step reads less than the last-level cache holds: its rate is not that of memory.\n";
  }
  return out;
}

std::string bench_csv(const Json& report) {
  std::string out =
      "model,device,workers,kv,prompt_chunk,test,tokens,depth,rows,tokens_per_s,least,most,step_ms,"
      "step_bytes,bytes_per_s,memory_bytes_per_s,memory_share\n";
  const Json& settings = report["settings"];
  for (const Json& result : report["results"]) {
    const Json& rate = result["tokens_per_s"];
    out += fmt::format(
        "{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},",
        csv_field(text(report["model"]["path"])), csv_field(text(report["device"]["name"])),
        whole(report["device"]["workers"]), text(settings["kv"]), whole(settings["prompt_chunk"]),
        text(result["test"]), whole(result["tokens"]), whole(result["depth"]),
        whole(result["rows"]), number(rate["median"]), number(rate["least"]), number(rate["most"]));
    const double memory_rate = number(report["memory"]["bytes_per_s"]);
    if (result.contains("step_bytes")) {
      out += fmt::format("{:.6g},{:.0f},{:.6g},{:.6g},{:.4g}\n", number(result["step_ms"]),
                         number(result["step_bytes"]), number(result["bytes_per_s"]), memory_rate,
                         number(result["memory_share"]));
    } else {
      out += fmt::format(",,,{:.6g},\n", memory_rate);
    }
  }
  return out;
}

}  // namespace strata::apps
