// What bench says about repeated measurements.
#pragma once

#include <span>

namespace strata::apps {

struct Spread {
  double median = 0;  // of an even number of values, the mean of the two in the middle
  double least = 0;
  double most = 0;
};

// All zero when there are no values.
Spread spread_of(std::span<const double> values);

}  // namespace strata::apps
