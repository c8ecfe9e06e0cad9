// router, experts, swiglu, shared_expert_add.
#include <algorithm>
#include <array>

#include "backend/gpu/drivers/launch.h"
#include "backend/gpu/drivers/products.h"

namespace strata::gpu {

using namespace backend;

namespace {

constexpr int64_t kMostGridY = 65535;

size_t padded(size_t bytes) { return (bytes + 15) / 16 * 16; }

// The scratch of one op, cut into pieces that start at multiples of 16.
class Cut {
 public:
  size_t reserve(size_t bytes) {
    const size_t at = bytes_;
    bytes_ += padded(bytes);
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

Status router(GpuStream& stream, const RouterArgs& a) {
  const Product product{a.w, a.scratch};
  const std::span<const Product> one(&product, 1);
  STRATA_ASSIGN_OR_RETURN(void* scratch, stream.scratch(product_scratch_bytes(
                                             stream, one, a.rows, ProductForm::kPortable)));
  STRATA_RETURN_IF_ERROR(
      launch_products(stream, one, a.x, a.rows, scratch, ProductForm::kPortable));
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(image_key(Kernel::kRouterTopK)));
  const int64_t shared = RouterTopKParams::shared_bytes(image->shape.tile_m, a.w.n);
  const bool in_shared = shared <= image->max_shared_bytes;
  return stream.launch(image->key, {.x = pieces(a.rows, image->shape.tile_m)},
                       RouterTopKParams{.p = a.scratch,
                                        .ids = a.ids,
                                        .weights = a.weights,
                                        .rows = a.rows,
                                        .experts = static_cast<int>(a.w.n),
                                        .used = a.used,
                                        .in_shared = in_shared ? 1 : 0},
                       in_shared ? static_cast<int>(shared) : 0);
}

// Slots sorted by expert and cut into tiles of one height.
struct SortedSlots {
  int tile_rows = 0;  // 0: not needed
  TileSize size{};
  size_t slots_at = 0, tiles_at = 0, count_at = 0;
  int most_tiles = 0;
};

struct ExpertsCall {
  const ExpertsArgs& a;
  int64_t pairs, stride;
  std::byte* memory = nullptr;
  bool sorted = false;
  std::array<SortedSlots, 2> lists{};  // of int8 and float weights
  size_t x_at = 0, hidden_at = 0;

