// Which memory an op's arguments point at: every operand of a call with its size, its use and what
// its values are. From it follow the cases that run on any device (op_case.h).
//
// visit_operands(args, f) calls f(use, kind, pointer, bytes) for every operand that is present, in a
// fixed order; `pointer` is a reference to the member, so that f may put another address there.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "backend/op_args.h"
#include "ops/op_case.h"

namespace strata::ops {

// What an operand's bytes are.
enum class ValueKind : uint8_t { kFloat, kHalf, kInt32, kByte };

namespace operands {

template <class T>
constexpr ValueKind kind_of() {
  return std::is_same_v<std::remove_const_t<T>, float> ? ValueKind::kFloat : ValueKind::kInt32;
}
template <class F, class T>
void typed(F& f, OperandUse use, T*& pointer, int64_t count) {
  if (pointer != nullptr) f(use, kind_of<T>(), pointer, static_cast<size_t>(count) * sizeof(T));
}
template <class F, class T>
void in(F& f, T*& pointer, int64_t count) {
  typed(f, OperandUse::kIn, pointer, count);
}
template <class F, class T>
void state(F& f, T*& pointer, int64_t count) {
  typed(f, OperandUse::kInOut, pointer, count);
}
template <class F, class T>
void out(F& f, T*& pointer, int64_t count) {
  typed(f, OperandUse::kOut, pointer, count);
}
template <class F, class T>
void scratch(F& f, T*& pointer, int64_t count) {
  typed(f, OperandUse::kScratch, pointer, count);
}
template <class F>
void weight(F& f, backend::WeightRef& w) {
  if (!w.present()) return;
  f(OperandUse::kIn, ValueKind::kByte, w.data,
    static_cast<size_t>(w.n * w.experts) * row_bytes(w.type, w.k));
  in(f, w.scale, w.scale_count);
}
template <class F>
void cells(F& f, OperandUse use, backend::KvView& cache, int kv_heads, int head_dim) {
  if (cache.type == backend::KvType::kI8) {
    const int64_t values = cache.capacity * kv_heads * head_dim;
    f(use, ValueKind::kByte, cache.k, static_cast<size_t>(values));
    f(use, ValueKind::kByte, cache.v, static_cast<size_t>(values));
    typed(f, use, cache.k_scales, values / backend::kKvGroup);
    typed(f, use, cache.v_scales, values / backend::kKvGroup);
    return;
  }
  // No operands of the other types: an address on the host must not reach a device.
  cache.k_scales = nullptr;
  cache.v_scales = nullptr;
  const bool half = cache.type == backend::KvType::kF16;
  const size_t bytes = static_cast<size_t>(cache.capacity) * static_cast<size_t>(kv_heads) *
                       static_cast<size_t>(head_dim) * (half ? 2 : 4);
  f(use, half ? ValueKind::kHalf : ValueKind::kFloat, cache.k, bytes);
  f(use, half ? ValueKind::kHalf : ValueKind::kFloat, cache.v, bytes);
}

}  // namespace operands

template <class F>
void visit_operands(backend::EmbedArgs& a, F&& f) {
  operands::weight(f, a.table);
  operands::in(f, a.ids, a.rows);
  operands::out(f, a.out, a.rows * a.table.k);
}

template <class F>
void visit_operands(backend::HcBroadcastArgs& a, F&& f) {
  const int64_t values = static_cast<int64_t>(a.rows) * a.width;
  operands::in(f, a.e, values);
  operands::out(f, a.residual, values * a.streams);
}

template <class F>
void visit_operands(backend::HcReadArgs& a, F&& f) {
  const int64_t rows = a.rows;
  const int64_t wide = static_cast<int64_t>(a.streams) * a.width;
  operands::in(f, a.residual, rows * wide);
  operands::in(f, a.norm, wide);
  operands::weight(f, a.down);
  operands::weight(f, a.up);
  operands::weight(f, a.inject);
  operands::out(f, a.x, rows * a.width);
  operands::out(f, a.inject_weight, rows * a.streams);
  operands::scratch(f, a.scratch, rows * (2 * wide + a.rank));
}

template <class F>
void visit_operands(backend::HcWriteArgs& a, F&& f) {
  const int64_t values = static_cast<int64_t>(a.rows) * a.width;
  operands::state(f, a.residual, values * a.streams);
  operands::in(f, a.y, values);
  operands::in(f, a.inject_weight, static_cast<int64_t>(a.rows) * a.streams);
}

template <class F>
void visit_operands(backend::GdnArgs& a, F&& f) {
  const int64_t rows = a.rows;
  const int64_t dim = a.head_dim;
  const int64_t channels = (2 * static_cast<int64_t>(a.key_heads) + a.value_heads) * dim;
  operands::in(f, a.qkv, rows * channels);
  operands::in(f, a.z, rows * a.value_heads * dim);
  operands::in(f, a.alpha, rows * a.value_heads);
  operands::in(f, a.beta, rows * a.value_heads);
  operands::in(f, a.conv, channels * a.conv_width);
  operands::in(f, a.dt_bias, a.value_heads);
  operands::in(f, a.a_log, a.value_heads);
  operands::in(f, a.norm, dim);
  operands::state(f, a.conv_state, (a.conv_width - 1) * channels);
  operands::state(f, a.state, a.value_heads * dim * dim);
  operands::out(f, a.out, rows * a.value_heads * dim);
  operands::scratch(f, a.scratch, rows * channels);
}

template <class F>
void visit_operands(backend::QsaPrepareArgs& a, F&& f) {
  const int64_t rows = a.rows;
  operands::state(f, a.q, rows * a.heads * 2 * a.head_dim);
  operands::in(f, a.k, rows * a.kv_heads * a.head_dim);
  operands::in(f, a.v, rows * a.kv_heads * a.head_dim);
  operands::in(f, a.q_norm, a.head_dim);
  operands::in(f, a.k_norm, a.head_dim);
  operands::in(f, a.rope, rows * a.rot_dim);
  operands::in(f, a.start_at, 1);
  operands::cells(f, OperandUse::kInOut, a.cache, a.kv_heads, a.head_dim);
  if (a.ratio == 0) return;
  operands::state(f, a.index_q, rows * a.index_heads * a.index_dim);
  operands::in(f, a.index_k, rows * a.index_dim);
  operands::in(f, a.index_q_norm, a.index_dim);
  operands::in(f, a.index_k_norm, a.index_dim);
  operands::state(f, a.tail_rope, static_cast<int64_t>(a.ratio) * a.rot_dim);
  operands::state(f, a.cache.tail_keys, static_cast<int64_t>(a.ratio) * a.index_dim);
  operands::state(f, a.cache.block_keys, a.cache.capacity / a.ratio * a.index_dim);
}

template <class F>
void visit_operands(backend::QsaSelectArgs& a, F&& f) {
  const int64_t rows = a.rows;
  operands::out(f, a.cells, rows * a.max_cells);
  operands::out(f, a.counts, rows);
  operands::in(f, a.start_at, 1);
  if (a.ratio == 0) return;
  operands::in(f, a.index_q, rows * a.index_heads * a.index_dim);
  operands::in(f, a.block_keys, (a.start + rows) / a.ratio * a.index_dim);
  operands::scratch(f, a.scratch, rows * a.scratch_stride);
}

template <class F>
void visit_operands(backend::AttentionArgs& a, F&& f) {
  const int64_t rows = a.rows;
  operands::in(f, a.q, rows * a.heads * 2 * a.head_dim);
  operands::cells(f, OperandUse::kIn, a.cache, a.kv_heads, a.head_dim);
  operands::in(f, a.cells, rows * a.max_cells);
  operands::in(f, a.counts, rows);
  operands::in(f, a.start_at, 1);
  operands::out(f, a.out, rows * a.heads * a.head_dim);
}

template <class F>
void visit_operands(backend::RouterArgs& a, F&& f) {
  operands::weight(f, a.w);
  operands::in(f, a.x, a.rows * a.w.k);
  operands::out(f, a.ids, static_cast<int64_t>(a.rows) * a.used);
  operands::out(f, a.weights, static_cast<int64_t>(a.rows) * a.used);
  operands::scratch(f, a.scratch, a.rows * a.w.n);
}

template <class F>
void visit_operands(backend::ExpertsArgs& a, F&& f) {
  const int64_t rows = a.rows;
  operands::weight(f, a.gate);
  operands::weight(f, a.up);
  operands::weight(f, a.down);
  operands::in(f, a.x, rows * a.width);
  operands::in(f, a.ids, rows * a.used);
  operands::in(f, a.weights, rows * a.used);
  operands::out(f, a.y, rows * a.width);
  operands::scratch(f, a.scratch, rows * a.used * (2 * a.hidden + a.width));
}

template <class F>
void visit_operands(backend::SwiGluArgs& a, F&& f) {
  const int64_t values = static_cast<int64_t>(a.rows) * a.width;
  const bool in_place = a.out == a.gate;
  operands::in(f, a.up, values);
  if (in_place) {
    operands::state(f, a.out, values);
    a.gate = a.out;
  } else {
    operands::in(f, a.gate, values);
    operands::out(f, a.out, values);
  }
}

template <class F>
void visit_operands(backend::SharedExpertAddArgs& a, F&& f) {
  const int64_t values = static_cast<int64_t>(a.rows) * a.width;
  operands::weight(f, a.gate);
  operands::in(f, a.x, values);
  operands::in(f, a.d, values);
  operands::state(f, a.y, values);
}

template <class F>
void visit_operands(backend::PleInjectArgs& a, F&& f) {
  const int64_t rows = a.rows;
  const int64_t wide = static_cast<int64_t>(a.streams) * a.width;
  operands::in(f, a.key, rows * wide);
  operands::in(f, a.value, rows * a.width);
  operands::in(f, a.norm_key, wide);
  operands::in(f, a.norm_query, wide);
  operands::in(f, a.norm_conv, wide);
  operands::in(f, a.conv, wide * a.conv_width);
  operands::state(f, a.conv_state, static_cast<int64_t>(a.conv_width - 1) * a.dilation * wide);
  operands::state(f, a.residual, rows * wide);
  operands::scratch(f, a.scratch, rows * 2 * wide);
}

template <class F>
void visit_operands(backend::TopKLogitsArgs& a, F&& f) {
  const int64_t rows = a.rows;
  operands::in(f, a.logits, rows * a.stride);
  operands::out(f, a.values, rows * a.k);
  operands::out(f, a.ids, rows * a.k);
  operands::scratch(f, a.scratch, rows * backend::TopKLogitsArgs::groups(a.valid));
}

template <class Args>
concept HasOperands =
    requires(Args& a) { visit_operands(a, [](OperandUse, ValueKind, auto*&, size_t) {}); };

// A call whose operands lie on the host, as a case that runs on any device. Contents are copied;
// outputs start as bytes 0xff.
template <HasOperands Args>
OpCase<Args> capture(Args args) {
  OpCase<Args> out;
  out.args = args;
  int index = 0;
  visit_operands(args, [&](OperandUse use, ValueKind, auto*& pointer, size_t bytes) {
    const auto bind = [which = index++](Args& bound, void* address) {
      int at = 0;
      visit_operands(bound, [&](OperandUse, ValueKind, auto*& member, size_t) {
        if (at++ == which) member = static_cast<std::remove_reference_t<decltype(member)>>(address);
      });
    };
    const auto* first = static_cast<const std::byte*>(static_cast<const void*>(pointer));
    const std::vector<std::byte> content(first, first + bytes);
    switch (use) {
      case OperandUse::kIn: out.input(content, bind); break;
      case OperandUse::kInOut: out.state(content, bind); break;
      case OperandUse::kOut: out.output(bytes, bind); break;
      case OperandUse::kScratch: out.scratch(bytes, bind); break;
    }
  });
  return out;
}

// What the entries of OpOutputs are, in their order.
template <HasOperands Args>
std::vector<ValueKind> output_kinds(Args args) {
  std::vector<ValueKind> out;
  visit_operands(args, [&](OperandUse use, ValueKind kind, auto*&, size_t) {
    if (use == OperandUse::kOut || use == OperandUse::kInOut) out.push_back(kind);
  });
  return out;
}

// Runs a call whose operands lie on the host on a row of any device, in place.
template <class Args>
Status run_in_place(backend::Device& device, const backend::KernelSpec& row, Args args) {
  if (device.shares_host_memory()) {
    STRATA_RETURN_IF_ERROR(row.launch(device.stream(), &args));
    return device.stream().synchronize();
  }
  const OpCase<Args> c = capture(args);
  STRATA_ASSIGN_OR_RETURN(const OpOutputs outputs, c.run(device, row));
  size_t at = 0;
  visit_operands(args, [&](OperandUse use, ValueKind, auto*& pointer, size_t bytes) {
    if (use != OperandUse::kOut && use != OperandUse::kInOut) return;
    std::memcpy(const_cast<void*>(static_cast<const void*>(pointer)), outputs[at++].data(), bytes);
  });
  return {};
}

// The products of a matmul lie outside of its arguments.
inline Status run_in_place(backend::Device& device, const backend::KernelSpec& row,
                           const backend::MatmulArgs& args) {
  if (device.shares_host_memory()) {
    STRATA_RETURN_IF_ERROR(row.launch(device.stream(), &args));
    return device.stream().synchronize();
  }
  std::vector<backend::Buffer> buffers;
  const auto upload = [&](const auto*& pointer, size_t bytes) -> Status {
    if (pointer == nullptr) return {};
    STRATA_ASSIGN_OR_RETURN(backend::Buffer buffer, device.allocate(bytes));
    STRATA_RETURN_IF_ERROR(device.copy_to_device(buffer.data(), pointer, bytes));
    pointer = static_cast<std::remove_reference_t<decltype(pointer)>>(buffer.data());
    buffers.push_back(std::move(buffer));
    return {};
  };
  std::vector<backend::Product> products(args.products.begin(), args.products.end());
  backend::MatmulArgs bound = args;
  bound.products = products;
  const auto rows = static_cast<size_t>(args.rows);
  STRATA_RETURN_IF_ERROR(
      upload(bound.x, rows * static_cast<size_t>(products.front().w.k) * sizeof(float)));
  for (backend::Product& p : products) {
    STRATA_RETURN_IF_ERROR(
        upload(p.w.data, static_cast<size_t>(p.w.n) * row_bytes(p.w.type, p.w.k)));
    STRATA_RETURN_IF_ERROR(upload(p.w.scale, static_cast<size_t>(p.w.scale_count) * sizeof(float)));
    const float* y = p.y;
    STRATA_RETURN_IF_ERROR(upload(y, rows * static_cast<size_t>(p.w.n) * sizeof(float)));
    p.y = const_cast<float*>(y);
  }
  STRATA_RETURN_IF_ERROR(row.launch(device.stream(), &bound));
  for (size_t i = 0; i < products.size(); ++i) {
    const size_t bytes = rows * static_cast<size_t>(products[i].w.n) * sizeof(float);
    STRATA_RETURN_IF_ERROR(device.copy_to_host(args.products[i].y, products[i].y, bytes));
  }
  return device.stream().synchronize();
}

}  // namespace strata::ops
