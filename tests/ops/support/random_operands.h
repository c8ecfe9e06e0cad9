// Random operands of the op tests: those of the self-tests.
#pragma once

#include "ops/random_operands.h"

namespace strata::ops_test {

using ops::all_types;
using ops::fill_block;
using ops::put_half;
using ops::Random;
using ops::random_weight;
using ops::scale_fields;
using ops::unit_magnitude;
using ops::Weight;

}  // namespace strata::ops_test
