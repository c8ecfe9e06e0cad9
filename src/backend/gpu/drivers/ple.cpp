// ple_inject.
#include <algorithm>

#include "backend/gpu/drivers/launch.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

using namespace backend;

namespace {

Status ple_inject(GpuStream& stream, const PleInjectArgs& a) {
  const int64_t wide = static_cast<int64_t>(a.streams) * a.width;
  float* u = a.scratch;                // [rows, wide]
  float* n = a.scratch + a.rows * wide;  // [rows, wide]
  STRATA_RETURN_IF_ERROR(stream.launch(image_key(Kernel::kPleGate), {.x = a.rows * a.streams},
                                       PleGateParams{.key = a.key,
                                                     .value = a.value,
                                                     .residual = a.residual,
                                                     .norm_key = a.norm_key,
                                                     .norm_query = a.norm_query,
                                                     .norm_conv = a.norm_conv,
                                                     .u = u,
                                                     .n = n,
                                                     .eps = a.eps,
                                                     .streams = a.streams,
                                                     .width = a.width}));
  STRATA_ASSIGN_OR_RETURN(const KernelImage* inject, stream.image(image_key(Kernel::kPleInject)));
  const int rows_per_block = std::max(inject->shape.tile_m, (a.conv_width - 1) * a.dilation);
  return stream.launch(
      inject->key,
      {.x = pieces(wide, inject->shape.threads), .y = pieces(a.rows, rows_per_block)},
      PleInjectParams{.u = u,
                      .n = n,
                      .conv = a.conv,
                      .conv_state = a.conv_state,
                      .residual = a.residual,
                      .wide = wide,
                      .rows = a.rows,
                      .rows_per_block = rows_per_block,
                      .taps = a.conv_width,
                      .dilation = a.dilation});
}

constexpr uint32_t kImages[] = {pack_key(image_key(Kernel::kPleGate)),
                                pack_key(image_key(Kernel::kPleInject))};

constexpr KernelSpec kRows[] = {portable_row<PleInjectArgs, ple_inject>("ple_inject/gpu", kImages)};

}  // namespace

std::span<const KernelSpec> ple_rows() { return kRows; }

}  // namespace strata::gpu
