#include "engine/planner/plan_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

namespace strata::engine {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kMostOff = 1.25;

std::string points_text(const Plan& plan) {
  const std::vector<int> points = plan.split_points();
  return points.empty() ? "none" : fmt::format("{}", fmt::join(points, ","));
}

std::string count_word(size_t count) {
  constexpr std::array<const char*, 10> kWords = {"no",   "one", "two",   "three", "four",
                                                  "five", "six", "seven", "eight", "nine"};
  return count < kWords.size() ? kWords[count] : fmt::format("{}", count);
}

// "prompts were predicted at 633 tok/s and measured at 400 tok/s (1.58 times as slow)"
std::optional<std::string> off_by(std::string_view what, std::string_view unit, double predicted,
                                  double measured, bool less_is_faster) {
  if (!(predicted > 0) || !(measured > 0)) return std::nullopt;
  const double slower = less_is_faster ? measured / predicted : predicted / measured;
  if (slower <= kMostOff && 1 / slower <= kMostOff) return std::nullopt;
  return fmt::format(
      "{} were predicted at {:.4g} {} and measured at {:.4g} {} ({:.2f} times as {})", what,
      predicted, unit, measured, unit, slower > 1 ? slower : 1 / slower,
      slower > 1 ? "slow" : "fast");
}

using Row = std::vector<std::string>;

std::string layout(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format(" {:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    out += line + "\n";
  }
  return out;
}

std::string pairs_text(const PlanStage& stage) {
  if (stage.cpu) return "in RAM";
  return stage.resident_pairs == stage.pairs
             ? "all"
             : fmt::format("{}/{}", stage.resident_pairs, stage.pairs);
}

}  // namespace