  RowMap map(int x_divisor) const {
    return {.ids = a.ids,
            .tiles = nullptr,
            .tile_count = nullptr,
            .slots = nullptr,
            .rows = static_cast<int>(pairs),
            .x_divisor = x_divisor};
  }
  const SortedSlots& list_of(QuantType type) const {
    return lists[quant_info(type).quantised ? 0 : 1];
  }
};

Status launch_experts(GpuStream& stream, const ExpertsCall& c, std::span<const MatrixUse> matrices,
                      const ProductInput& x, int x_divisor, ProductForm form) {
  RowMap map = c.map(x_divisor);
  if (!c.sorted) return launch_slots(stream, matrices, x, map, static_cast<int>(c.pairs));
  const QuantType type = matrices[0].w->type;
  const SortedSlots& list = c.list_of(type);
  map.ids = nullptr;
  map.slots = reinterpret_cast<const int*>(c.memory + list.slots_at);
  map.tiles = reinterpret_cast<const RowTile*>(c.memory + list.tiles_at);
  map.tile_count = reinterpret_cast<const int*>(c.memory + list.count_at);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, tile_image(stream, type, form, list.size));
  return launch_tiles(stream, matrices, x, map, *image, list.most_tiles);
}

template <ProductForm kForm>
Status experts(GpuStream& stream, const ExpertsArgs& a) {
  const bool fused = !a.up.present();
  const bool gate_int8 = quant_info(a.gate.type).quantised;
  const bool x_int8 = gate_int8 || (!fused && quant_info(a.up.type).quantised);
  const bool down_int8 = quant_info(a.down.type).quantised;

  ExpertsCall c{.a = a,
                .pairs = static_cast<int64_t>(a.rows) * a.used,
                .stride = 2 * static_cast<int64_t>(a.hidden) + a.width};
  // Sorting pays once rows share experts.
  c.sorted = c.pairs > a.gate.experts || c.pairs > kMostGridY;
  Cut cut;
  if (c.sorted) {
    for (const WeightRef* w : {&a.gate, &a.up, &a.down}) {
      if (!w->present()) continue;
      SortedSlots& list = c.lists[quant_info(w->type).quantised ? 0 : 1];
      if (list.tile_rows > 0) continue;
      const int64_t busy = std::min(c.pairs, a.gate.experts);
      list.size =
          tile_size(stream, w->type, kForm,
                    static_cast<double>(c.pairs) / static_cast<double>(busy), busy, w->n, w->k);
      STRATA_ASSIGN_OR_RETURN(const KernelImage* image,
                              tile_image(stream, w->type, kForm, list.size));
      list.tile_rows = image->shape.tile_m;
      list.most_tiles =
          static_cast<int>(ExpertGroupsParams::most_tiles(c.pairs, a.gate.experts, list.tile_rows));
      list.slots_at = cut.reserve(sizeof(int) * static_cast<size_t>(c.pairs));
      list.tiles_at = cut.reserve(sizeof(RowTile) * static_cast<size_t>(list.most_tiles));
      list.count_at = cut.reserve(sizeof(int));
    }
  }
  c.x_at = cut.reserve(x_int8 ? activation_bytes(a.rows, a.width) : 0);
  c.hidden_at = cut.reserve(down_int8 ? activation_bytes(c.pairs, a.hidden) : 0);
  STRATA_ASSIGN_OR_RETURN(void* scratch, stream.scratch(cut.bytes()));
  c.memory = static_cast<std::byte*>(scratch);

  for (const SortedSlots& list : c.lists) {
    if (list.tile_rows == 0) continue;
    STRATA_RETURN_IF_ERROR(stream.launch(
        image_key(Kernel::kExpertGroups), {},
        ExpertGroupsParams{.ids = a.ids,
                           .slots = reinterpret_cast<int*>(c.memory + list.slots_at),
                           .tiles = reinterpret_cast<RowTile*>(c.memory + list.tiles_at),
                           .tile_count = reinterpret_cast<int*>(c.memory + list.count_at),
                           .pairs = static_cast<int>(c.pairs),
                           .experts = static_cast<int>(a.gate.experts),
                           .tile_rows = list.tile_rows},
        ExpertGroupsParams::shared_bytes(a.gate.experts)));
  }

  float* gate = a.scratch;  // [pair]: gate, up, output side by side
  float* up = gate + a.hidden;
  float* output = gate + 2 * a.hidden;
  ProductInput x{.int8 = {}, .floats = a.x, .stride = a.width};
  if (x_int8) {
    x.int8 = activations_in(c.memory + c.x_at, a.rows, a.width);
    STRATA_RETURN_IF_ERROR(launch_quantize(stream, a.x, nullptr, a.width, a.rows, a.width, x.int8));
  }
  const std::array<MatrixUse, 2> in = {MatrixUse{&a.gate, gate, c.stride},
                                       MatrixUse{&a.up, up, c.stride}};
  const bool together = !fused && a.up.type == a.gate.type;
  STRATA_RETURN_IF_ERROR(
      launch_experts(stream, c, {in.data(), together ? 2u : 1u}, x, a.used, kForm));
  if (!fused && !together) {
    STRATA_RETURN_IF_ERROR(launch_experts(stream, c, {&in[1], 1}, x, a.used, kForm));
  }

  ProductInput hidden{.int8 = {}, .floats = gate, .stride = c.stride};
  if (down_int8) {
    hidden.int8 = activations_in(c.memory + c.hidden_at, c.pairs, a.hidden);
    STRATA_RETURN_IF_ERROR(
        launch_quantize(stream, gate, up, c.stride, c.pairs, a.hidden, hidden.int8));
  } else {
    STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(image_key(Kernel::kSwiGlu)));
    SwiGluParams p{.gate = gate,
                   .up = up,
                   .out = gate,
                   .stride = c.stride,
                   .out_stride = c.stride,
                   .width = a.hidden,
                   .pieces = pieces(a.hidden, image->shape.threads)};
    STRATA_RETURN_IF_ERROR(
        stream.launch(image->key, {.x = static_cast<int>(c.pairs * p.pieces)}, p));
  }
  const MatrixUse down{&a.down, output, c.stride};
  STRATA_RETURN_IF_ERROR(launch_experts(stream, c, {&down, 1}, hidden, 1, kForm));

