#include "engine/planner/planner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "engine/planner/plan_refusal.h"
#include "engine/planner/plan_text.h"
#include "engine/planner/split_search.h"
#include "engine/planner/stage_cost.h"

namespace strata::engine {

namespace {

constexpr int kLeastChunk = 64;
constexpr int kMostChunk = 8192;
// Beyond so many devices, what the plan would be with or without each is not worth the time.
constexpr size_t kMostLeftOut = 4;
// How close to the best the alternatives are that are only shown.
constexpr double kLooseTolerance = 0.02;

// The tables of one chunk size.
struct ChunkTable {
  std::unique_ptr<StageCosts> costs;
  StageTable table{0, 0};
  double peak_weight = 0;
};

struct Choice {
  const ChunkTable* at = nullptr;
  FoundSplit split;
};

bool equal_devices(const PlanDevice& a, const PlanDevice& b) {
  return a.kind == b.kind && a.free_bytes == b.free_bytes && a.memory_gbs == b.memory_gbs &&
         a.int8_tops == b.int8_tops && a.launch_us == b.launch_us &&
         a.to_device_gbs == b.to_device_gbs && a.to_host_gbs == b.to_host_gbs;
}

class Planner {
 public:
  Planner(const ModelCost& model, std::span<const PlanDevice> devices, const PlanOptions& options,
          const EngineAbilities& abilities)
      : model_(model),
        devices_(devices),
        options_(options),
        abilities_(abilities),
        profile_(options.profile != nullptr
                     ? *options.profile
                     : ExpertProfile::even(static_cast<int>(model.layers.size()),
                                           model.layers.front().experts)),
        layers_(static_cast<int>(model.layers.size())),
        prompt_(std::min(options.context, kPromptTokens)) {
    for (size_t i = 0; i < devices.size(); ++i) {
      if (devices[i].may_be_stage) usable_.push_back(static_cast<int>(i));
      int twin = -1;  // the nearest equal device before, so that equal ones are used in turn
      for (size_t j = i; twin < 0 && j-- > 0;) {
        if (devices[j].may_be_stage && equal_devices(devices[j], devices[i]))
          twin = static_cast<int>(j);
      }
      twins_.push_back(twin);
    }
  }

  Result<Plan> run() {
    build_tables();
    std::optional<Choice> chosen;
    if (options_.skip_split_if_fits) chosen = best_card_that_holds_all();
    if (!chosen) chosen = best(wanted_rules());
    if (!chosen) return refuse_plan(refusal());
    if (options_.split.automatic) leave_out_idlers(*chosen);
    settle_order(*chosen);
    Plan plan = describe(*chosen);
    explain(*chosen, plan);
    warn(plan);
    return plan;
  }

 private:
  void build_tables() {
    std::vector<int> chunks;
    if (options_.prompt_chunk > 0) {
      chunks.push_back(std::min(options_.prompt_chunk, prompt_));
    } else {
      for (int chunk = kLeastChunk; chunk <= std::min(kMostChunk, prompt_); chunk *= 2)
        chunks.push_back(chunk);
      if (chunks.empty()) chunks.push_back(prompt_);
      // Two chunks for each device are a good guess, and a good plan first makes the search short.
      const double guess = std::log2(prompt_ / (2.0 * static_cast<double>(usable_.size())));
      std::stable_sort(chunks.begin(), chunks.end(), [&](int a, int b) {
        return std::abs(std::log2(a) - guess) < std::abs(std::log2(b) - guess);
      });
    }
    for (const int chunk : chunks) {
      ChunkTable entry;
      entry.costs =
          std::make_unique<StageCosts>(model_, devices_, options_, abilities_, profile_, chunk);
      entry.table = StageTable(static_cast<int>(devices_.size()), layers_);
      const double pieces = std::ceil(static_cast<double>(prompt_) / chunk);
      entry.peak_weight = abilities_.prompt_pipeline ? pieces - 1 : 0;
      const double times = abilities_.prompt_pipeline ? 1 : pieces;
      for (const int device : usable_) {
        for (int first = 0; first < layers_; ++first) {
          for (int end = first + 1; end <= layers_; ++end) {
            const StageCost cost = entry.costs->stage(static_cast<size_t>(device), first, end);
            if (!cost.fits) break;
            entry.table.sum[entry.table.at(device, first, end)] =
                kRequestWindows * cost.decode_ms + times * cost.chunk_ms;
            entry.table.peak[entry.table.at(device, first, end)] = cost.busy_ms();
          }
        }
      }
      tables_.push_back(std::move(entry));
    }
  }

