#include <fmt/ranges.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/files.h"
#include "apps/model_source.h"
#include "apps/report.h"
#include "format/summary.h"

namespace strata::apps {

namespace {

std::string size_text(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) value /= 1024.0;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string totals(std::string_view title, const std::vector<GgufSummary::Total>& rows) {
  std::string out =
      fmt::format("\n{:<20} {:>8} {:>18} {:>12}\n", title, "tensors", "values", "size");
  for (const auto& row : rows) {
    out += fmt::format("  {:<18} {:>8} {:>18} {:>12}\n", row.name, row.tensors, row.elems,
                       size_text(row.bytes));
  }
  return out;
}

std::string describe(const GgufSummary& summary, const Settings& settings) {
  std::string out =
      fmt::format("{}\narchitecture {}, {} values in {} tensors, {}\n", summary.path,
                  summary.architecture.empty() ? "not named" : summary.architecture,
                  summary.total.elems, summary.total.tensors, size_text(summary.total.bytes));
  out += "\nshards\n";
  for (const GgufShard& shard : summary.shards) {
    out += fmt::format("  {}: GGUF version {}, {} tensors, {}\n", shard.path, shard.version,
                       shard.tensor_count, size_text(shard.bytes));
  }
  out += totals("types", summary.by_type);
  out += totals("parts", summary.by_part);
  if (settings.metadata) {
    out += "\nmetadata\n";
    for (const auto& entry : summary.metadata) {
      out += fmt::format("  {} ({}): {}\n", entry.key, entry.type, entry.value);
    }
  }
  if (settings.tensors) {
    out += "\ntensors\n";
    for (const auto& tensor : summary.tensors) {
      out +=
          fmt::format("  {:<44} {:<22} {:<8} {:>12}  {}\n", tensor.name, shape_text(tensor.shape),
                      tensor.type, size_text(tensor.bytes), model_part_name(tensor.part));
    }
  }
  return is_terminal(STDOUT_FILENO) ? fit_for_terminal(out) : out;
}

}  // namespace

int inspect_command(const Settings& settings) {
  const Result<GgufFile> file = open_model_file(settings);
  if (!file.ok()) return report_failure(file.status());
  const GgufSummary summary = summarize(*file);
  if (!settings.json) return print_result(describe(summary, settings));
  nlohmann::ordered_json json = to_json(summary);
  // The long lists only where they are asked for.
  if (!settings.tensors) json.erase("tensors");
  if (!settings.metadata) json.erase("metadata");
  return print_result(json.dump(2) + "\n");
}

}  // namespace strata::apps