  STRATA_ASSIGN_OR_RETURN(const KernelImage* image,
                          stream.image(image_key(Kernel::kExpertCombine)));
  ExpertCombineParams p{.outputs = output,
                        .weights = a.weights,
                        .y = a.y,
                        .stride = c.stride,
                        .used = a.used,
                        .width = a.width,
                        .pieces = pieces(a.width, image->shape.threads)};
  return stream.launch(image->key, {.x = a.rows * p.pieces}, p);
}

Status swiglu(GpuStream& stream, const SwiGluArgs& a) {
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(image_key(Kernel::kSwiGlu)));
  SwiGluParams p{.gate = a.gate,
                 .up = a.up,
                 .out = a.out,
                 .stride = a.width,
                 .out_stride = a.width,
                 .width = a.width,
                 .pieces = pieces(a.width, image->shape.threads)};
  return stream.launch(image->key, {.x = a.rows * p.pieces}, p);
}

Status shared_expert_add(GpuStream& stream, const SharedExpertAddArgs& a) {
  Product product{a.gate, nullptr};
  const std::span<const Product> one(&product, 1);
  Cut cut;
  const size_t logits_at = cut.reserve(sizeof(float) * static_cast<size_t>(a.rows));
  const size_t product_at =
      cut.reserve(product_scratch_bytes(stream, one, a.rows, ProductForm::kPortable));
  STRATA_ASSIGN_OR_RETURN(void* scratch, stream.scratch(cut.bytes()));
  auto* memory = static_cast<std::byte*>(scratch);
  product.y = reinterpret_cast<float*>(memory + logits_at);
  STRATA_RETURN_IF_ERROR(
      launch_products(stream, one, a.x, a.rows, memory + product_at, ProductForm::kPortable));
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image,
                          stream.image(image_key(Kernel::kSharedExpertAdd)));
  SharedExpertAddParams p{.logits = product.y,
                          .d = a.d,
                          .y = a.y,
                          .width = a.width,
                          .pieces = pieces(a.width, image->shape.threads)};
  return stream.launch(image->key, {.x = a.rows * p.pieces}, p);
}

#define STRATA_FLOAT_PRODUCTS                                                                   \
  pack_key({Kernel::kMatmulFloat, kRowType, 0}), pack_key({Kernel::kMatmulFloat, kRowType, 1}), \
      pack_key({Kernel::kMatmulFloat, kRowType, 2})
#define STRATA_VEC_PRODUCTS                                                                     \
  pack_key(image_key(Kernel::kQuantizeRows)), pack_key({Kernel::kMatmulVec, kRowType, 0}),      \
      pack_key({Kernel::kMatmulVec, kRowType, 1}), pack_key({Kernel::kMatmulVec, kRowType, 2}), \
      pack_key({Kernel::kMatmulVec, kRowType, 3})
#define STRATA_EXPERT_KERNELS                                                              \
  pack_key(image_key(Kernel::kExpertGroups)), pack_key(image_key(Kernel::kExpertCombine)), \
      pack_key(image_key(Kernel::kSwiGlu)), pack_key(image_key(Kernel::kQuantizeRows))