  SearchRules rules(SearchRules::Order mode, std::vector<int> order) const {
    SearchRules out;
    out.mode = mode;
    out.order = std::move(order);
    out.twin = twins_;
    return out;
  }

  bool too_many_to_order() const { return usable_.size() > kMostFreeDevices; }

  // What may be used, in the order that the options ask for.
  SearchRules free_rules(const std::vector<int>& order) const {
    const bool given = options_.order_as_given || order.size() > kMostFreeDevices;
    return rules(given ? SearchRules::Order::kInOrder : SearchRules::Order::kAny, order);
  }

  SearchRules wanted_rules() const {
    SearchRules out = free_rules(usable_);
    if (!options_.split.automatic) {
      out.forced = true;
      out.points = options_.split.points;
    }
    return out;
  }

  std::optional<Choice> best(const SearchRules& rules) const {
    std::optional<Choice> chosen;
    if (!rules.forced && rules.required < 0 && rules.mode != SearchRules::Order::kAllInOrder) {
      for (const int device : rules.order) {
        auto alone = best_alone(device);
        if (alone && (!chosen || alone->split.total < chosen->split.total))
          chosen = std::move(alone);
      }
    }
    if (!abilities_.layer_split) return chosen;
    for (const ChunkTable& entry : tables_) {
      auto found = search_split(entry.table, entry.peak_weight, rules, kSearchTolerance,
                                chosen ? chosen->split.total : kImpossible);
      if (found) chosen = Choice{&entry, std::move(*found)};
    }
    return chosen;
  }

  std::optional<Choice> best_alone(int device) const {
    std::optional<Choice> chosen;
    for (const ChunkTable& entry : tables_) {
      const size_t at = entry.table.at(device, 0, layers_);
      const double total = entry.table.sum[at] + entry.peak_weight * entry.table.peak[at];
      if (total < (chosen ? chosen->split.total : kImpossible)) {
        chosen = Choice{&entry, {.stages = {{device, 0, layers_}}, .total = total}};
      }
    }
    return chosen;
  }

  std::optional<Choice> best_card_that_holds_all() const {
    std::optional<Choice> chosen;
    for (const int device : usable_) {
      if (devices_[static_cast<size_t>(device)].is_cpu()) continue;
      auto alone = best_alone(device);
      if (!alone || (chosen && alone->split.total >= chosen->split.total)) continue;
      const PlanStage stage = alone->at->costs->describe(static_cast<size_t>(device), 0, layers_);
      if (stage.resident_pairs == stage.pairs) chosen = std::move(alone);
    }
    return chosen;
  }

  // The best split under other rules: with the chosen chunk where it fits, else with any.
  std::optional<Choice> alternative(const Choice& chosen, const SearchRules& rules,
                                    double tolerance = kLooseTolerance) const {
    auto found = search_split(chosen.at->table, chosen.at->peak_weight, rules, tolerance);
    if (found) return Choice{chosen.at, std::move(*found)};
    return best(rules);
  }

  static std::vector<int> used(const FoundSplit& split) {
    std::vector<int> out;
    for (const FoundStage& stage : split.stages) out.push_back(stage.device);
    return out;
  }

