// top_k_logits.
#include "backend/gpu/drivers/launch.h"
#include "backend/gpu/kernels/top_k_params.h"

namespace strata::gpu {

using namespace backend;

namespace {

Status top_k_logits(GpuStream& stream, const TopKLogitsArgs& a) {
  const int strips = pieces(a.valid, TopKLogitsArgs::kStrip);
  STRATA_RETURN_IF_ERROR(stream.launch(image_key(Kernel::kLogitMaxima), {.x = a.rows * strips},
                                       LogitMaximaParams{.logits = a.logits,
                                                         .maxima = a.scratch,
                                                         .stride = a.stride,
                                                         .valid = a.valid,
                                                         .strips = strips}));
  return stream.launch(
      image_key(Kernel::kTopKLogits), {.x = a.rows},
      TopKLogitsParams{.logits = a.logits,
                       .maxima = a.scratch,
                       .values = a.values,
                       .ids = a.ids,
                       .stride = a.stride,
                       .valid = a.valid,
                       .groups = static_cast<int>(TopKLogitsArgs::groups(a.valid)),
                       .k = a.k});
}

constexpr uint32_t kImages[] = {pack_key(image_key(Kernel::kLogitMaxima)),
                                pack_key(image_key(Kernel::kTopKLogits))};

constexpr KernelSpec kRows[] = {
    portable_row<TopKLogitsArgs, top_k_logits>("top_k_logits/gpu", kImages)};

}  // namespace

std::span<const KernelSpec> top_k_rows() { return kRows; }

}  // namespace strata::gpu
