// hc_read: norm, low-rank products, mix.
#include <algorithm>
#include <array>

#include "backend/gpu/drivers/launch.h"
#include "backend/gpu/drivers/products.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

using namespace backend;

namespace {

template <ProductForm kForm>
Status hc_read(GpuStream& stream, const HcReadArgs& a) {
  const int64_t wide = static_cast<int64_t>(a.streams) * a.width;
  float* normed = a.scratch;              // [rows, wide]
  float* gates = normed + a.rows * wide;  // [rows, wide]
  float* low = gates + a.rows * wide;     // [rows, rank]
  const bool inject = a.inject.present();

  const std::array<Product, 2> of_norm = {Product{a.down, low},
                                          Product{a.inject, a.inject_weight}};
  const std::array<Product, 1> of_low = {Product{a.up, gates}};
  // One call per weight type.
  const bool together = inject && a.inject.type == a.down.type;
  const std::span<const Product> first(of_norm.data(), together ? 2 : 1);
  const std::span<const Product> second(of_norm.data() + 1, inject && !together ? 1 : 0);

  size_t bytes = product_scratch_bytes(stream, first, a.rows, kForm);
  bytes = std::max(bytes, product_scratch_bytes(stream, of_low, a.rows, kForm));
  if (!second.empty()) bytes = std::max(bytes, product_scratch_bytes(stream, second, a.rows, kForm));
  STRATA_ASSIGN_OR_RETURN(void* scratch, stream.scratch(bytes));

  STRATA_RETURN_IF_ERROR(stream.launch(image_key(Kernel::kHcNorm), {.x = a.rows * a.streams},
                                       HcNormParams{.residual = a.residual,
                                                    .norm = a.norm,
                                                    .out = normed,
                                                    .eps = a.eps,
                                                    .streams = a.streams,
                                                    .width = a.width}));
  STRATA_RETURN_IF_ERROR(launch_products(stream, first, normed, a.rows, scratch, kForm));
  if (!second.empty()) {
    STRATA_RETURN_IF_ERROR(launch_products(stream, second, normed, a.rows, scratch, kForm));
  }

  STRATA_ASSIGN_OR_RETURN(const KernelImage* low_rank,
                          stream.image(image_key(Kernel::kHcLowRank)));
  const int64_t low_count = static_cast<int64_t>(a.rows) * a.rank;
  const int64_t inject_count = inject ? static_cast<int64_t>(a.rows) * a.streams : 0;
  STRATA_RETURN_IF_ERROR(
      stream.launch(low_rank->key,
                    {.x = pieces(low_count + inject_count, low_rank->shape.threads)},
                    HcLowRankParams{.low = low,
                                    .inject_weight = a.inject_weight,
                                    .low_count = low_count,
                                    .inject_count = inject_count,
                                    .streams = a.streams}));
  STRATA_RETURN_IF_ERROR(launch_products(stream, of_low, low, a.rows, scratch, kForm));

  STRATA_ASSIGN_OR_RETURN(const KernelImage* mix, stream.image(image_key(Kernel::kHcMix)));
  return stream.launch(mix->key, {.x = a.rows, .y = pieces(a.width, mix->shape.threads)},
                       HcMixParams{.gates = gates,
                                   .normed = normed,
                                   .x = a.x,
                                   .streams = a.streams,
                                   .width = a.width});
}

// Where the two fused kernels serve: few rows of float weights, a row of which fits beside n into the
// shared memory of a block.
constexpr int kFusedRows = 4;

bool fusable(const WeightRef& w) {
  return !quant_info(w.type).quantised && reinterpret_cast<uintptr_t>(w.data) % 16 == 0 &&
         row_bytes(w.type, w.k) % 16 == 0;
}

FusedMatrix fused_matrix(const WeightRef& w) {
  if (!w.present()) return {};
  return {.data = static_cast<const uint8_t*>(w.data),
          .scale = w.scale,
          .type = w.type,
          .row_bytes = static_cast<int>(row_bytes(w.type, w.k))};
}

Status hc_read_fused(GpuStream& stream, const HcReadArgs& a) {
  STRATA_ASSIGN_OR_RETURN(const KernelImage* down, stream.image(image_key(Kernel::kHcDown)));
  STRATA_ASSIGN_OR_RETURN(const KernelImage* up, stream.image(image_key(Kernel::kHcUpMix)));
  const bool inject = a.inject.present();
  const int64_t wide = static_cast<int64_t>(a.streams) * a.width;
  const FusedMatrix of_down = fused_matrix(a.down);
  const FusedMatrix of_inject = fused_matrix(a.inject);
  const int64_t most =
      std::min(down->max_shared_bytes, stream.gpu().facts().shared_bytes) -
      down->shape.shared_bytes - wide * static_cast<int64_t>(sizeof(float));
  const int64_t weight_row = std::max(of_down.row_bytes, of_inject.row_bytes);
  const bool fits = a.rows <= kFusedRows && a.streams <= up->shape.tile_n && fusable(a.down) &&
                    fusable(a.up) && (!inject || fusable(a.inject)) && weight_row <= most;
  if (!fits) return hc_read<ProductForm::kBest>(stream, a);

  float* normed = a.scratch;
  float* low = a.scratch + 2 * a.rows * wide;
  const int outputs = a.rank + (inject ? a.streams : 0);
  const int per_block = static_cast<int>(std::min<int64_t>(
      most / weight_row, pieces(outputs, stream.gpu().caps().workers)));
  STRATA_RETURN_IF_ERROR(stream.launch(down->key,
                                       {.x = pieces(outputs, per_block), .y = a.rows},
                                       HcDownParams{.residual = a.residual,
                                                    .norm = a.norm,
                                                    .down = of_down,
                                                    .inject = of_inject,
                                                    .normed = normed,
                                                    .low = low,
                                                    .inject_weight = a.inject_weight,
                                                    .eps = a.eps,
                                                    .streams = a.streams,
                                                    .width = a.width,
                                                    .rank = a.rank,
                                                    .injects = inject ? a.streams : 0,
                                                    .outputs_per_block = per_block},
                                       static_cast<int>(wide * 4 + per_block * weight_row)));
  const int columns = up->shape.tile_n / a.streams;
  return stream.launch(up->key, {.x = pieces(a.width, columns), .y = a.rows},
                       HcUpMixParams{.low = low,
                                     .normed = normed,
                                     .up = fused_matrix(a.up),
                                     .x = a.x,
                                     .streams = a.streams,
                                     .width = a.width,
                                     .rank = a.rank},
                       a.rank * static_cast<int>(sizeof(float)));
}

constexpr uint32_t kFusedImages[] = {
    pack_key(image_key(Kernel::kHcNorm)), pack_key(image_key(Kernel::kHcLowRank)),
    pack_key(image_key(Kernel::kHcMix)), pack_key(image_key(Kernel::kHcDown)),
    pack_key(image_key(Kernel::kHcUpMix))};

constexpr uint32_t kImages[] = {pack_key(image_key(Kernel::kHcNorm)),
                                pack_key(image_key(Kernel::kHcLowRank)),
                                pack_key(image_key(Kernel::kHcMix))};

// The products' images depend on the types of three weights; launch_products names a missing one.
constexpr KernelSpec kRows[] = {
    portable_row<HcReadArgs, hc_read<ProductForm::kPortable>>("hc_read/gpu", kImages),
    {.name = "hc_read/gpu_fused",
     .op = OpId::kHcRead,
     .weight_type = std::nullopt,
     .reference = false,
     .rank = 10,
     .needs = 0,
     .launch = &launch_op<HcReadArgs, hc_read_fused>,
     .images = kFusedImages},
};

}  // namespace

std::span<const KernelSpec> hyper_connection_rows() { return kRows; }

}  // namespace strata::gpu