  // A device that gains less than kWorthADevice stays out of the plan: no prediction is so exact.
  void leave_out_idlers(Choice& chosen) const {
    const double enough = chosen.split.total * (1 + kWorthADevice);
    while (chosen.split.stages.size() > 1) {
      std::optional<Choice> fewer;
      for (const int device : usable_) {
        auto alone = best_alone(device);
        if (alone && alone->split.total <= enough &&
            (!fewer || alone->split.total < fewer->split.total)) {
          fewer = std::move(alone);
        }
      }
      const std::vector<int> order = used(chosen.split);
      for (size_t i = 0; !fewer && i < order.size() && order.size() > 2; ++i) {
        std::vector<int> rest = order;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
        auto found =
            search_split(chosen.at->table, chosen.at->peak_weight,
                         rules(SearchRules::Order::kInOrder, rest), kSearchTolerance, enough);
        if (found) fewer = Choice{chosen.at, std::move(*found)};
      }
      if (!fewer) return;
      chosen = std::move(*fewer);
    }
  }

  // The best split of the chosen devices, now to the last layer. Users number their cards: an order
  // that gains nothing is not worth a surprise.
  void settle_order(Choice& chosen) const {
    SearchRules all = wanted_rules();
    all.mode = SearchRules::Order::kAllInOrder;
    all.order = used(chosen.split);
    const auto polished = search_split(chosen.at->table, chosen.at->peak_weight, all, 0);
    if (polished) chosen.split = *polished;
    if (std::is_sorted(all.order.begin(), all.order.end())) return;
    std::sort(all.order.begin(), all.order.end());
    const auto given = search_split(chosen.at->table, chosen.at->peak_weight, all, 0);
    if (given && given->total <= chosen.split.total * (1 + kSearchTolerance)) chosen.split = *given;
  }

  Plan describe(const Choice& choice) const {
    Plan plan;
    plan.layers = layers_;
    plan.context = options_.context;
    plan.window_rows = abilities_.drafts ? options_.window_rows : 1;
    plan.chunk = choice.at->costs->chunk();
    plan.automatic = options_.split.automatic;
    plan.profiled = options_.profile != nullptr;
    double sum = 0, peak = 0;
    for (const FoundStage& stage : choice.split.stages) {
      plan.stages.push_back(
          choice.at->costs->describe(static_cast<size_t>(stage.device), stage.first, stage.end));
      const PlanStage& planned = plan.stages.back();
      plan.decode_ms += planned.decode_ms;
      sum += planned.chunk_ms;
      peak = std::max({peak, planned.chunk_ms - planned.handoff_ms, planned.handoff_ms});
    }
    const double pieces = std::ceil(static_cast<double>(prompt_) / plan.chunk);
    const double prompt_ms = abilities_.prompt_pipeline ? sum + (pieces - 1) * peak : pieces * sum;
    plan.prompt_tokens = prompt_;
    plan.prompt_tok_s = prompt_ / prompt_ms * 1e3;
    plan.request_ms = kRequestWindows * plan.decode_ms + prompt_ms;
    return plan;
  }

  std::string id(int device) const { return devices_[static_cast<size_t>(device)].id; }

  std::string compare(const Plan& plan, const Plan& other) const {
    return fmt::format(
        "{:.2f} ms instead of {:.2f} ms per decode window, prompts {:.0f} instead of {:.0f} tok/s",
        other.decode_ms, plan.decode_ms, other.prompt_tok_s, plan.prompt_tok_s);
  }

  void reject(const Choice& chosen, Plan& plan, std::string what, const SearchRules& rules,
              std::string_view remark = "") const {
    const auto other = alternative(chosen, rules);
    if (!other) {
      plan.rejected.push_back({std::move(what), "the model does not fit"});
      return;
    }
    const Plan described = describe(*other);
    if (described.stages.size() > 1) what += fmt::format(" ({})", brief_layers(described));
    plan.rejected.push_back(
        {std::move(what), fmt::format("{}{}", compare(plan, described), remark)});
  }

