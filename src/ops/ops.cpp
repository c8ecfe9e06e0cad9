#include "ops/ops.h"

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
  STRATA_REQUIRE(args.rows > 0 && args.x != nullptr && args.y != nullptr);
  STRATA_REQUIRE(weight_fits(args.w, args.w.k, args.w.n));
  return launch(stream, args, args.w.type);
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
  STRATA_REQUIRE(args.ratio == 0 || (args.index_q != nullptr && args.rot_dim <= args.index_dim));
  return launch(stream, args);
}

Status qsa_select(Stream& stream, const QsaSelectArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.start >= 0);
  STRATA_REQUIRE(args.ratio == 0 || args.budget >= args.ratio);
  STRATA_REQUIRE(args.ratio == 0 || args.max_cells >= args.budget + args.ratio - 1);
  STRATA_REQUIRE(args.ratio == 0 ||
                 args.scratch_stride >= (args.start + args.rows) / args.ratio + 1);
  return launch(stream, args);
}

Status attention(Stream& stream, const AttentionArgs& args) {
  STRATA_REQUIRE(args.rows > 0 && args.kv_heads > 0 && args.heads % args.kv_heads == 0);
  STRATA_REQUIRE(args.start + args.rows <= args.cache.capacity);
  return launch(stream, args);
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

#undef STRATA_REQUIRE

}  // namespace strata::ops
