// matmul, and the products of other ops.
#include "backend/gpu/drivers/products.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/gpu/drivers/launch.h"

namespace strata::gpu {

using namespace backend;

namespace {

constexpr int kVecRows = 8;       // activation rows that MatmulVec takes
constexpr int kVecWaves = 4;      // waves of its block, each at a step of
constexpr int kVecSegments = 4;   // so many segments
constexpr int kFewVariant = 2;    // the form of MatmulVec for tiles of few rows: four
constexpr int kFewFloatRows = 8;  // that MatmulFloat takes without its tiles
constexpr int64_t kMostGridY = 65535;

// From so many activation rows on, weights are unpacked before they are multiplied, so many bytes
// of them at a time: what large caches hold.
constexpr int kUnpackRows = 512;
constexpr int64_t kUnpackBytes = int64_t{48} << 20;

size_t padded(size_t bytes) { return (bytes + 15) / 16 * 16; }
int64_t whole_tiles(int64_t rows, int64_t tile) { return (rows + tile - 1) / tile * tile; }
int64_t segments_of(int64_t k) { return (k + kSegmentElems - 1) / kSegmentElems; }

Status check(GpuStream& stream, std::span<const MatrixUse> matrices) {
  for (const MatrixUse& m : matrices) {
    if (reinterpret_cast<uintptr_t>(m.w->data) % 16 != 0) {
      return internal_error("{}: a weight matrix stands at {}, which is no multiple of 16 bytes",
                            stream.gpu().title(), m.w->data);
    }
  }
  if (matrices.empty() || matrices.size() > kMaxMatrices) {
    return internal_error("{}: a product of {} matrices; 1 to {} are possible",
                          stream.gpu().title(), matrices.size(), kMaxMatrices);
  }
  return {};
}

// Fills in the matrices and returns the blocks of `per_block` weight rows that all of them take.
template <class Params>
int64_t set_matrices(std::span<const MatrixUse> matrices, int per_block, Params& p) {
  int64_t blocks = 0;
  p.row_bytes = static_cast<int64_t>(row_bytes(matrices[0].w->type, matrices[0].w->k));
  p.count = static_cast<int>(matrices.size());
  for (size_t i = 0; i < matrices.size(); ++i) {
    const WeightRef& w = *matrices[i].w;
    const auto* data = static_cast<const uint8_t*>(w.data);
    const int64_t bytes = w.n * p.row_bytes;
    p.matrices[i] = {.data = data,
                     .end = data + w.experts * bytes,
                     .scale = w.scale,
                     .y = matrices[i].y,
                     .expert_bytes = bytes,
                     .y_stride = matrices[i].y_stride,
                     .n = static_cast<int>(w.n),
                     .scale_per_expert = w.scale_count > 1 ? 1 : 0,
                     .first_block = static_cast<int>(blocks)};
    blocks += pieces(w.n, per_block);
  }
  return blocks;
}

ProductParams int8_params(std::span<const MatrixUse> matrices, const ProductInput& x,
                          const RowMap& map) {
  const int64_t k = matrices[0].w->k;
  ProductParams p{};
  p.map = map;
  p.x = x.int8;
  p.groups = static_cast<int>(k / quant::kGroupElems);
  p.segments = static_cast<int>(segments_of(k));
  p.rows_per_stream = 1;
  return p;
}

// Shared memory of MatmulVec for the sums of segments.
int64_t sum_bytes(const KernelImage& image, int64_t rows_per_stream, int64_t segments) {
  return 4 * image.shape.tile_n * rows_per_stream * image.shape.tile_m * (segments | 1);
}

// How many consecutive weight rows a stream of MatmulVec takes: so that the waves of a block get
// equal numbers of steps and there are blocks enough for all multiprocessors; 0 when not even one
// fits.
int rows_per_stream(GpuStream& stream, const KernelImage& image,
                    std::span<const MatrixUse> matrices, int64_t slots) {
  const int64_t segments = segments_of(matrices[0].w->k);
  const int64_t room = image.max_shared_bytes - image.shape.shared_bytes;
  constexpr int64_t kMostSums = 16 * 1024;  // more would cost blocks at work side by side
  const double wanted = 4.0 * stream.gpu().caps().workers;
  int best = 0;
  double best_score = -1;
  for (const int rows : {8, 4, 2, 1}) {
    if (sum_bytes(image, rows, segments) > (rows == 1 ? room : std::min(room, kMostSums))) continue;
    const int64_t per_round = kVecWaves * kVecSegments;
    const int64_t rounds = (rows * segments + per_round - 1) / per_round;
    int64_t blocks = 0;
    for (const MatrixUse& m : matrices) blocks += pieces(m.w->n, image.shape.tile_n * rows);
    const double busy =
        static_cast<double>(rows * segments) / static_cast<double>(rounds * per_round);
    const double score = busy * std::min(1.0, static_cast<double>(blocks * slots) / wanted);
    if (score > best_score) best = rows, best_score = score;
  }
  return best;
}

Status rows_too_long(GpuStream& stream, std::span<const MatrixUse> matrices) {
  return failed_precondition("{}: expert matrices with rows of {} values are too long for it",
                             stream.gpu().title(), matrices[0].w->k);
}

Status launch_vec(GpuStream& stream, std::span<const MatrixUse> matrices, const KernelImage& image,
                  int rows, int64_t slots, ProductParams& p) {
  p.rows_per_stream = rows;
  const auto one = uint64_t{1} << ProductParams::kInverseBits;
  p.inverse_segments = static_cast<uint32_t>((one + static_cast<uint64_t>(p.segments) - 1) /
                                             static_cast<uint64_t>(p.segments));
  const int64_t blocks = set_matrices(matrices, image.shape.tile_n * rows, p);
  return stream.launch(image.key, {.x = static_cast<int>(blocks), .y = static_cast<int>(slots)}, p,
                       static_cast<int>(sum_bytes(image, rows, p.segments)));
}

Status launch_float(GpuStream& stream, std::span<const MatrixUse> matrices, const ProductInput& x,
                    const RowMap& map, int form, int64_t tiles) {
  const ImageKey key = image_key(Kernel::kMatmulFloat, matrices[0].w->type, form);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(key));
  FloatProductParams p{};
  p.map = map;
  p.x = x.floats;
  p.x_stride = x.stride;
  p.k = static_cast<int>(matrices[0].w->k);
  const int64_t blocks = set_matrices(matrices, image->shape.tile_n, p);
  return stream.launch(key, {.x = static_cast<int>(blocks), .y = static_cast<int>(tiles)}, p);
}

}  // namespace

