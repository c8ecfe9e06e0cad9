#include "model/decode_graphs.h"

#include <algorithm>

namespace strata::model {

DecodeGraphs::Entry* DecodeGraphs::known(std::span<const uint64_t> key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return std::equal(entry.key.begin(), entry.key.end(), key.begin(), key.end());
  });
  return found == entries_.end() ? nullptr : &*found;
}

DecodeGraphs::Entry& DecodeGraphs::find(std::span<const uint64_t> key) {
  Entry* found = known(key);
  if (found == nullptr) {
    if (entries_.size() < kMost) {
      found = &entries_.emplace_back();
    } else {
      found = &*std::min_element(
          entries_.begin(), entries_.end(),
          [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
      *found = {};
    }
    found->key.assign(key.begin(), key.end());
  }
  found->last_use = ++uses_;
  return *found;
}

}  // namespace strata::model