constexpr uint32_t kRouterFloat[] = {STRATA_FLOAT_PRODUCTS,
                                     pack_key(image_key(Kernel::kRouterTopK))};
constexpr uint32_t kRouterInt8[] = {STRATA_VEC_PRODUCTS, pack_key({Kernel::kMatmulTile, kRowType}),
                                    pack_key(image_key(Kernel::kRouterTopK))};
constexpr uint32_t kSharedFloat[] = {STRATA_FLOAT_PRODUCTS,
                                     pack_key(image_key(Kernel::kSharedExpertAdd))};
constexpr uint32_t kSharedInt8[] = {STRATA_VEC_PRODUCTS, pack_key({Kernel::kMatmulTile, kRowType}),
                                    pack_key(image_key(Kernel::kSharedExpertAdd))};
constexpr uint32_t kExpertsFloat[] = {STRATA_FLOAT_PRODUCTS, STRATA_EXPERT_KERNELS};
constexpr uint32_t kExpertsInt8[] = {STRATA_VEC_PRODUCTS, pack_key({Kernel::kMatmulTile, kRowType}),
                                     STRATA_EXPERT_KERNELS};
constexpr uint32_t kExpertsMatrix[] = {
    STRATA_VEC_PRODUCTS, pack_key({Kernel::kMatmulMatrix, kRowType, 0}),
    pack_key({Kernel::kMatmulMatrix, kRowType, 1}), STRATA_EXPERT_KERNELS};
constexpr uint32_t kSwiGluImages[] = {pack_key(image_key(Kernel::kSwiGlu))};

#undef STRATA_FLOAT_PRODUCTS
#undef STRATA_VEC_PRODUCTS
#undef STRATA_EXPERT_KERNELS

constexpr std::span<const uint32_t> either(bool quantised, std::span<const uint32_t> int8,
                                           std::span<const uint32_t> floats) {
  return quantised ? int8 : floats;
}

constexpr KernelSpec experts_row(const char* name, FeatureSet needs, QuantType type) {
  return {.name = name,
          .op = OpId::kExperts,
          .weight_type = type,
          .reference = false,
          .rank = 10,
          .needs = needs,
          .launch = &launch_op<ExpertsArgs, experts<ProductForm::kBest>>,
          .images = kExpertsMatrix};
}

// Experts dispatch on the type of `gate`; a missing image for another type is named at launch.
constexpr KernelSpec kRows[] = {
#define STRATA_QUANT_TYPE(Name)                                                                \
  portable_row<RouterArgs, router>("router/gpu",                                               \
                                   either(quant::Name::kQuantised, kRouterInt8, kRouterFloat), \
                                   QuantType::k##Name),                                        \
      portable_row<SharedExpertAddArgs, shared_expert_add>(                                    \
          "shared_expert_add/gpu", either(quant::Name::kQuantised, kSharedInt8, kSharedFloat), \
          QuantType::k##Name),                                                                 \
      portable_row<ExpertsArgs, experts<ProductForm::kPortable>>(                              \
          "experts/gpu", either(quant::Name::kQuantised, kExpertsInt8, kExpertsFloat),         \
          QuantType::k##Name),                                                                 \
      experts_row("experts/mma_s8", kGpuMmaS8, QuantType::k##Name),                            \
      experts_row("experts/wmma_gfx11", kGpuWmmaS8Gfx11, QuantType::k##Name),                  \
      experts_row("experts/wmma_gfx12", kGpuWmmaS8Gfx12, QuantType::k##Name),
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
    portable_row<SwiGluArgs, swiglu>("swiglu/gpu", kSwiGluImages),
};

}  // namespace

std::span<const KernelSpec> moe_rows() { return kRows; }

}  // namespace strata::gpu