size_t activation_bytes(int64_t rows, int64_t k) {
  const auto groups = static_cast<size_t>(rows * segments_of(k) * kSegmentGroups);
  return groups * (quant::kGroupElems + sizeof(float) + sizeof(uint32_t));
}

Activations activations_in(void* memory, int64_t rows, int64_t k) {
  const auto groups = static_cast<size_t>(rows * segments_of(k) * kSegmentGroups);
  auto* bytes = static_cast<uint8_t*>(memory);
  auto* scale = reinterpret_cast<float*>(bytes + groups * quant::kGroupElems);
  return {bytes, scale, reinterpret_cast<uint32_t*>(scale + groups)};
}

Status launch_quantize(GpuStream& stream, const float* x, const float* up, int64_t stride,
                       int64_t rows, int64_t k, const Activations& out, int tile_rows) {
  const ImageKey key = image_key(Kernel::kQuantizeRows);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(key));
  QuantizeRowsParams p{.x = x,
                       .up = up,
                       .out = out,
                       .stride = stride,
                       .rows = static_cast<int>(rows),
                       .groups = static_cast<int>(k / quant::kGroupElems),
                       .padded = static_cast<int>(segments_of(k) * kSegmentGroups),
                       .tile_rows = tile_rows,
                       .pieces = 0};
  p.pieces = pieces(p.padded, image->shape.tile_n);
  const int64_t blocks = tile_rows > 0 ? whole_tiles(rows, tile_rows) : rows;
  return stream.launch(key, {.x = static_cast<int>(blocks * p.pieces)}, p);
}

