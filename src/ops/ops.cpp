#include "ops/ops.h"

#include <algorithm>
#include <array>

namespace strata::ops {

using namespace backend;

namespace {

// Launches `args` on the row that the stream's device chose for its op and weight type.
template <class Args>
Status launch(Stream& stream, const Args& args, std::optional<QuantType> type = std::nullopt) {
  const KernelTable& table = stream.device().kernels();
  const KernelSpec* row = type ? table.find(Args::kOp, *type) : table.find(Args::kOp);
  if (row == nullptr) {
    return failed_precondition("{}: no kernel for {} with weights of type {} in this build",
                               stream.device().caps().id, op_name(Args::kOp),
                               type ? quant_info(*type).name : "any");
  }
  return row->launch(stream, &args);
}

Status violated(OpId op, const char* rule) {
  return internal_error("{}: operand contract violated: {}", op_name(op), rule);
}

#define STRATA_REQUIRE(rule) \
  if (!(rule)) return violated(args.kOp, #rule)

// A device that computes on host memory records nothing: its rows take the start that stands there.
template <class Args>
Args resolved(Stream& stream, Args args) {
  if (args.start_at != nullptr && stream.device().shares_host_memory()) {
    args.start = *args.start_at;
    args.start_at = nullptr;
    if constexpr (requires { args.total; }) args.total = args.start + args.rows;
  }
  return args;
}

bool weight_fits(const WeightRef& w, int64_t k, int64_t n, int64_t experts = 1) {
  return w.present() && w.k == k && w.n == n && w.experts == experts &&
         k % quant_info(w.type).elems == 0 &&
         (w.scale == nullptr || w.scale_count == 1 || w.scale_count == experts);
}

}  // namespace

Status embed(Stream& stream, const EmbedArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.ids != nullptr && args.out != nullptr);
  STRATA_REQUIRE(weight_fits(args.table, args.table.k, args.table.n));
  return launch(stream, args, args.table.type);
}

Status hc_broadcast(Stream& stream, const HcBroadcastArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.streams > 0 && args.width > 0);
  return launch(stream, args);
}

Status hc_read(Stream& stream, const HcReadArgs& args) {
  const int64_t wide = static_cast<int64_t>(args.streams) * args.width;
  STRATA_REQUIRE(args.rows > 0 && args.streams > 0);
  STRATA_REQUIRE(weight_fits(args.down, wide, args.rank));
  STRATA_REQUIRE(weight_fits(args.up, args.rank, wide));
  STRATA_REQUIRE(!args.inject.present() || weight_fits(args.inject, wide, args.streams));
  STRATA_REQUIRE(args.inject.present() == (args.inject_weight != nullptr));
  return launch(stream, args, args.down.type);
}

Status hc_write(Stream& stream, const HcWriteArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.streams > 0 && args.width > 0);
  return launch(stream, args);
}

Status matmul(Stream& stream, const MatmulArgs& args) {
  const std::span<const Product> products = args.products;
  STRATA_REQUIRE(args.rows > 0 && args.x != nullptr);
  STRATA_REQUIRE(!products.empty() && products.size() <= MatmulArgs::kMaxProducts);
  for (const Product& p : products) {
    STRATA_REQUIRE(p.y != nullptr && weight_fits(p.w, products[0].w.k, p.w.n));
  }
  for (size_t first = 0; first < products.size(); ++first) {
    const QuantType type = products[first].w.type;
    const auto same = [type](const Product& p) { return p.w.type == type; };
    if (std::any_of(products.begin(), products.begin() + static_cast<ptrdiff_t>(first), same)) {
      continue;
    }
    std::array<Product, MatmulArgs::kMaxProducts> group{};
    const auto end = std::copy_if(products.begin(), products.end(), group.begin(), same);
    STRATA_RETURN_IF_ERROR(launch(
        stream, MatmulArgs{.x = args.x, .rows = args.rows, .products = {group.begin(), end}}, type));
  }
  return {};
}

Status gdn(Stream& stream, const GdnArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.conv_width > 0 && args.head_dim > 0);
  STRATA_REQUIRE(args.key_heads > 0 && args.value_heads % args.key_heads == 0);
  return launch(stream, args);
}

Status qsa_prepare(Stream& stream, const QsaPrepareArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.start >= 0);
  STRATA_REQUIRE(args.start + args.rows <= args.cache.capacity);
  STRATA_REQUIRE(args.rot_dim % 2 == 0 && args.rot_dim <= args.head_dim);
  STRATA_REQUIRE(args.cache.type != KvType::kI8 || args.head_dim % kKvGroup == 0);
  STRATA_REQUIRE(args.ratio == 0 || (args.index_q != nullptr && args.rot_dim <= args.index_dim));
  return launch(stream, resolved(stream, args));
}

Status qsa_select(Stream& stream, const QsaSelectArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.start >= 0);
  STRATA_REQUIRE(args.ratio == 0 || args.budget >= args.ratio);
  STRATA_REQUIRE(args.ratio == 0 || args.max_cells >= args.budget + args.ratio - 1);
  STRATA_REQUIRE(args.ratio == 0 ||
                 args.scratch_stride >= (args.start + args.rows) / args.ratio + 1);
  return launch(stream, resolved(stream, args));
}

Status attention(Stream& stream, const AttentionArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.kv_heads > 0 && args.heads % args.kv_heads == 0);
  STRATA_REQUIRE(args.cache.type != KvType::kI8 || args.head_dim % kKvGroup == 0);
  STRATA_REQUIRE(args.start + args.rows <= args.cache.capacity);
  return launch(stream, resolved(stream, args));
}

Status router(Stream& stream, const RouterArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.used > 0 && args.used <= args.w.n);
  STRATA_REQUIRE(weight_fits(args.w, args.w.k, args.w.n));
  return launch(stream, args, args.w.type);
}

Status experts(Stream& stream, const ExpertsArgs& args) {
  const bool fused = !args.up.present();
  const int64_t experts = args.gate.experts;
  STRATA_REQUIRE(args.rows > 0 && args.used > 0 && args.used <= experts);
  STRATA_REQUIRE(weight_fits(args.gate, args.width, fused ? 2 * args.hidden : args.hidden, experts));
  STRATA_REQUIRE(fused || weight_fits(args.up, args.width, args.hidden, experts));
  STRATA_REQUIRE(weight_fits(args.down, args.hidden, args.width, experts));
  return launch(stream, args, args.gate.type);
}

Status swiglu(Stream& stream, const SwiGluArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.width > 0);
  return launch(stream, args);
}

Status shared_expert_add(Stream& stream, const SharedExpertAddArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && weight_fits(args.gate, args.width, 1));
  return launch(stream, args, args.gate.type);
}

Status ple_inject(Stream& stream, const PleInjectArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.conv_width > 0 && args.dilation > 0);
  return launch(stream, args);
}

Status top_k_logits(Stream& stream, const TopKLogitsArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.valid > 0 && args.valid <= args.stride);
  STRATA_REQUIRE(args.valid <= TopKLogitsArgs::kMostTokens);
  STRATA_REQUIRE(args.k > 0 && args.k <= args.valid && args.k <= TopKLogitsArgs::kMost);
  return launch(stream, args);
}

#undef STRATA_REQUIRE

}  // namespace strata::ops
