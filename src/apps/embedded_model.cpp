#include "apps/embedded_model.h"

// STRATA_EMBEDDED_MODEL is the path of the file, from the build.
asm(".section .rodata\n"
    ".balign 64\n"
    ".hidden strata_embedded_model_begin\n"
    ".hidden strata_embedded_model_end\n"
    ".globl strata_embedded_model_begin\n"
    ".globl strata_embedded_model_end\n"
    "strata_embedded_model_begin:\n"
    ".incbin \"" STRATA_EMBEDDED_MODEL
    "\"\n"
    "strata_embedded_model_end:\n"
    ".byte 0\n"
    ".previous\n");

extern "C" {
extern const std::byte strata_embedded_model_begin[];
extern const std::byte strata_embedded_model_end[];
}

namespace strata::apps {

std::span<const std::byte> embedded_model() {
  return {strata_embedded_model_begin, strata_embedded_model_end};
}

}  // namespace strata::apps