TileSize tile_size(GpuStream& stream, QuantType type, ProductForm form, double rows,
                   int64_t experts, int64_t outputs, int64_t k) {
  if (!quant_info(type).quantised) {
    return rows <= kFewFloatRows ? TileSize::kSmall : TileSize::kLarge;
  }
  // A tile of the matrix unit takes as long as two of MatmulVec, a portable one far longer.
  const bool matrix = form == ProductForm::kBest && stream.gpu().images().find(image_key(
                                                        Kernel::kMatmulMatrix, type, 1)) != nullptr;
  if (experts > 1 && rows <= (matrix ? 3 : 12)) {
    const KernelImage* few =
        stream.gpu().images().find(image_key(Kernel::kMatmulVec, type, kFewVariant));
    if (few != nullptr &&
        few->shape.shared_bytes + sum_bytes(*few, 1, segments_of(k)) <= few->max_shared_bytes) {
      return TileSize::kFew;
    }
  }
  if (form == ProductForm::kPortable) return TileSize::kLarge;
  // Time in outputs computed one after another by a multiprocessor. Small tiles run side by side
  // and take longer for their unpacking.
  const auto cost = [&](TileSize size) {
    const KernelImage* image = stream.gpu().images().find(
        image_key(Kernel::kMatmulMatrix, type, size == TileSize::kLarge ? 0 : 1));
    if (image == nullptr) return 0.0;
    const int at_once = size == TileSize::kLarge ? 1 : 4;
    const double unpacking = size == TileSize::kLarge ? 1.0 : 1.5;
    const double tile_m = image->shape.tile_m;
    // Experts do not fill their last tile.
    const double tiles =
        experts > 1 ? std::max(1.0, rows / tile_m + 0.5) : std::ceil(rows / tile_m);
    const double blocks = static_cast<double>(experts) * tiles *
                          static_cast<double>(pieces(outputs, image->shape.tile_n));
    double rounds = blocks / (stream.gpu().caps().workers * at_once);
    if (rounds < 8) rounds = std::ceil(rounds);
    return rounds * at_once * tile_m * image->shape.tile_n * unpacking;
  };
  return cost(TileSize::kSmall) < cost(TileSize::kLarge) ? TileSize::kSmall : TileSize::kLarge;
}

Result<const KernelImage*> tile_image(GpuStream& stream, QuantType type, ProductForm form,
                                      TileSize size) {
  if (!quant_info(type).quantised) {
    return stream.image(image_key(Kernel::kMatmulFloat, type, size == TileSize::kSmall ? 1 : 2));
  }
  if (size == TileSize::kFew) return stream.image(image_key(Kernel::kMatmulVec, type, kFewVariant));
  if (form == ProductForm::kBest) {
    const KernelImage* image = stream.gpu().images().find(
        image_key(Kernel::kMatmulMatrix, type, size == TileSize::kLarge ? 0 : 1));
    if (image != nullptr) return image;
  }
  return stream.image(image_key(Kernel::kMatmulTile, type));
}

Status launch_tiles(GpuStream& stream, std::span<const MatrixUse> matrices, const ProductInput& x,
                    const RowMap& map, const KernelImage& image, int tiles) {
  STRATA_RETURN_IF_ERROR(check(stream, matrices));
  if (image.key.kernel == Kernel::kMatmulFloat) {
    return launch_float(stream, matrices, x, map, image.key.variant, tiles);
  }
  ProductParams p = int8_params(matrices, x, map);
  if (image.key.kernel == Kernel::kMatmulVec) {
    const int rows = rows_per_stream(stream, image, matrices, tiles);
    if (rows == 0) return rows_too_long(stream, matrices);
    return launch_vec(stream, matrices, image, rows, tiles, p);
  }
  const int64_t blocks = set_matrices(matrices, image.shape.tile_n, p);
  return stream.launch(image.key, {.x = tiles, .y = static_cast<int>(blocks)}, p);
}

