// The 16 values that a nibble stands for in the formats with a non-uniform scale. IQ4_NL's and
// IQ4_XS's are trained (ggml, MIT licence, copyright the ggml authors); E2M1's are the positive and
// negative 4-bit floats of the OCP microscaling formats, doubled so that they are whole.
#pragma once

#include "format/quant/portable.h"

namespace strata::quant::codebooks {

STRATA_TABLE int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
STRATA_TABLE int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace strata::quant::codebooks
