// The search for the best division of layers among devices, over plain tables: it knows neither
// models nor memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace strata::engine {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

// For every device and range of layers [first, end): what it adds to the sum, and its share in the
// peak. kImpossible where the device cannot hold the range; then it cannot hold a longer one
// either.
struct StageTable {
  int devices = 0;
  int layers = 0;
  std::vector<double> sum, peak;  // [devices][layers][layers + 1]

  StageTable(int devices, int layers);
  size_t at(int device, int first, int end) const {
    return (static_cast<size_t>(device) * static_cast<size_t>(layers) +
            static_cast<size_t>(first)) *
               static_cast<size_t>(layers + 1) +
           static_cast<size_t>(end);
  }
};

struct SearchRules {
  enum class Order {
    kAny,         // any devices of `order` in any order
    kInOrder,     // some devices of `order`, in this order
    kAllInOrder,  // every device of `order`, in this order
  };
  Order mode = Order::kAny;
  std::vector<int> order;   // devices that may be used; at most kMostFreeDevices for kAny
  std::vector<int> twin;    // [devices] an equal device that comes first, or -1
  std::vector<int> points;  // first layers of the stages after the first, if `forced`
  bool forced = false;
  int required = -1;  // a device that must be used
};
inline constexpr size_t kMostFreeDevices = 10;

struct FoundStage {
  int device = 0, first = 0, end = 0;
};

struct FoundSplit {
  std::vector<FoundStage> stages;
  double total = kImpossible;  // sum over stages + peak_weight * largest peak
};

// The split with the least total, or one that is worse by the part `tolerance` at most; nothing
// when there is none below `bound`. Equal input gives equal output.
std::optional<FoundSplit> search_split(const StageTable& table, double peak_weight,
                                       const SearchRules& rules, double tolerance,
                                       double bound = kImpossible);

}  // namespace strata::engine