Status launch_slots(GpuStream& stream, std::span<const MatrixUse> matrices, const ProductInput& x,
                    const RowMap& map, int slots) {
  STRATA_RETURN_IF_ERROR(check(stream, matrices));
  const QuantType type = matrices[0].w->type;
  if (!quant_info(type).quantised) return launch_float(stream, matrices, x, map, 0, slots);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image,
                          stream.image(image_key(Kernel::kMatmulVec, type, 0)));
  const int rows = rows_per_stream(stream, *image, matrices, slots);
  if (rows == 0) return rows_too_long(stream, matrices);
  ProductParams p = int8_params(matrices, x, map);
  return launch_vec(stream, matrices, *image, rows, slots, p);
}

Status launch_matrices(GpuStream& stream, std::span<const MatrixUse> matrices,
                       const ProductInput& x, int rows, ProductForm form) {
  STRATA_RETURN_IF_ERROR(check(stream, matrices));
  const QuantType type = matrices[0].w->type;
  const RowMap map{.ids = nullptr,
                   .tiles = nullptr,
                   .tile_count = nullptr,
                   .slots = nullptr,
                   .rows = rows,
                   .x_divisor = 1};
  if (!quant_info(type).quantised) {
    const int variant = rows == 1 ? 0 : rows <= kFewFloatRows ? 1 : 2;
    STRATA_ASSIGN_OR_RETURN(const KernelImage* image,
                            stream.image(image_key(Kernel::kMatmulFloat, type, variant)));
    const int64_t tiles = pieces(rows, image->shape.tile_m);
    if (tiles > kMostGridY) {
      return failed_precondition(
          "{}: a product of {} rows with {} weights is too large; use smaller "
          "chunks",
          stream.gpu().title(), rows, quant_info(type).name);
    }
    return launch_float(stream, matrices, x, map, variant, tiles);
  }
  if (rows <= kVecRows) {
    int variant = 0;
    while (1 << variant < rows) ++variant;
    STRATA_ASSIGN_OR_RETURN(const KernelImage* image,
                            stream.image(image_key(Kernel::kMatmulVec, type, variant)));
    const int per_stream = rows_per_stream(stream, *image, matrices, 1);
    if (per_stream > 0) {
      ProductParams p = int8_params(matrices, x, map);
      return launch_vec(stream, matrices, *image, per_stream, 1, p);
    }
  }
  int64_t outputs = 0;
  for (const MatrixUse& m : matrices) outputs += m.w->n;
  STRATA_ASSIGN_OR_RETURN(
      const KernelImage* image,
      tile_image(stream, type, form,
                 tile_size(stream, type, form, rows, 1, outputs, matrices[0].w->k)));
  return launch_tiles(stream, matrices, x, map, *image, pieces(rows, image->shape.tile_m));
}

namespace {

// The kernels of a product whose weights are unpacked first, and how it is cut.
struct UnpackedProduct {
  const KernelImage* unpack = nullptr;  // nullptr: not this way
  const KernelImage* multiply = nullptr;
  int64_t row_bytes = 0;  // of an unpacked weight row with its tables, at most
  int64_t slab_rows = 0;  // of weights that are unpacked together
  int64_t x_rows = 0;     // of activations, whole tiles