  void reject_alone(Plan& plan, int device) const {
    const std::string what = fmt::format("{} alone", id(device));
    if (const auto alone = best_alone(device)) {
      plan.rejected.push_back({what, compare(plan, describe(*alone))});
      return;
    }
    uint64_t missing = UINT64_MAX;
    for (const ChunkTable& entry : tables_) {
      missing = std::min(missing,
                         entry.costs->stage(static_cast<size_t>(device), 0, layers_).missing_bytes);
    }
    plan.rejected.push_back({what, fmt::format("{} are missing there", gib_text(missing))});
  }

  void explain(const Choice& chosen, Plan& plan) const {
    const std::vector<int> order = used(chosen.split);
    explain_order(chosen, plan, order);
    if (!abilities_.layer_split || !options_.split.automatic) {
      if (!options_.split.automatic && abilities_.layer_split) {
        reject(chosen, plan, "layer split auto", free_rules(usable_), "; the split was given");
      }
      return;
    }
    for (const int device : usable_) {
      if (order.size() > 1 || device != order.front()) reject_alone(plan, device);
    }
    const auto without = [&](int left_out) {
      std::vector<int> rest;
      for (const int device : usable_) {
        if (device != left_out) rest.push_back(device);
      }
      return rest;
    };
    for (const int device : usable_) {
      const bool is_used = std::find(order.begin(), order.end(), device) != order.end();
      const bool cpu = devices_[static_cast<size_t>(device)].is_cpu();
      if (is_used && order.size() > 1 && usable_.size() > 2 &&
          (cpu || usable_.size() <= kMostLeftOut)) {
        reject(chosen, plan, fmt::format("without {}", id(device)), free_rules(without(device)));
      } else if (!is_used && usable_.size() <= kMostLeftOut && !options_.order_as_given) {
        SearchRules with = free_rules(usable_);
        with.required = device;
        reject(chosen, plan, fmt::format("{} as a stage", id(device)), with);
      }
    }
  }

  void explain_order(const Choice& chosen, Plan& plan, const std::vector<int>& order) const {
    std::string names;
    for (const int device : order) {
      names += fmt::format("{}{}", names.empty() ? "" : ", then ",
                           devices_[static_cast<size_t>(device)].title);
    }
    if (order.size() == 1) {
      plan.order = usable_.size() == 1 ? fmt::format("{}: the only device", names)
                   : options_.skip_split_if_fits
                       ? fmt::format("{}: it holds everything, and no split is wanted then", names)
                       : fmt::format("{}: one device is better than any split", names);
      return;
    }
    SearchRules reversed = wanted_rules();
    reversed.mode = SearchRules::Order::kAllInOrder;
    reversed.order.assign(order.rbegin(), order.rend());
    const auto other = alternative(chosen, reversed, 0);
    std::string why;
    if (!other) {
      why = "in the other order the model does not fit";
    } else if (std::abs(other->split.total - chosen.split.total) <=
               kSearchTolerance * chosen.split.total) {
      why = "both orders cost the same";
    } else {
      const Plan described = describe(*other);
      why = fmt::format("the other order predicts {:.2f} ms per decode window and {:.0f} tok/s",
                        described.decode_ms, described.prompt_tok_s);
      plan.rejected.push_back(
          {fmt::format("the other order ({})", brief_layers(described)), compare(plan, described)});
    }
    if (options_.order_as_given || too_many_to_order()) why = "the order given; " + why;
    plan.order = fmt::format("{}: {}", names, why);
  }

