// The op contracts: what each op computes, its shapes, its state and its domain. A back end
// implements these structs; ops/ checks them and launches; model/ calls ops/.
//
// Conventions. All pointers are memory of the device that runs the op. Activations are float,
// row-major and dense: x[rows, width]. Rows are the tokens of one call and never influence each
// other except through the state an op names. Section numbers are those of docs/MODEL.md.
// In-place operands are marked; all other operands must not overlap.
//
// Numeric promise. Reference rows evaluate the formulas in double precision, rounding to float
// where a result is stored. All other rows follow docs/ARITHMETIC.md and agree bit for bit with each
// other wherever that document says so.
#pragma once

#include <cstdint>
#include <span>

#include "format/quant/quant.h"

namespace strata::backend {

enum class OpId : uint8_t {
  kEmbed,
  kHcBroadcast,
  kHcRead,
  kHcWrite,
  kMatmul,
  kGdn,
  kQsaPrepare,
  kQsaSelect,
  kAttention,
  kRouter,
  kExperts,
  kSwiGlu,
  kSharedExpertAdd,
  kPleInject,
  kTopKLogits,
  kCount,
};
const char* op_name(OpId op);

// A weight matrix: `n` rows of `k` consecutive values in blocks of `type`; experts one after
// another. Computes n outputs from k inputs.
struct WeightRef {
  const void* data = nullptr;
  QuantType type{};
  int64_t k = 0;
  int64_t n = 0;
  int64_t experts = 1;
  // Optional factors on the product ("X.scale" tensors): nullptr, one value, or one per expert.
  const float* scale = nullptr;
  int64_t scale_count = 0;

