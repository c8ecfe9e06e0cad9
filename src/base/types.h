// Vocabulary types shared by every layer.
#pragma once

#include <cstdint>

namespace strata {

using TokenId = int32_t;  // index of a vocabulary row, >= 0

}  // namespace strata
