// What bench prints. The result is one JSON value; the table and the CSV are views of it.
//
//   strata    {version, compiler, build}
//   device    {name, arch, workers, features [names], memory_bytes}
//   kernels   {instruction set: [ops]} as chosen for the weight types of the file
//   model     {path, parameters, file_bytes, layers, experts, experts_used}
//   settings  {kv, prompt_chunk, steps, repeat}
//   memory    {bytes_per_s, buffer_bytes, cache_bytes, passes}
//   results   [{test: "prompt" | "decode", depth, rows, tokens, tokens_per_s {median, least, most},
//               seconds [per round]}]; of a decode also step_ms, step_bytes, bytes_per_s and
//               memory_share, computed from the median. tokens counts those of one sequence.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "apps/bench_run.h"

namespace strata::apps {

using BenchJson = nlohmann::ordered_json;

BenchJson device_report(const backend::Device& device);
BenchJson kernel_report(const backend::Device& device, const GgufFile& file);
BenchJson memory_report(const MemoryMeter& memory);
// `memory_rate`: the bandwidth that rates are compared with, in bytes per second, > 0.
BenchJson result_report(std::span<const BenchMeasure> measures, double memory_rate);

std::string bench_table(const BenchJson& report);
// A header, then one line per result (RFC 4180, with line feeds).
std::string bench_csv(const BenchJson& report);

}  // namespace strata::apps
