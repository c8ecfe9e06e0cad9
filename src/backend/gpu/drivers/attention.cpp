// qsa_prepare, qsa_select, attention.
#include <algorithm>

#include "backend/gpu/drivers/launch.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

using namespace backend;

namespace {

constexpr int kManyHeads = 4;  // attention_images.h: added to the variant of a cache type
constexpr int kSegment = 256;  // cells; docs/ARITHMETIC.md
constexpr int kScoreManyRows = 1;  // attention_images.h: variant of kQsaScore
constexpr int kFewScoreRows = 3;   // fewer rows would leave it idle

Status qsa_prepare(GpuStream& stream, const QsaPrepareArgs& a) {
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(image_key(Kernel::kQsaPrepare)));
  QsaPrepareParams p{.q = a.q,
                     .k = a.k,
                     .v = a.v,
                     .index_q = a.index_q,
                     .index_k = a.index_k,
                     .q_norm = a.q_norm,
                     .k_norm = a.k_norm,
                     .index_q_norm = a.index_q_norm,
                     .index_k_norm = a.index_k_norm,
                     .rope = a.rope,
                     .tail_rope = a.tail_rope,
                     .cache = a.cache,
                     .eps = a.eps,
                     .start = {a.start_at, a.start},
                     .rows = a.rows,
                     .heads = a.heads,
                     .kv_heads = a.kv_heads,
                     .head_dim = a.head_dim,
                     .rot_dim = a.rot_dim,
                     .ratio = a.ratio,
                     .index_heads = a.index_heads,
                     .index_dim = a.index_dim,
                     .vector_blocks = 0};
  p.vector_blocks =
      pieces(static_cast<int64_t>(a.rows) * p.vectors_of_row(), image->shape.tile_m);
  int blocks = p.vector_blocks;
  if (a.ratio > 0) {
    const int64_t pooled = a.start_at != nullptr
                               ? (a.rows + a.ratio - 1) / a.ratio  // the most it can be
                               : (a.start + a.rows) / a.ratio - a.start / a.ratio;
    blocks += pieces(pooled, image->shape.tile_m);  // one at least, for the tail
  }
  const int shared = a.cache.type == KvType::kI8
                         ? image->shape.tile_m * a.head_dim * static_cast<int>(sizeof(float))
                         : 0;
  return stream.launch(image->key, {.x = blocks}, p, shared);
}

Status qsa_select(GpuStream& stream, const QsaSelectArgs& a) {
  const int64_t end = a.start + a.rows;
  // The first row for which the budget leaves cells out. With start_at: for which it may.
  const int64_t first =
      a.ratio == 0 ? a.rows : std::max<int64_t>(0, a.budget + a.ratio - 1 - a.start);
  if (first < a.rows) {
    const int64_t rows = a.rows - first;
    STRATA_ASSIGN_OR_RETURN(
        const KernelImage* score,
        stream.image(image_key(Kernel::kQsaScore, rows >= kFewScoreRows ? kScoreManyRows : 0)));
    const int row_tiles = pieces(rows, score->shape.tile_m);
    const int key_tiles = pieces(end / a.ratio, score->shape.tile_n);
    // Blocks go through several tiles with the queries they hold, as long as the device is full.
    const int64_t work = static_cast<int64_t>(key_tiles) * row_tiles;
    const auto tiles = static_cast<int>(
        std::clamp<int64_t>(work / (8 * stream.gpu().caps().workers), 1, 16));
    const int padded = (a.index_dim + 15) / 16 * 16;
    STRATA_RETURN_IF_ERROR(stream.launch(
        score->key, {.x = pieces(key_tiles, tiles), .y = row_tiles},
        QsaScoreParams{.index_q = a.index_q,
                       .block_keys = a.block_keys,
                       .scores = a.scratch,
                       .stride = a.scratch_stride,
                       .start = {a.start_at, a.start},
                       .rows = a.rows,
                       .first_row = static_cast<int>(first),
                       .heads = a.index_heads,
                       .dim = a.index_dim,
                       .ratio = a.ratio,
                       .budget = a.budget,
                       .tiles = tiles},
        score->shape.tile_m * kScoreHeads * padded * static_cast<int>(sizeof(float))));
  }
  const bool by_cells = a.form == QsaForm::kLc050;
  return stream.launch(image_key(by_cells ? Kernel::kQsaSelectCells : Kernel::kQsaSelect),
                       {.x = a.rows},
                       QsaSelectParams{.scores = a.scratch,
                                       .cells = a.cells,
                                       .counts = a.counts,
                                       .stride = a.scratch_stride,
                                       .start = {a.start_at, a.start},
                                       .total = a.total,
                                       .ratio = a.ratio,
                                       .budget = a.budget,
                                       .max_cells = a.max_cells});
}

