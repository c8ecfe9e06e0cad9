// gdn: convolution, recurrence, output norm.
#include <algorithm>

#include "backend/gpu/drivers/launch.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

using namespace backend;

namespace {

constexpr int kColumnsForm = 1;   // of kGdnStep: heads of kColumnsDim, rows of 16-byte pieces
constexpr int kColumnsDim = 128;

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

Status gdn(GpuStream& stream, const GdnArgs& a) {
  STRATA_ASSIGN_OR_RETURN(const KernelImage* conv, stream.image(image_key(Kernel::kGdnConv)));
  const int rows_per_block = std::max(conv->shape.tile_m, a.conv_width - 1);
  STRATA_RETURN_IF_ERROR(stream.launch(
      conv->key,
      {.x = 2 * a.key_heads + a.value_heads, .y = pieces(a.rows, rows_per_block)},
      GdnConvParams{.qkv = a.qkv,
                    .conv = a.conv,
                    .conv_state = a.conv_state,
                    .out = a.scratch,
                    .eps = a.eps,
                    .rows = a.rows,
                    .rows_per_block = rows_per_block,
                    .key_heads = a.key_heads,
                    .value_heads = a.value_heads,
                    .head_dim = a.head_dim,
                    .taps = a.conv_width}));

  const bool columns = a.head_dim == kColumnsDim && aligned(a.scratch);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* step,
                          stream.image(image_key(Kernel::kGdnStep, columns ? kColumnsForm : 0)));
  STRATA_RETURN_IF_ERROR(stream.launch(
      step->key, {.x = pieces(a.head_dim, step->shape.threads), .y = a.value_heads},
      GdnStepParams{.qkv = a.scratch,
                    .alpha = a.alpha,
                    .beta = a.beta,
                    .dt_bias = a.dt_bias,
                    .a_log = a.a_log,
                    .state = a.state,
                    .out = a.out,
                    .rows = a.rows,
                    .key_heads = a.key_heads,
                    .value_heads = a.value_heads,
                    .head_dim = a.head_dim}));

  STRATA_ASSIGN_OR_RETURN(const KernelImage* norm, stream.image(image_key(Kernel::kGdnNorm)));
  const int64_t heads = static_cast<int64_t>(a.rows) * a.value_heads;
  return stream.launch(norm->key, {.x = pieces(heads, norm->shape.tile_m)},
                       GdnNormParams{.out = a.out,
                                     .z = a.z,
                                     .norm = a.norm,
                                     .eps = a.eps,
                                     .heads = heads,
                                     .head_dim = a.head_dim});
}

constexpr uint32_t kImages[] = {
    pack_key(image_key(Kernel::kGdnConv)), pack_key(image_key(Kernel::kGdnStep)),
    pack_key(image_key(Kernel::kGdnStep, kColumnsForm)), pack_key(image_key(Kernel::kGdnNorm))};

constexpr KernelSpec kRows[] = {portable_row<GdnArgs, gdn>("gdn/gpu", kImages)};

}  // namespace

std::span<const KernelSpec> gdn_rows() { return kRows; }

}  // namespace strata::gpu
