// Token ids written as text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace strata::apps {

// Every run of digits is an id; whatever stands between them is ignored. Fails when one is too
// large to be an id, and with a hint when there is none.
Result<std::vector<TokenId>> read_ids(std::string_view text);

// "1 2 3"
std::string ids_text(std::span<const TokenId> ids);

}  // namespace strata::apps