  void warn(Plan& plan) const {
    if (!abilities_.drafts && options_.window_rows > 1) {
      plan.warnings.push_back(fmt::format(
          "drafts are not built yet: a decode window has 1 token, not {}", options_.window_rows));
    }
    if (too_many_to_order()) {
      plan.warnings.push_back(
          fmt::format("with {} devices only the order given is looked at (up to {} devices: "
                      "every order)",
                      usable_.size(), kMostFreeDevices));
    }
    uint64_t in_ram = 0, ram = 0;
    bool partial = false;
    for (const PlanDevice& device : devices_) {
      if (device.is_cpu()) ram = std::max(ram, device.free_bytes);
    }
    uint64_t on_disk = 0;
    for (const PlanStage& stage : plan.stages) {
      in_ram += stage.cpu ? stage.used_bytes() : stage.ram_expert_bytes;
      on_disk += stage.disk_bytes;
      partial = partial || stage.ram_expert_bytes > 0;
    }
    on_disk = std::max(on_disk, in_ram - std::min(in_ram, ram));
    if (on_disk > 0) {
      plan.warnings.push_back(
          fmt::format("RAM lacks {}: so much of the weights is read from the disk again and again, "
                      "predicted at {} "
                      "GB/s, which is not measured; use a smaller file or more cards",
                      gib_text(on_disk), kDiskGbs));
    }
    if (partial && !plan.profiled) {
      plan.warnings.push_back(
          "no expert profile: the caches are filled evenly and hold less of the routed "
          "work than they could; give --expert-profile");
    }
  }

  PlanRefusal refusal() const {
    PlanRefusal out;
    for (const ChunkTable& entry : tables_) {
      if (out.costs == nullptr || entry.costs->chunk() < out.costs->chunk())
        out.costs = entry.costs.get();
    }
    out.model = &model_;
    out.devices = devices_;
    out.usable = usable_;
    out.options = &options_;
    out.layers = layers_;
    out.abilities = &abilities_;
    return out;
  }

  const ModelCost& model_;
  std::span<const PlanDevice> devices_;
  const PlanOptions& options_;
  const EngineAbilities& abilities_;
  const ExpertProfile profile_;
  const int layers_;
  const int prompt_;
  std::vector<int> usable_;  // devices that may be stages
  std::vector<int> twins_;
  std::vector<ChunkTable> tables_;
};

Status check_input(const ModelCost& model, std::span<const PlanDevice> devices,
                   const PlanOptions& options, const EngineAbilities& abilities) {
  if (model.layers.empty()) return invalid_argument("{}: the model has no layers", model.name);
  if (options.context < 1 || options.sequences < 1 || options.window_rows < 1 ||
      options.prompt_chunk < 0) {
    return invalid_argument(
        "a plan needs a context, sequences and window of one or more, got {}, {} and {}",
        options.context, options.sequences, options.window_rows);
  }
  size_t usable = 0, cpus = 0;
  for (const PlanDevice& device : devices) {
    usable += device.may_be_stage ? 1 : 0;
    cpus += device.is_cpu() ? 1 : 0;
    for (const double rate :
         {device.memory_gbs, device.int8_tops, device.to_device_gbs, device.to_host_gbs}) {
      if (!(rate > 0) || !std::isfinite(rate)) {
        return invalid_argument("{}: a rate of {} is no measurement; measure the device again",
                                device.title, rate);
      }
    }
    if (!(device.launch_us >= 0) || !std::isfinite(device.launch_us)) {
      return invalid_argument("{}: {} us per launch is no measurement; measure the device again",
                              device.title, device.launch_us);
    }
  }
  if (usable == 0)
    return invalid_argument("there is no device to run the model on; name one with --devices");
  if (cpus > 1) return invalid_argument("the devices name {} CPUs; a machine has one", cpus);
  if (options.profile != nullptr) {
    STRATA_RETURN_IF_ERROR(options.profile->suits(static_cast<int>(model.layers.size()),
                                                  model.layers.front().experts));
  }
  STRATA_RETURN_IF_ERROR(
      check_layer_split(options.split, static_cast<int>(model.layers.size()), usable));
  if (!options.split.automatic && !abilities.layer_split) {
    return unimplemented("layer split {}: this build runs a model on one device only",
                         options.split.text());
  }
  return {};
}

}  // namespace

Result<Plan> make_plan(const ModelCost& model, std::span<const PlanDevice> devices,
                       const PlanOptions& options, const EngineAbilities& abilities) {
  STRATA_RETURN_IF_ERROR(check_input(model, devices, options, abilities));
  return Planner(model, devices, options, abilities).run();
}

}  // namespace strata::engine