  UnpackedProduct(GpuStream& stream, std::span<const Product> products, int rows,
                  ProductForm form) {
    const WeightRef& w = products[0].w;
    if (form != ProductForm::kBest || rows < kUnpackRows || !quant_info(w.type).quantised) return;
    const ImageTable& images = stream.gpu().images();
    multiply = images.find(image_key(Kernel::kMatmulUnpacked, w.type));
    unpack = images.find(image_key(Kernel::kUnpackRows, w.type));
    if (multiply == nullptr || unpack == nullptr) {
      unpack = nullptr;
      return;
    }
    constexpr int64_t kMostTables = 6;
    const int64_t groups = segments_of(w.k) * kSegmentGroups;
    row_bytes = groups * (quant::kGroupElems + kMostTables * 4);
    int64_t most = 0;
    for (const Product& p : products) most = std::max(most, p.w.n);
    const int64_t tile = multiply->shape.tile_n;
    // Cut evenly: a small rest would leave multiprocessors idle.
    const int64_t slabs = (most * row_bytes + kUnpackBytes - 1) / kUnpackBytes;
    slab_rows = whole_tiles((most + slabs - 1) / slabs, tile);
    x_rows = whole_tiles(rows, multiply->shape.tile_m);
  }
  bool possible() const { return unpack != nullptr; }
  size_t slab_bytes() const { return static_cast<size_t>(slab_rows * row_bytes); }
};

Status launch_unpacked(GpuStream& stream, std::span<const Product> products, const float* x,
                       int rows, void* scratch, const UnpackedProduct& how) {
  const int64_t k = products[0].w.k;
  const int segments = static_cast<int>(segments_of(k));
  const int tile_m = how.multiply->shape.tile_m, tile_n = how.multiply->shape.tile_n;
  auto* codes = static_cast<uint8_t*>(scratch);
  const UnpackedWeights slab{
      .codes = codes,
      .tables = reinterpret_cast<float*>(codes + how.slab_rows * segments * kSegmentElems),
      .tile_rows = tile_n};
  const Activations input = activations_in(codes + how.slab_bytes(), how.x_rows, k);
  STRATA_RETURN_IF_ERROR(launch_quantize(stream, x, nullptr, k, rows, k, input, tile_m));
  for (const Product& product : products) {
    const WeightRef& w = product.w;
    const auto bytes = static_cast<int64_t>(row_bytes(w.type, w.k));
    const auto* data = static_cast<const uint8_t*>(w.data);
    for (int64_t first = 0; first < w.n; first += how.slab_rows) {
      const int64_t count = std::min(how.slab_rows, w.n - first);
      const int64_t tiles = pieces(count, tile_n);
      STRATA_RETURN_IF_ERROR(stream.launch(
          how.unpack->key,
          {.x = segments, .y = static_cast<int>(tiles * tile_n / how.unpack->shape.tile_n)},
          UnpackRowsParams{.data = data + first * bytes,
                           .end = data + w.n * bytes,
                           .out = slab,
                           .row_bytes = bytes,
                           .rows = static_cast<int>(count),
                           .groups = static_cast<int>(k / quant::kGroupElems),
                           .segments = segments}));
      STRATA_RETURN_IF_ERROR(
          stream.launch(how.multiply->key,
                        {.x = static_cast<int>(how.x_rows / tile_m), .y = static_cast<int>(tiles)},
                        MatmulUnpackedParams{.w = slab,
                                             .x = input,
                                             .scale = w.scale,
                                             .y = product.y + first,
                                             .y_stride = w.n,
                                             .n = static_cast<int>(count),
                                             .rows = rows,
                                             .segments = segments}));
    }
  }
  return {};
}

}  // namespace

size_t product_scratch_bytes(GpuStream& stream, std::span<const Product> products, int rows,
                             ProductForm form) {
  const WeightRef& w = products[0].w;
  if (!quant_info(w.type).quantised) return 0;
  const UnpackedProduct how(stream, products, rows, form);
  return how.possible() ? how.slab_bytes() + activation_bytes(how.x_rows, w.k)
                        : activation_bytes(rows, w.k);
}

Status launch_products(GpuStream& stream, std::span<const Product> products, const float* x,
                       int rows, void* scratch, ProductForm form) {
  const UnpackedProduct how(stream, products, rows, form);
  if (how.possible()) return launch_unpacked(stream, products, x, rows, scratch, how);
  const WeightRef& first = products[0].w;
  std::array<MatrixUse, MatmulArgs::kMaxProducts> matrices{};
  static_assert(MatmulArgs::kMaxProducts <= kMaxMatrices);
  for (size_t i = 0; i < products.size(); ++i) {
    matrices[i] = {&products[i].w, products[i].y, products[i].w.n};
  }
  ProductInput input{.int8 = {}, .floats = x, .stride = first.k};
  if (quant_info(first.type).quantised) {
    input.int8 = activations_in(scratch, rows, first.k);
    STRATA_RETURN_IF_ERROR(launch_quantize(stream, x, nullptr, first.k, rows, first.k, input.int8));
  }
  return launch_matrices(stream, {matrices.data(), products.size()}, input, rows, form);
}