std::string gib_text(uint64_t bytes) {
  constexpr double kMib = 1024.0 * 1024.0;
  const double mib = static_cast<double>(bytes) / kMib;
  return mib < 1000 ? fmt::format("{:.0f} MiB", std::ceil(mib))
                    : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string split_line(const Plan& plan) {
  return fmt::format(
      "layer split {}: K={} predicted {:.1f} ms per decode window; the caches hold {} of {} {} "
      "(~{:.1f}% of the "
      "routed mass)",
      plan.automatic ? "auto" : "given", points_text(plan), plan.decode_ms, plan.resident_pairs(),
      plan.pairs(), plan.profiled ? "profiled pairs" : "pairs", 100 * plan.resident_mass());
}

std::string layers_line(const Plan& plan) {
  std::string out = "layers ";
  for (const PlanStage& stage : plan.stages) {
    out += fmt::format("{}{}-{} ({})", &stage == &plan.stages.front() ? "" : ", ", stage.first,
                       stage.last, stage.title);
  }
  const size_t handoffs = plan.stages.size() - 1;
  return out +
         fmt::format(", {} hand-off{} per window", count_word(handoffs), handoffs == 1 ? "" : "s");
}

std::string brief_layers(const Plan& plan) {
  std::string out;
  for (const PlanStage& stage : plan.stages) {
    out += fmt::format("{}{} {}-{}", out.empty() ? "" : ", ", stage.id, stage.first, stage.last);
  }
  return out;
}

std::string plan_table(const Plan& plan) {
  std::vector<Row> rows = {{"device", "layers", "weights", "experts", "held", "cache", "scratch",
                            "used", "free", "ms/window", "ms/chunk"}};
  for (const PlanStage& stage : plan.stages) {
    const uint64_t used = stage.used_bytes();
    rows.push_back(
        {stage.title, fmt::format("{}-{}", stage.first, stage.last),
         gib_text(stage.dense_bytes + stage.embedding_bytes + stage.head_bytes + stage.draft_bytes),
         gib_text(stage.expert_bytes), pairs_text(stage),
         gib_text(stage.cache_bytes + stage.state_bytes), gib_text(stage.workspace_bytes),
         gib_text(used), gib_text(stage.free_bytes - std::min(stage.free_bytes, used)),
         fmt::format("{:.2f}", stage.decode_ms), fmt::format("{:.1f}", stage.chunk_ms)});
  }
  std::string out = layout(rows);
  out += fmt::format("\n{}\n{}\n", split_line(plan), layers_line(plan));
  out += fmt::format(
      "predicted: {:.1f} windows/s of {} token{}, prompts {:.0f} tok/s ({} tokens in chunks of "
      "{}), "
      "context {}\n",
      1e3 / plan.decode_ms, plan.window_rows, plan.window_rows == 1 ? "" : "s", plan.prompt_tok_s,
      plan.prompt_tokens, plan.chunk, plan.context);
  out += "order: " + plan.order + "\n";
  if (!plan.rejected.empty()) out += "\nrejected\n";
  for (const RejectedPlan& other : plan.rejected)
    out += fmt::format("  {}: {}\n", other.what, other.why);
  if (!plan.warnings.empty()) out += "\nwarnings\n";
  for (const std::string& warning : plan.warnings) out += "  " + warning + "\n";
  return out;
}

Json plan_json(const Plan& plan) {
  Json stages = Json::array();
  for (const PlanStage& stage : plan.stages) {
    stages.push_back({{"device", stage.id},
                      {"title", stage.title},
                      {"first_layer", stage.first},
                      {"last_layer", stage.last},
                      {"bytes",
                       {{"dense", stage.dense_bytes},
                        {"experts", stage.expert_bytes},
                        {"embedding", stage.embedding_bytes},
                        {"head", stage.head_bytes},
                        {"draft", stage.draft_bytes},
                        {"cache", stage.cache_bytes},
                        {"state", stage.state_bytes},
                        {"workspace", stage.workspace_bytes},
                        {"used", stage.used_bytes()},
                        {"free_before", stage.free_bytes},
                        {"experts_in_ram", stage.ram_expert_bytes},
                        {"read_from_disk", stage.disk_bytes}}},
                      {"pairs", stage.pairs},
                      {"resident_pairs", stage.resident_pairs},
                      {"resident_mass", stage.resident_mass},
                      {"predicted_ms_per_window", stage.decode_ms},
                      {"predicted_ms_per_chunk", stage.chunk_ms}});
  }
  Json rejected = Json::array();
  for (const RejectedPlan& other : plan.rejected)
    rejected.push_back({{"what", other.what}, {"why", other.why}});
  return {{"layer_split", plan.automatic ? "auto" : "given"},
          {"split_points", plan.split_points()},
          {"stages", std::move(stages)},
          {"order", plan.order},
          {"prompt_chunk", plan.chunk},
          {"context", plan.context},
          {"window_tokens", plan.window_rows},
          {"predicted_ms_per_window", plan.decode_ms},
          {"predicted_prompt_tok_s", plan.prompt_tok_s},
          {"prompt_tokens", plan.prompt_tokens},
          {"profiled", plan.profiled},
          {"pairs", plan.pairs()},
          {"resident_pairs", plan.resident_pairs()},
          {"resident_mass", plan.resident_mass()},
          {"lines", {split_line(plan), layers_line(plan)}},
          {"rejected", std::move(rejected)},
          {"warnings", plan.warnings}};
}

std::optional<std::string> compare_prediction(const Plan& plan, const MeasuredSpeed& measured) {
  std::optional<std::string> decode, prompt;
  if (measured.decode_ms) {
    decode = off_by("decode windows", "ms", plan.decode_ms, *measured.decode_ms, true);
  }
  if (measured.prompt_tok_s) {
    prompt = off_by("prompts", "tok/s", plan.prompt_tok_s, *measured.prompt_tok_s, false);
  }
  if (!decode && !prompt) return std::nullopt;
  return fmt::format(
      "the plan was wrong: {}{}{}; the split may not be the best one, --layer-split sets another",
      decode.value_or(""), decode && prompt ? ", and " : "", prompt.value_or(""));
}

}  // namespace strata::engine
