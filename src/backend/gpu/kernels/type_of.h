// The QuantType of a block struct: type_of<quant::Q8_0>() is QuantType::kQ8_0.
#pragma once

#include <type_traits>

#include "format/quant/quant.h"

namespace strata::gpu {

template <class Q>
constexpr QuantType type_of() {
#define STRATA_QUANT_TYPE(Name) \
  if (std::is_same_v<Q, quant::Name>) return QuantType::k##Name;
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
}

}  // namespace strata::gpu
