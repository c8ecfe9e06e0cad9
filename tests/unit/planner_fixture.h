// The real model and invented machines, for tests of the planner.
#pragma once

#include <string>
#include <vector>

#include "engine/planner/planner.h"

namespace strata::engine::test {

inline constexpr uint64_t kMib = uint64_t{1} << 20;
inline constexpr uint64_t kGib = uint64_t{1} << 30;

inline uint64_t gib(double count) {
  return static_cast<uint64_t>(count * static_cast<double>(kGib));
}

// Qwen3.8-Flash-Next with the sizes of published files: `experts_gb` is what all experts take
// (IQ2_XS 35.5, IQ3_XXS 42.9, IQ3_S 50.3). Multiply-adds are those of docs/MODEL.md: an expert has
// 3 * 640 * 2560 weights, a token reads 6.67 billion.
inline ModelCost flash_next(double experts_gb, int layers = 48) {
  ModelCost model;
  model.name = "flash-next.gguf";
  model.experts_used = 10;
  model.embedding_bytes = 420 * kMib;
  model.head_bytes = 437'000'000;
  model.head_macs = 2560.0 * 248320;
  model.wide = 4 * 2560;
  model.table_bytes = 28'800'000'000;
  for (int il = 0; il < layers; ++il) {
    LayerCost layer;
    layer.dense_bytes = 60 * kMib;
    layer.experts = 512;
    layer.expert_bytes = static_cast<uint64_t>(experts_gb * 1e9 / 48 / 512);
    layer.dense_macs = 85e6;
    layer.expert_macs = 3.0 * 640 * 2560;
    if (il % 4 == 3) {
      layer.kv_values = 2 * 2 * 256;
      layer.index_bytes = 128;
      layer.attention_macs = 2.0 * 24 * 256;
      layer.index_macs = 4.0 * 128 / 4;
      layer.most_cells = 2051;
      layer.launches = 28;
    } else {
      layer.state_bytes = 48 * 128 * 128 * 4 + 3 * 10240 * 4;
      layer.state_macs = 4.0 * 48 * 128 * 128;
      layer.launches = 22;
    }
    model.layers.push_back(layer);
  }
  model.row_bytes = 600e3;
  model.row_bytes_per_token = 1;
  model.head_row_bytes = 1.03e6;
  return model;
}

inline PlanDevice card(std::string id, double memory_gib, double gbs, double tops, double link = 12,
                       double launch_us = 4) {
  PlanDevice device;
  device.id = std::move(id);
  device.title = device.id;
  device.free_bytes = gib(memory_gib);
  device.memory_gbs = gbs;
  device.int8_tops = tops;
  device.launch_us = launch_us;
  device.to_device_gbs = device.to_host_gbs = link;
  return device;
}

inline PlanDevice cpu(double memory_gib, double gbs, double tops = 2, bool may_be_stage = true) {
  PlanDevice device = card("cpu", memory_gib, gbs, tops, gbs / 2, 1);
  device.kind = PlanDevice::Kind::kCpu;
  device.may_be_stage = may_be_stage;
  return device;
}

// Cards with what is free on them: their size less 1 GiB for driver and desktop.
inline PlanDevice rx7900xtx(double free = 23) { return card("gfx1100", free, 900, 90); }
inline PlanDevice rx9070xt(double free = 15) { return card("gfx1201", free, 600, 150); }
inline PlanDevice rx6950xt(double free = 15) { return card("gfx1030", free, 540, 25); }
inline PlanDevice r9700(double free = 31) { return card("gfx1201", free, 600, 150); }
inline PlanDevice rtx5080(double free = 15) { return card("sm120", free, 900, 300, 25, 2.5); }
inline PlanDevice rtx3090(double free = 23) { return card("sm86", free, 860, 200, 12, 2.5); }
inline PlanDevice rtx4060ti(double free = 15) { return card("sm89", free, 270, 120, 12, 2.5); }
inline PlanDevice h200(double free = 139) { return card("sm90", free, 4000, 1000, 50, 2.5); }

inline PlanOptions options(int context = 32768) {
  PlanOptions out;
  out.context = context;
  return out;
}

inline EngineAbilities caching() {
  EngineAbilities out;
  out.expert_cache = true;
  return out;
}

}  // namespace strata::engine::test