  bool present() const { return data != nullptr; }
};

// out[r] = row ids[r] of the table, decoded, times table.scale[0] where present: the one factor on
// embeddings, which the stored values of this architecture include already.
struct EmbedArgs {
  static constexpr OpId kOp = OpId::kEmbed;
  WeightRef table;       // k = width, n = vocabulary
  const int32_t* ids;    // [rows], each in [0, n)
  float* out;            // [rows, k]
  int rows;
};

// Every one of the `streams` streams of the wide residual starts as a copy of e (3.1).
struct HcBroadcastArgs {
  static constexpr OpId kOp = OpId::kHcBroadcast;
  const float* e;        // [rows, width]
  float* residual;       // [rows, streams, width]
  int rows, streams, width;
};

// The hyper-connection mixer's read side (3.2, steps 1 to 5):
//   n_s = rms(R_s) * norm_s;  l = silu((down n) / streams);  a = sigmoid(up l)
//   x = mean over s of a_s * n_s;  inject_weight = 2 sigmoid((inject n) / streams)
struct HcReadArgs {
  static constexpr OpId kOp = OpId::kHcRead;
  const float* residual;  // [rows, streams, width]
  const float* norm;      // [streams * width]
  WeightRef down;         // k = streams * width, n = rank
  WeightRef up;           // k = rank, n = streams * width
  WeightRef inject;       // k = streams * width, n = streams; absent for the final mixer
  float eps;
  float* x;               // [rows, width]
  float* inject_weight;   // [rows, streams]; nullptr when inject is absent
  float* scratch;         // [rows, 2 * streams * width + rank]
  int rows, streams, width, rank;
};

// R_s += w_s * y (3.2, step 6).
struct HcWriteArgs {
  static constexpr OpId kOp = OpId::kHcWrite;
  float* residual;            // [rows, streams, width], in place
  const float* y;             // [rows, width]
  const float* inject_weight; // [rows, streams]
  int rows, streams, width;
};

// One matrix that an input meets: y = w x, times w.scale[0] where present.
struct Product {
  WeightRef w;  // experts = 1
  float* y;     // [rows, w.n]
};

// Products of one input. All weights of one call of a kernel have the same type and the same k;
// ops::matmul takes mixed types and calls once per type.
struct MatmulArgs {
  static constexpr OpId kOp = OpId::kMatmul;
  // More matrices than any layer has for one input, so that launching needs no memory.
  static constexpr size_t kMaxProducts = 8;
  const float* x;                     // [rows, k]
  int rows;
  std::span<const Product> products;  // 1 to kMaxProducts
};

// Gated delta net between its input and output projections (3.5, steps 2 to 7), for `rows`
// consecutive tokens of one sequence.
struct GdnArgs {
  static constexpr OpId kOp = OpId::kGdn;
  const float* qkv;        // [rows, channels], channels = (2 key_heads + value_heads) * head_dim
  const float* z;          // [rows, value_heads * head_dim] output gate before the sigmoid
  const float* alpha;      // [rows, value_heads] a of step 5
  const float* beta;       // [rows, value_heads] b of step 5
  const float* conv;       // [channels, conv_width], tap conv_width - 1 = current token
  const float* dt_bias;    // [value_heads]
  const float* a_log;      // [value_heads], ssm_a: already -exp(A_log)
  const float* norm;       // [head_dim]
  float* conv_state;       // [conv_width - 1, channels], oldest first, in place
  float* state;            // [value_heads, head_dim key rows, head_dim value columns], in place
  float* out;              // [rows, value_heads * head_dim]
  float* scratch;          // [rows, channels]
  float eps;
  int rows, key_heads, value_heads, head_dim, conv_width;
};

enum class KvType : uint8_t { kF32, kF16, kI8 };
inline constexpr const char* kKvTypeNames[] = {"f32", "f16", "i8"};

// Values that share a scale in a cache of kI8: 32 consecutive ones of a head. head_dim is a multiple.
inline constexpr int kKvGroup = 32;

// Bytes that `values` cached keys or values take, scales included.
constexpr int64_t kv_bytes(KvType type, int64_t values) {
  switch (type) {
    case KvType::kF32: return 4 * values;
    case KvType::kF16: return 2 * values;
    case KvType::kI8: return values + values / kKvGroup * 4;
  }
  return 0;
}

// Cached keys and values of one attention layer of one sequence.
//   kF16  rounded to nearest even after values are clamped to +-65504; NaN stays NaN
//   kI8   codes of int8 and a float scale per group of 32: scale = amax / 127, code =
//         round_half_even(x / scale) clamped to +-127, value = scale * code, all in float; a group of
//         zeros has scale 0 and codes 0, a group with a value that is not finite has scale NaN
// Codes and scales are separate arrays, so that both stay aligned.
struct KvView {
  void* k = nullptr;             // [capacity, kv_heads * head_dim] of `type`
  void* v = nullptr;             // the same
  float* block_keys = nullptr;   // [capacity / ratio, index_dim] pooled indexer keys, complete blocks
  float* tail_keys = nullptr;    // [ratio, index_dim] raw indexer keys of the incomplete block
  float* k_scales = nullptr;     // kI8: [capacity, kv_heads * head_dim / 32]
  float* v_scales = nullptr;     // kI8: the same
  KvType type = KvType::kF32;
  int64_t capacity = 0;
};

// `start` of the next three ops: the sequence index of the first row. Where `start_at` is given, the
// op reads that index from there, memory of its device, when it runs; `start` is then the largest it
// may be, for which scratch and cache have room. So a call that was recorded (Stream::record) serves
// every token of a sequence.

// Norms, rotates and caches (3.6 steps 2 and 3; 3.7 steps 1 to 3) for `rows` consecutive tokens of
// one sequence.
struct QsaPrepareArgs {
  static constexpr OpId kOp = OpId::kQsaPrepare;
  float* q;                 // [rows, heads, 2, head_dim]: query then gate; the query in place
  const float* k;           // [rows, kv_heads, head_dim]
  const float* v;           // [rows, kv_heads, head_dim]
  float* index_q;           // [rows, index_heads, index_dim], in place; nullptr when ratio = 0
  const float* index_k;     // [rows, index_dim] raw; nullptr when ratio = 0
  const float* q_norm;      // [head_dim]
  const float* k_norm;      // [head_dim]
  const float* index_q_norm;  // [index_dim]
  const float* index_k_norm;  // [index_dim]
  const float* rope;        // [rows, rot_dim]: rot_dim/2 cosines, then rot_dim/2 sines, per token
  // [ratio, rot_dim]: the same for the tokens of the block that is incomplete at `start`; a
  // block's key is rotated at the position of its first token. In place, kept with the tail keys.
  float* tail_rope;
  KvView cache;
  float eps;
  int64_t start;
  const int64_t* start_at = nullptr;  // see above
  int rows, heads, kv_heads, head_dim, rot_dim, ratio, index_heads, index_dim;
};

// How surplus cells are handled when the budget binds (3.7).
enum class QsaForm : uint8_t {
  kHf,     // whole blocks, then the tail: the trained rule
  kLc050,  // the cell-wise rule of a peer's release, for parity runs only
};

// Which cells each query attends (3.7 steps 4 to 6). Row r sits at sequence index start + r and
// sees start + r + 1 cells. When a query sees no more than budget + ratio - 1 cells, or ratio is 0,
// all are selected: count = number of cells seen, and the list is left unwritten.
struct QsaSelectArgs {
  static constexpr OpId kOp = OpId::kQsaSelect;
  const float* index_q;     // [rows, index_heads, index_dim], prepared
  const float* block_keys;  // [blocks, index_dim]
  int32_t* cells;           // [rows, max_cells] ascending sequence indices
  int32_t* counts;          // [rows]
  float* scratch;           // [rows, capacity of block scores] see scratch_stride
  int64_t scratch_stride;   // >= (start + rows) / ratio + 1
  int64_t start;
  const int64_t* start_at = nullptr;
  QsaForm form;
  // kLc050: tokens in the cache after this call, all rows of the step in. With start_at: those up to
  // the last row of this call.
  int64_t total;
  int rows, index_heads, index_dim, ratio, budget, max_cells;
};

// Softmax attention over the selected cells, then the output gate (3.6 steps 4 and 5).
struct AttentionArgs {
  static constexpr OpId kOp = OpId::kAttention;
  const float* q;           // [rows, heads, 2, head_dim]: prepared query, then raw gate
  KvView cache;
  const int32_t* cells;     // [rows, max_cells]
  const int32_t* counts;    // [rows]; counts[r] = start + r + 1 means all cells
  float* out;               // [rows, heads * head_dim]
  float scale;              // on the scores
  int64_t start;
  const int64_t* start_at = nullptr;
  int rows, heads, kv_heads, head_dim, max_cells;
};

// Top-k experts of a softmax router and their renormalised weights (3.8 step 1). Best first; equal
// probabilities: lower expert first.
struct RouterArgs {
  static constexpr OpId kOp = OpId::kRouter;
  WeightRef w;          // k = width, n = experts
  const float* x;       // [rows, k]
  int32_t* ids;         // [rows, used]
  float* weights;       // [rows, used]
  float* scratch;       // [rows, experts]
  int rows, used;
};

// Routed expert feed-forward (3.8 step 2): y[r] = sum over j of weights[r,j] * FFN_ids[r,j](x[r]).
// Experts are added in the order j = 0, 1, ... whatever order they are computed in.
struct ExpertsArgs {
  static constexpr OpId kOp = OpId::kExperts;
  WeightRef gate;        // k = width, n = hidden, experts; or fused: n = 2 * hidden, gate rows first
  WeightRef up;          // absent when fused
  WeightRef down;        // k = hidden, n = width
  const float* x;        // [rows, width]
  const int32_t* ids;    // [rows, used]
  const float* weights;  // [rows, used]
  float* y;              // [rows, width]
  float* scratch;        // [rows * used, 2 * hidden + width]
  int rows, used, width, hidden;
};

// out = silu(gate) * up, element by element.
struct SwiGluArgs {
  static constexpr OpId kOp = OpId::kSwiGlu;
  const float* gate;   // [rows, width]
  const float* up;     // [rows, width]
  float* out;          // [rows, width]; may be gate
  int rows, width;
};

// y[r] += sigmoid(<gate, x[r]>) * d[r] (3.8 step 3).
struct SharedExpertAddArgs {
  static constexpr OpId kOp = OpId::kSharedExpertAdd;
  WeightRef gate;      // k = width, n = 1
  const float* x;      // [rows, width]
  const float* d;      // [rows, width]
  float* y;            // [rows, width], in place
  int rows, width;
};

// Hashed n-gram injection after its projections (3.3, injection steps 1 to 8), for `rows`
// consecutive tokens of one sequence.
struct PleInjectArgs {
  static constexpr OpId kOp = OpId::kPleInject;
  const float* key;         // [rows, streams, width] ple_key E
  const float* value;       // [rows, width] ple_value E
  const float* norm_key;    // [streams * width]
  const float* norm_query;  // [streams * width]
  const float* norm_conv;   // [streams * width]
  const float* conv;        // [streams * width, conv_width], last tap = current token
  float* conv_state;        // [(conv_width - 1) * dilation, streams * width], oldest first, in place
  float* residual;          // [rows, streams, width], in place
  float* scratch;           // [rows, 2 * streams * width]
  float eps;
  int rows, streams, width, conv_width, dilation;
};

// The k largest of the first `valid` logits of each row with their ids, best first; of equal ones (0
// and -0 are equal) the lower id first. A logit that is NaN or +inf comes before every other, the lower
// id first, so that it cannot be missed. Values keep their bits.
struct TopKLogitsArgs {
  static constexpr OpId kOp = OpId::kTopKLogits;
  static constexpr int kMost = 1024;            // of k
  static constexpr int kMostTokens = 1 << 22;   // of valid
  // Logits go by groups, which go by strips.
  static constexpr int kGroup = 32;
  static constexpr int kStrip = 4096;
  static constexpr int64_t groups(int64_t valid) {
    return (valid + kStrip - 1) / kStrip * (kStrip / kGroup);
  }

  const float* logits;  // [rows, stride]
  int64_t stride;       // >= valid
  float* values;        // [rows, k]
  int32_t* ids;         // [rows, k]
  uint32_t* scratch;    // [rows, groups(valid)]
  int rows;
  int valid;            // 1 to kMostTokens
  int k;                // 1 to kMost, at most valid
};

}  // namespace strata::backend
