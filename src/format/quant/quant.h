// The weight types of GGUF files: what a block is, and how its bytes become numbers. Everything
// here is a pure function of its arguments and safe to call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "format/quant/int_group.h"
#include "format/quant/types.h"

namespace strata {

using quant::IntGroup;

enum class QuantType : uint8_t {
#define STRATA_QUANT_TYPE(Name) k##Name,
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
};

inline constexpr int kQuantTypeCount = 0
#define STRATA_QUANT_TYPE(Name) +1
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
    ;

struct QuantInfo {
  QuantType type;
  uint32_t gguf_id;
  const char* name;  // as other tools print it, e.g. "IQ3_XXS"
  int elems;         // per block; a row is a whole number of blocks
  int bytes;         // per block
  bool quantised;    // false for F32, F16 and BF16
  bool has_min;      // dmin and min of the integer form are used
  // One block of `bytes` bytes, at any alignment, to `elems` floats; the correctly rounded values.
  void (*decode)(const uint8_t* block, float* out);
  // Elements 32*group .. 32*group+31 of a block, group < elems/32. Null unless quantised.
  void (*unpack)(const uint8_t* block, int group, IntGroup& out);
};

const QuantInfo& quant_info(QuantType type);

// The type of a GGUF tensor-type id; empty when unknown. Id 42 gives kQ2_0: whether a tensor holds
// kQ2_0_G128 instead shows only from its size, which the GGUF reader looks at.
std::optional<QuantType> quant_from_gguf_id(uint32_t id);

// Bytes of a row. `elems` must be a non-negative multiple of the block length.
size_t row_bytes(QuantType type, int64_t elems);

// Decodes `elems` (a multiple of the block length) consecutive elements.
void decode_row(QuantType type, const void* src, float* dst, int64_t elems);

// Calls f(Type{}) with the block struct of `type` and returns its result. The result type must be
// the same for every struct.
template <class F>
decltype(auto) visit_quant(QuantType type, F&& f) {
  switch (type) {
#define STRATA_QUANT_TYPE(Name) \
  case QuantType::k##Name:      \
    return std::forward<F>(f)(quant::Name{});
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
  }
  __builtin_unreachable();
}

}  // namespace strata