namespace {

template <ProductForm kForm>
Status matmul(GpuStream& stream, const MatmulArgs& a) {
  STRATA_ASSIGN_OR_RETURN(
      void* scratch,
      stream.scratch(padded(product_scratch_bytes(stream, a.products, a.rows, kForm))));
  return launch_products(stream, a.products, a.x, a.rows, scratch, kForm);
}

constexpr uint32_t kFloatImages[] = {
    pack_key({Kernel::kMatmulFloat, kRowType, 0}),
    pack_key({Kernel::kMatmulFloat, kRowType, 1}),
    pack_key({Kernel::kMatmulFloat, kRowType, 2}),
};
constexpr uint32_t kPortableImages[] = {
    pack_key(image_key(Kernel::kQuantizeRows)),  pack_key({Kernel::kMatmulVec, kRowType, 0}),
    pack_key({Kernel::kMatmulVec, kRowType, 1}), pack_key({Kernel::kMatmulVec, kRowType, 2}),
    pack_key({Kernel::kMatmulVec, kRowType, 3}), pack_key({Kernel::kMatmulTile, kRowType, 0}),
};
constexpr uint32_t kMatrixImages[] = {
    pack_key(image_key(Kernel::kQuantizeRows)),
    pack_key({Kernel::kMatmulVec, kRowType, 0}),
    pack_key({Kernel::kMatmulVec, kRowType, 1}),
    pack_key({Kernel::kMatmulVec, kRowType, 2}),
    pack_key({Kernel::kMatmulVec, kRowType, 3}),
    pack_key({Kernel::kMatmulMatrix, kRowType, 0}),
    pack_key({Kernel::kMatmulMatrix, kRowType, 1}),
    // Of mma_s8 only.
    pack_key({Kernel::kUnpackRows, kRowType, 0}),
    pack_key({Kernel::kMatmulUnpacked, kRowType, 0}),
};
constexpr std::span<const uint32_t> kMmaImages = kMatrixImages;
constexpr std::span<const uint32_t> kWmmaImages = kMmaImages.first(kMmaImages.size() - 2);

template <class Q>
constexpr KernelSpec portable(QuantType type) {
  return portable_row<MatmulArgs, matmul<ProductForm::kPortable>>(
      "matmul/gpu",
      Q::kQuantised ? std::span<const uint32_t>(kPortableImages)
                    : std::span<const uint32_t>(kFloatImages),
      type);
}
constexpr KernelSpec with_matrix_unit(const char* name, FeatureSet needs,
                                      std::span<const uint32_t> images, QuantType type) {
  return {.name = name,
          .op = OpId::kMatmul,
          .weight_type = type,
          .reference = false,
          .rank = 10,
          .needs = needs,
          .launch = &launch_op<MatmulArgs, matmul<ProductForm::kBest>>,
          .images = images};
}

constexpr KernelSpec kRows[] = {
#define STRATA_QUANT_TYPE(Name) portable<quant::Name>(QuantType::k##Name),
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
// Rows of float types would list images that do not exist; no device admits them.
#define STRATA_QUANT_TYPE(Name)                                                                \
  with_matrix_unit("matmul/mma_s8", kGpuMmaS8, kMmaImages, QuantType::k##Name),                \
      with_matrix_unit("matmul/wmma_gfx11", kGpuWmmaS8Gfx11, kWmmaImages, QuantType::k##Name), \
      with_matrix_unit("matmul/wmma_gfx12", kGpuWmmaS8Gfx12, kWmmaImages, QuantType::k##Name),
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
};

}  // namespace

std::span<const KernelSpec> product_rows() { return kRows; }

}  // namespace strata::gpu
