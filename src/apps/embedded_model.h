// The model file that is part of the executable, so that every command works without a download.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace strata::apps {

inline constexpr std::string_view kEmbeddedModelId = "strata-tiny";

// The bytes of its GGUF file, aligned to 64; they live as long as the process.
std::span<const std::byte> embedded_model();

}  // namespace strata::apps
