#include "engine/planner/stage_cost.h"

#include <algorithm>
#include <cmath>

namespace strata::engine {

namespace {

constexpr size_t kGridCells = 512;
constexpr double kSyncMs = 2 * kFlagMs;

double ms_at(double bytes, double gbs) { return bytes / gbs * 1e-6; }

int64_t context_of(const PlanOptions& options) { return options.context; }

}  // namespace

StageCosts::StageCosts(const ModelCost& model, std::span<const PlanDevice> devices,
                       const PlanOptions& options, const EngineAbilities& abilities,
                       const ExpertProfile& profile, int chunk)
    : model_(model),
      devices_(devices),
      options_(options),
      abilities_(abilities),
      profile_(profile),
      chunk_(chunk),
      layers_(static_cast<int>(model.layers.size())),
      window_rows_(abilities.drafts ? options.window_rows : 1),
      drafting_(abilities.drafts && model.draft && options.window_rows > 1) {
  const int64_t context = context_of(options);
  workspace_ = model.step_bytes(chunk, options.window_rows, context);
  travelling_ = model.handoff_bytes(chunk);
  for (const PlanDevice& device : devices) {
    if (device.is_cpu() && helper_ == nullptr) helper_ = &device;
  }
  const double depth = static_cast<double>(std::min<int64_t>(context, kDecodeDepth));
  before_.resize(model.layers.size() + 1);
  for (size_t il = 0; il < model.layers.size(); ++il) {
    const LayerCost& layer = model.layers[il];
    const double cells = layer.most_cells > 0 ? std::min<double>(depth, layer.most_cells) : depth;
    const auto cell_bytes =
        static_cast<double>(backend::kv_bytes(options.kv_type, layer.kv_values));
    Range& sum = before_[il + 1] = before_[il];
    sum.dense += layer.dense_bytes;
    sum.experts += layer.expert_bytes * static_cast<uint64_t>(layer.experts);
    sum.cache += layer_cache_bytes(layer, options.kv_type, context) *
                 static_cast<uint64_t>(options.sequences);
    sum.state += layer.state_bytes * static_cast<uint64_t>(options.sequences);
    sum.one_expert += static_cast<double>(layer.expert_bytes);
    sum.launches += layer.launches;
    sum.macs += layer.dense_macs + layer.state_macs + layer.attention_macs * cells +
                layer.index_macs * depth;
    sum.expert_macs += layer.expert_macs;
    sum.cache_read +=
        static_cast<double>(layer.state_bytes) + cells * cell_bytes + layer.index_bytes * depth;
  }

  const std::vector<uint32_t>& order = profile.order();
  const size_t cells = std::min(kGridCells, order.size());
  points_ = cells + 1;
  grid_bytes_.assign((model.layers.size() + 1) * points_, 0);
  grid_share_.assign(model.layers.size() * points_, 0);
  std::vector<double> count(model.layers.size(), 0), share(model.layers.size(), 0);
  size_t next = 0;
  for (size_t g = 0; g < points_; ++g) {
    for (const size_t end = order.size() * g / cells; next < end; ++next) {
      const size_t layer = order[next] / static_cast<uint32_t>(profile.experts());
      count[layer] += 1;
      share[layer] += profile.share(order[next]);
    }
    for (size_t il = 0; il < model.layers.size(); ++il) {
      grid_share_[il * points_ + g] = share[il];
      grid_bytes_[(il + 1) * points_ + g] =
          grid_bytes_[il * points_ + g] +
          count[il] * static_cast<double>(model.layers[il].expert_bytes);
    }
  }
}

StageCosts::Range StageCosts::range(int first, int end) const {
  const Range &a = before_[static_cast<size_t>(first)], &b = before_[static_cast<size_t>(end)];
  return {.dense = b.dense - a.dense,
          .experts = b.experts - a.experts,
          .cache = b.cache - a.cache,
          .state = b.state - a.state,
          .one_expert = b.one_expert - a.one_expert,
          .launches = b.launches - a.launches,
          .macs = b.macs - a.macs,
          .expert_macs = b.expert_macs - a.expert_macs,
          .cache_read = b.cache_read - a.cache_read};
}

StageCosts::Ends StageCosts::ends(int first, int end) const {
  Ends out;
  if (first == 0) out.embedding = model_.embedding_bytes;
  if (end == layers_) {
    out.head = model_.head_bytes;
    if (model_.tied && first == 0) out.embedding = 0;
    if (drafting_) {
      const LayerCost& draft = *model_.draft;
      out.draft =
          draft.dense_bytes + draft.expert_bytes * static_cast<uint64_t>(draft.experts) +
          (layer_cache_bytes(draft, options_.kv_type, context_of(options_)) + draft.state_bytes) *
              static_cast<uint64_t>(options_.sequences);
    }
  }
  return out;
}

uint64_t StageCosts::expert_bytes(int first, int end) const { return range(first, end).experts; }

uint64_t StageCosts::base_bytes(int first, int end) const {
  const Range r = range(first, end);
  const Ends e = ends(first, end);
  return r.dense + r.cache + r.state + e.embedding + e.head + e.draft + workspace(first, end);
}

CacheFill StageCosts::fill(uint64_t room, int first, int end) const {
  const auto bytes = [&](size_t g) {
    return grid_bytes_[static_cast<size_t>(end) * points_ + g] -
           grid_bytes_[static_cast<size_t>(first) * points_ + g];
  };
  const double limit = static_cast<double>(room);
  size_t low = 0, high = points_ - 1;  // bytes(low) <= limit; above high they are more
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    if (bytes(middle) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  CacheFill out{.whole = low + 1 == points_, .grid = low, .rest = 0};
  if (!out.whole) {
    const double step = bytes(low + 1) - bytes(low);
    out.rest = step > 0 ? std::clamp((limit - bytes(low)) / step, 0.0, 1.0) : 0.0;
  }
  return out;
}

double StageCosts::held_bytes(int first, int end, const CacheFill& fill) const {
  const auto at = [&](size_t g) {
    return grid_bytes_[static_cast<size_t>(end) * points_ + g] -
           grid_bytes_[static_cast<size_t>(first) * points_ + g];
  };
  if (fill.whole) return at(points_ - 1);
  return at(fill.grid) + fill.rest * (at(fill.grid + 1) - at(fill.grid));
}

double StageCosts::held_share(int layer, const CacheFill& fill) const {
  if (fill.whole) return 1;
  const double* share = &grid_share_[static_cast<size_t>(layer) * points_ + fill.grid];
  return std::min(1.0, share[0] + fill.rest * (share[1] - share[0]));
}

double StageCosts::distinct(double rows) const {
  const double experts = model_.layers.front().experts;
  return std::min(experts, model_.experts_used * std::pow(rows, kUnionExponent));
}

double StageCosts::read_ms(const PlanDevice& device, double bytes) const {
  return ms_at(bytes, device.memory_gbs * (device.is_cpu() ? kCpuReadShare : kCardReadShare));
}

double StageCosts::compute_ms(const PlanDevice& device, double macs) const {
  return 2 * macs / (device.int8_tops * kComputeShare) * 1e-9;
}

StageCosts::Residence StageCosts::residence(size_t index, int first, int end) const {
  const PlanDevice& device = devices_[index];
  const Range r = range(first, end);
  const Ends e = ends(first, end);
  const uint64_t base = base_bytes(first, end);
  Residence out;
  if (device.is_cpu()) {
    const uint64_t weights = r.dense + r.experts + e.embedding + e.head + e.draft;
    const uint64_t other = r.cache + r.state + workspace(first, end);
    if (other > device.free_bytes) {
      out.missing = other - device.free_bytes;
      return out;
    }
    out.disk_bytes = weights - std::min(weights, device.free_bytes - other);
    out.disk_share =
        weights > 0 ? static_cast<double>(out.disk_bytes) / static_cast<double>(weights) : 0;
    out.fits = out.disk_bytes == 0 || abilities_.weights_from_disk;
    if (!out.fits) out.missing = out.disk_bytes;
    return out;
  }
  if (base > device.free_bytes) {
    out.missing = base - device.free_bytes + (abilities_.expert_cache ? 0 : r.experts);
    return out;
  }
  const uint64_t room = device.free_bytes - base;
  if (r.experts <= room) {
    out.fits = true;
    return out;
  }
  if (!abilities_.expert_cache || helper_ == nullptr) {
    out.missing = r.experts - room;
    return out;
  }
  out.fill = fill(room, first, end);
  out.fill.whole = false;
  if (out.fill.grid + 1 == points_) {
    out.fill.grid -= 1;
    out.fill.rest = 1;
  }
  out.in_ram =
      r.experts - std::min(r.experts, static_cast<uint64_t>(held_bytes(first, end, out.fill)));
  out.disk_bytes = out.in_ram - std::min(out.in_ram, helper_->free_bytes);
  out.disk_share =
      out.in_ram > 0 ? static_cast<double>(out.disk_bytes) / static_cast<double>(out.in_ram) : 0;
  out.fits = out.disk_bytes == 0 || abilities_.weights_from_disk;
  if (!out.fits) out.missing = out.disk_bytes;
  return out;
}

double StageCosts::decode_expert_ms(const PlanDevice& device, int first, int end,
                                    const Residence& where) const {
  const double count = distinct(window_rows_);
  const Range r = range(first, end);
  if (device.is_cpu()) {
    const double bytes = count * r.one_expert;
    return read_ms(device, bytes) + ms_at(bytes * where.disk_share, kDiskGbs);
  }
  const bool helped = abilities_.expert_cache && helper_ != nullptr;
  if (where.fill.whole && !helped) return read_ms(device, count * r.one_expert);
  double total = 0;
  for (int il = first; il < end; ++il) {
    const LayerCost& layer = model_.layers[static_cast<size_t>(il)];
    const double bytes = count * static_cast<double>(layer.expert_bytes);
    const double card = read_ms(device, bytes);
    const double cpu =
        std::max(read_ms(*helper_, bytes),
                 compute_ms(*helper_, window_rows_ * model_.experts_used * layer.expert_macs));
    const double elsewhere = std::min(cpu, ms_at(bytes, device.to_device_gbs)) +
                             ms_at(bytes * where.disk_share, kDiskGbs);
    const double held = held_share(il, where.fill);
    const double part = std::min(held, elsewhere / (card + elsewhere));
    const double shared = std::max(card * part, elsewhere * (1 - part)) + kSyncMs;
    total += held >= 1 ? std::min(card, shared) : shared;
  }
  return total;
}

double StageCosts::handoff_ms(const PlanDevice& device, int first, int end, double rows) const {
  const double bytes = rows * model_.wide * sizeof(float);
  double ms = 0;
  if (first > 0) ms += ms_at(bytes, device.to_device_gbs) + device.launch_us * 1e-3 + kFlagMs;
  if (end < layers_) ms += ms_at(bytes, device.to_host_gbs) + device.launch_us * 1e-3 + kFlagMs;
  return ms;
}

double StageCosts::decode_ms(size_t index, int first, int end, const Residence& where) const {
  const PlanDevice& device = devices_[index];
  const Range r = range(first, end);
  const Ends e = ends(first, end);
  double bytes = static_cast<double>(r.dense) + r.cache_read * window_rows_;
  double macs = r.macs * window_rows_;
  double launches = r.launches;
  if (end == layers_) {
    bytes += static_cast<double>(e.head);
    macs += model_.head_macs * window_rows_;
    if (drafting_) {
      const LayerCost& draft = *model_.draft;
      const double times = window_rows_ - 1;
      bytes += times * (static_cast<double>(draft.dense_bytes) + static_cast<double>(e.head) +
                        model_.experts_used * static_cast<double>(draft.expert_bytes));
      macs +=
          times * (draft.dense_macs + model_.head_macs + model_.experts_used * draft.expert_macs);
      launches += times * draft.launches;
    }
  }
  const double disk =
      device.is_cpu() ? ms_at(static_cast<double>(r.dense + e.head) * where.disk_share, kDiskGbs)
                      : 0;
  if (device.is_cpu()) {
    // Experts are products of the same threads: what bounds the sum bounds the step.
    const double expert_macs = window_rows_ * model_.experts_used * r.expert_macs;
    return launches * device.launch_us * 1e-3 + disk +
           handoff_ms(device, first, end, window_rows_) +
           std::max(read_ms(device, bytes) + decode_expert_ms(device, first, end, where),
                    compute_ms(device, macs + expert_macs));
  }
  return launches * device.launch_us * 1e-3 +
         std::max(read_ms(device, bytes), compute_ms(device, macs)) +
         decode_expert_ms(device, first, end, where) + handoff_ms(device, first, end, window_rows_);
}

double StageCosts::chunk_ms(size_t index, int first, int end, const Residence& where,
                            double rows) const {
  const PlanDevice& device = devices_[index];
  const Range r = range(first, end);
  const double count = distinct(rows);
  const double experts = model_.layers.front().experts;
  const double macs =
      rows * r.macs + r.expert_macs * (rows * model_.experts_used + count * kTileWaste);
  const double touched = experts > 0 ? count / experts : 0;
  const double absent = static_cast<double>(where.in_ram) * touched;
  const double bytes = static_cast<double>(r.dense) + static_cast<double>(r.experts) * touched;
  double work = std::max(read_ms(device, bytes), compute_ms(device, macs));
  // What the card lacks is on its way while it computes; what it holds beside that waits for none.
  if (absent > 0) work = std::max(work, ms_at(absent, device.to_device_gbs));
  const double disk =
      ms_at(static_cast<double>(where.disk_bytes) * (device.is_cpu() ? 1 : touched), kDiskGbs);
  return r.launches * device.launch_us * 1e-3 + work + disk + handoff_ms(device, first, end, rows);
}

StageCost StageCosts::stage(size_t device, int first, int end) const {
  const Residence where = residence(device, first, end);
  if (!where.fits) return {.fits = false, .missing_bytes = where.missing};
  return {.fits = true,
          .missing_bytes = 0,
          .decode_ms = decode_ms(device, first, end, where),
          .chunk_ms = chunk_ms(device, first, end, where, chunk_),
          .handoff_ms = handoff_ms(devices_[device], first, end, chunk_)};
}

PlanStage StageCosts::describe(size_t index, int first, int end) const {
  const PlanDevice& device = devices_[index];
  const Residence where = residence(index, first, end);
  const Range r = range(first, end);
  const Ends e = ends(first, end);
  PlanStage out;
  out.device = index;
  out.id = device.id;
  out.title = device.title;
  out.cpu = device.is_cpu();
  out.first = first;
  out.last = end - 1;
  out.dense_bytes = r.dense;
  out.expert_bytes = r.experts;
  out.embedding_bytes = e.embedding;
  out.head_bytes = e.head;
  out.draft_bytes = e.draft;
  out.cache_bytes = r.cache;
  out.state_bytes = r.state;
  out.workspace_bytes = workspace(first, end);
  out.free_bytes = device.free_bytes;
  out.disk_bytes = where.disk_bytes;
  for (int il = first; il < end; ++il) out.pairs += model_.layers[static_cast<size_t>(il)].experts;
  out.resident_pairs = out.pairs;
  if (!where.fill.whole) {
    const uint64_t room = device.free_bytes - base_bytes(first, end);
    out.expert_bytes = 0;
    out.resident_pairs = 0;
    out.resident_mass = 0;
    for (const uint32_t pair : profile_.order()) {
      const int layer = static_cast<int>(pair / static_cast<uint32_t>(profile_.experts()));
      if (layer < first || layer >= end) continue;
      const uint64_t bytes = model_.layers[static_cast<size_t>(layer)].expert_bytes;
      if (out.expert_bytes + bytes > room) break;
      out.expert_bytes += bytes;
      ++out.resident_pairs;
      out.resident_mass += profile_.share(pair) / (end - first);
    }
    out.ram_expert_bytes = r.experts - out.expert_bytes;
  }
  out.decode_ms = decode_ms(index, first, end, where);
  out.chunk_ms = chunk_ms(index, first, end, where, chunk_);
  out.handoff_ms = handoff_ms(device, first, end, chunk_);
  for (int rows = 1; rows < chunk_; rows *= 2) {
    out.chunk_curve.push_back(chunk_ms(index, first, end, where, rows));
  }
  return out;
}

}  // namespace strata::engine
