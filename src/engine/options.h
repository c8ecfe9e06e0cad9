// What the engine is told when it starts. Plain values; apps/ reads them from the command line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backend/op_args.h"
#include "backend/kernel_table.h"

namespace strata::engine {

struct EngineOptions {
  std::string model_path;           // a GGUF file, or any shard of a split one
  // The content of a GGUF file, read when model_path is empty; outlives the engine, aligned to 64.
  std::span<const std::byte> model_bytes;
  std::string model_id;             // the name the API answers with; empty: the file's own name
  int context = 0;                  // tokens per session; 0: what the model was trained for
  int workers = 0;                  // compute threads; 0: as many as this process may use
  int prompt_chunk = 512;           // prompt tokens per forward call
  backend::KvType kv_type = backend::KvType::kF16;
  backend::KernelPolicy kernels;    // which ops run on the reference rows
  backend::QsaForm qsa_form = backend::QsaForm::kHf;
  int max_queue = 1024;             // waiting requests; one more is refused
};

}  // namespace strata::engine