Status attention(GpuStream& stream, const AttentionArgs& a) {
  const int type = static_cast<int>(a.cache.type);
  const int group = a.heads / a.kv_heads;
  STRATA_ASSIGN_OR_RETURN(
      const KernelImage* many,
      stream.image(image_key(Kernel::kAttentionSegment, type + kManyHeads)));
  STRATA_ASSIGN_OR_RETURN(const KernelImage* few,
                          stream.image(image_key(Kernel::kAttentionSegment, type)));
  // Blocks that take all segments of a row fill the device when there are rows enough; otherwise the
  // segments are spread too, as long as what they leave behind is small.
  constexpr int64_t kLargestPartial = 256 << 20;
  const int64_t segments = (a.start + a.rows + kSegment - 1) / kSegment;
  const int64_t heads = static_cast<int64_t>(a.rows) * a.heads;
  const int64_t partial = heads * segments * a.head_dim;
  const int64_t weights = heads * segments * 2;
  const int64_t bytes = (partial + weights) * static_cast<int64_t>(sizeof(float));
  const int workers = stream.gpu().caps().workers;
  const bool split = segments > 1 && bytes <= kLargestPartial &&
                     static_cast<int64_t>(a.rows) * a.kv_heads < workers;
  const KernelImage* image = !split && group > few->shape.tile_m ? many : few;
  const int groups = a.kv_heads * pieces(group, image->shape.tile_m);
  // How many segments a row has only the device knows; blocks for every one that it may have would
  // mostly find nothing to do.
  const int64_t sharing = std::clamp<int64_t>(
      2 * workers / (static_cast<int64_t>(a.rows) * groups), 1, split ? segments : 1);

  AttentionSegmentParams p{.q = a.q,
                           .k = a.cache.k,
                           .v = a.cache.v,
                           .k_scales = a.cache.k_scales,
                           .v_scales = a.cache.v_scales,
                           .cells = a.cells,
                           .counts = a.counts,
                           .out = a.out,
                           .partial = nullptr,
                           .weights = nullptr,
                           .scale = a.scale,
                           .start = {a.start_at, a.start},
                           .heads = a.heads,
                           .kv_heads = a.kv_heads,
                           .head_dim = a.head_dim,
                           .max_cells = a.max_cells,
                           .segments = split ? static_cast<int>(segments) : 0};
  if (split) {
    STRATA_ASSIGN_OR_RETURN(void* scratch, stream.scratch(static_cast<size_t>(bytes)));
    p.partial = static_cast<float*>(scratch);
    p.weights = p.partial + partial;
  }
  const int query_bytes = image->shape.tile_m * a.head_dim * static_cast<int>(sizeof(float));
  STRATA_RETURN_IF_ERROR(stream.launch(image->key,
                                       {.x = a.rows,
                                        .y = groups,
                                        .z = static_cast<int>(sharing)},
                                       p, query_bytes));
  if (!split) return {};
  return stream.launch(image_key(Kernel::kAttentionMerge), {.x = a.rows * a.heads},
                       AttentionMergeParams{.q = a.q,
                                            .counts = a.counts,
                                            .partial = p.partial,
                                            .weights = p.weights,
                                            .out = a.out,
                                            .heads = a.heads,
                                            .head_dim = a.head_dim,
                                            .segments = p.segments});
}

constexpr uint32_t kPrepareImages[] = {pack_key(image_key(Kernel::kQsaPrepare))};
constexpr uint32_t kSelectImages[] = {pack_key(image_key(Kernel::kQsaScore)),
                                      pack_key(image_key(Kernel::kQsaScore, kScoreManyRows)),
                                      pack_key(image_key(Kernel::kQsaSelect)),
                                      pack_key(image_key(Kernel::kQsaSelectCells))};
constexpr uint32_t segment_image(KvType type, int added) {
  return pack_key(image_key(Kernel::kAttentionSegment, static_cast<int>(type) + added));
}
constexpr uint32_t kAttentionImages[] = {
    segment_image(KvType::kF32, 0), segment_image(KvType::kF32, kManyHeads),
    segment_image(KvType::kF16, 0), segment_image(KvType::kF16, kManyHeads),
    segment_image(KvType::kI8, 0),  segment_image(KvType::kI8, kManyHeads),
    pack_key(image_key(Kernel::kAttentionMerge))};

constexpr KernelSpec kRows[] = {
    portable_row<QsaPrepareArgs, qsa_prepare>("qsa_prepare/gpu", kPrepareImages),
    portable_row<QsaSelectArgs, qsa_select>("qsa_select/gpu", kSelectImages),
    portable_row<AttentionArgs, attention>("attention/gpu", kAttentionImages),
};

}  // namespace

std::span<const KernelSpec> attention_rows() { return kRows; }

}  // namespace strata::gpu
