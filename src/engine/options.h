// What the engine is told when it starts. Plain values; apps/ reads them from the command line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backend/op_args.h"
#include "backend/kernel_table.h"
#include "backend/module.h"
#include "engine/planner/layer_split.h"

namespace strata::engine {

// How the CPU reaches its weights.
enum class WeightMemory : uint8_t {
  kMapped,  // where the file is mapped: shared with other processes, dropped under pressure
  kCopied,  // in memory of this process, in huge pages where there are some
};

struct EngineOptions {
  std::string model_path;           // a GGUF file, or any shard of a split one
  // The content of a GGUF file, read when model_path is empty; outlives the engine, aligned to 64.
  std::span<const std::byte> model_bytes;
  std::string table_path;           // must be a shard of the model; empty: not checked
  std::string model_id;             // the name the API answers with; empty: the file's own name
  int context = 0;                  // tokens per session; 0: what the model was trained for
  int workers = 0;                  // compute threads; 0: as many as this process may use
  int prompt_chunk = 512;           // prompt tokens per forward call
  backend::KvType kv_type = backend::KvType::kF16;
  WeightMemory weight_memory = WeightMemory::kMapped;
  // In order; empty: every card that this build serves or, where there is none or they do not hold
  // the model, the CPU.
  std::vector<backend::DeviceRequest> devices;
  uint64_t reserve_bytes = 0;       // left free on every card whose request says nothing
  std::string module_folder;        // where back end modules lie; empty: beside the program
  LayerSplit layer_split;           // where the layers are cut between the devices
  bool order_as_given = false;      // stages only in the order of `devices`
  bool skip_split_if_fits = false;  // one card whenever one holds everything
  std::string expert_profile;       // path of an expert-profile.bin; empty: none
  backend::KernelPolicy kernels;    // which ops run on the reference rows, where `devices` is empty
  backend::QsaForm qsa_form = backend::QsaForm::kHf;
  int max_queue = 1024;             // waiting requests; one more is refused
  // What was asked for and this version does not have, for the log and the status: "drafts (--spec)".
  std::vector<std::string> not_built;
};

}  // namespace strata::engine
