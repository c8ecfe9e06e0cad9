#include "format/quant/quant.h"

#include <cassert>

namespace strata {
namespace {

template <class Type>
constexpr QuantInfo make_info(QuantType type) {
  static_assert(Type::kElems == 1 || Type::kElems % quant::kGroupElems == 0);
  QuantInfo info = {};
  info.type = type;
  info.gguf_id = Type::kGgufId;
  info.name = Type::kName;
  info.elems = Type::kElems;
  info.bytes = Type::kBytes;
  info.quantised = Type::kQuantised;
  info.has_min = Type::kHasMin;
  info.decode = &Type::decode;
  if constexpr (Type::kQuantised) info.unpack = &Type::unpack;
  return info;
}

constexpr QuantInfo kInfos[kQuantTypeCount] = {
#define STRATA_QUANT_TYPE(Name) make_info<quant::Name>(QuantType::k##Name),
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
};

}  // namespace

const QuantInfo& quant_info(QuantType type) { return kInfos[static_cast<size_t>(type)]; }

std::optional<QuantType> quant_from_gguf_id(uint32_t id) {
  for (const QuantInfo& info : kInfos) {
    if (info.gguf_id == id && info.type != QuantType::kQ2_0_G128) return info.type;
  }
  return std::nullopt;
}

size_t row_bytes(QuantType type, int64_t elems) {
  const QuantInfo& info = quant_info(type);
  assert(elems >= 0 && elems % info.elems == 0);
  return static_cast<size_t>(elems / info.elems) * static_cast<size_t>(info.bytes);
}

void decode_row(QuantType type, const void* src, float* dst, int64_t elems) {
  visit_quant(type, [&]<class Type>(Type) {
    assert(elems >= 0 && elems % Type::kElems == 0);
    const auto* block = static_cast<const uint8_t*>(src);
    for (int64_t i = 0; i < elems; i += Type::kElems, block += Type::kBytes) {
      Type::decode(block, dst + i);
    }
  });
}

}  // namespace strata
