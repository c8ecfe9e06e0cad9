// Matrix products as other drivers use them.
//
// Weights stand at multiples of 16 bytes. Nothing here waits for the device or allocates: callers
// bring the memory for quantised activations.
#pragma once

#include <span>

#include "backend/gpu/gpu_device.h"
#include "backend/gpu/kernels/product_params.h"
#include "backend/op_args.h"

namespace strata::gpu {

enum class ProductForm : uint8_t {
  kPortable,  // the kernels every group has
  kBest,      // matrix instructions where the device has images for them
};

// All products of one call: one input, weights of one type and k.
size_t product_scratch_bytes(GpuStream& stream, std::span<const backend::Product> products, int rows,
                             ProductForm form = ProductForm::kBest);
// x: [rows, k]. `scratch` holds product_scratch_bytes() bytes for the same form, 16-aligned.
Status launch_products(GpuStream& stream, std::span<const backend::Product> products,
                       const float* x, int rows, void* scratch,
                       ProductForm form = ProductForm::kBest);

// The parts of the above, for rows that meet different experts.

size_t activation_bytes(int64_t rows, int64_t k);
Activations activations_in(void* memory, int64_t rows, int64_t k);
// Rounds rows of `stride` floats to int8; with `up`, the rows silu(x) * up. With `tile_rows`, `out` is
// laid out for MatmulUnpacked and holds whole tiles of so many rows.
Status launch_quantize(GpuStream& stream, const float* x, const float* up, int64_t stride,
                       int64_t rows, int64_t k, const Activations& out, int tile_rows = 0);

// One matrix of a call, or one per expert.
struct MatrixUse {
  const backend::WeightRef* w;
  float* y;
  int64_t y_stride;
};
// What the matrices of a call meet: int8 for quantised weights, floats for the others.
struct ProductInput {
  Activations int8{};
  const float* floats = nullptr;
  int64_t stride = 0;  // of a row of `floats`
};

// Rows of x in the order they come.
Status launch_matrices(GpuStream& stream, std::span<const MatrixUse> matrices,
                       const ProductInput& x, int rows, ProductForm form);
// `slots` rows of y, each with one row of x and its own expert: map.ids.
Status launch_slots(GpuStream& stream, std::span<const MatrixUse> matrices, const ProductInput& x,
                    const RowMap& map, int slots);
// Rows sorted by expert: map.tiles, at most `tiles` of them, made for `image`.
Status launch_tiles(GpuStream& stream, std::span<const MatrixUse> matrices, const ProductInput& x,
                    const RowMap& map, const KernelImage& image, int tiles);

// Tiles of many activation rows read weights less often; tiles of few leave less room empty. kFew has
// those of MatmulVec.
enum class TileSize : uint8_t { kLarge, kSmall, kFew };
// What suits `experts` matrices of `outputs` weight rows of `k` that meet `rows` activation rows each.
TileSize tile_size(GpuStream& stream, QuantType type, ProductForm form, double rows,
                   int64_t experts, int64_t outputs, int64_t k);
// The kernel for launch_tiles.
Result<const KernelImage*> tile_image(GpuStream& stream, QuantType type, ProductForm form,
                                      TileSize size);

}  // namespace strata::gpu
