#include "engine/planner/split_search.h"

#include <algorithm>
#include <utility>

namespace strata::engine {

namespace {

class Search {
 public:
  Search(const StageTable& table, double peak_weight, const SearchRules& rules, double tolerance,
         double bound)
      : table_(table),
        weight_(peak_weight),
        rules_(rules),
        keep_(1 - tolerance),
        layers_(table.layers) {
    best_.total = bound;
    places_ = static_cast<int>(rules.order.size());
    states_ = rules.mode == SearchRules::Order::kAny ? size_t{1} << places_
                                                     : static_cast<size_t>(places_) + 1;
    value_.resize(states_ * static_cast<size_t>(layers_ + 1));
    open_.resize(static_cast<size_t>(places_) * static_cast<size_t>(layers_) *
                 static_cast<size_t>(layers_ + 1));
    for (int place = 0; place < places_; ++place) {
      for (int first = 0; first < layers_; ++first) {
        int reach = first;
        while (reach < layers_ &&
               table_.sum[table_.at(device(place), first, reach + 1)] < kImpossible) {
          ++reach;
          peaks_.push_back(table_.peak[table_.at(device(place), first, reach)]);
        }
        reach_.push_back(reach);
      }
    }
    std::sort(peaks_.begin(), peaks_.end());
    peaks_.erase(std::unique(peaks_.begin(), peaks_.end()), peaks_.end());
    rest_.resize(static_cast<size_t>(layers_) + 1);
    allowed_.assign(static_cast<size_t>(layers_), -1);
    if (rules.forced) {
      int first = 0;
      for (const int point : rules.points) {
        allowed_[static_cast<size_t>(first)] = point;
        first = point;
      }
      allowed_[static_cast<size_t>(first)] = layers_;
    }
  }

  std::optional<FoundSplit> run() {
    if (!peaks_.empty()) look(0, peaks_.size() - 1);
    if (best_.stages.empty()) return std::nullopt;
    return best_;
  }

 private:
  int device(int place) const { return rules_.order[static_cast<size_t>(place)]; }
  size_t cell(size_t state, int layer) const {
    return state * static_cast<size_t>(layers_ + 1) + static_cast<size_t>(layer);
  }

  // Splits whose largest peak is peaks_[low] ... peaks_[high]. A smaller limit on the peak can only
  // raise the sum, so the sum at the upper limit and the lower limit bound the total from below.
  void look(size_t low, size_t high) {
    const double sum = best_sum(peaks_[high], best_.total * keep_ - weight_ * peaks_[low]);
    if (sum == kImpossible) return;
    FoundSplit found = trace();
    double peak = 0;
    for (const FoundStage& stage : found.stages) {
      peak = std::max(peak, table_.peak[table_.at(stage.device, stage.first, stage.end)]);
    }
    found.total = sum + weight_ * peak;
    if (found.total < best_.total) best_ = std::move(found);
    if (weight_ == 0) return;
    // Only a smaller peak can be better now, and only one that makes up for the sum.
    const double useful = std::min(peak, (best_.total * keep_ - sum) / weight_);
    const auto place = std::lower_bound(peaks_.begin(), peaks_.end(), useful);
    const size_t past = std::min(static_cast<size_t>(place - peaks_.begin()), high);
    if (past <= low) return;
    const size_t middle = low + (past - 1 - low) / 2;
    if (middle + 1 < past) look(middle + 1, past - 1);
    if (sum + weight_ * peaks_[low] < best_.total * keep_) look(low, middle);
  }

  size_t row(int place, int first) const {
    return static_cast<size_t>(place * layers_ + first) * static_cast<size_t>(layers_ + 1);
  }

  // The sums of stages that the rules and the limit on the peak allow, and the least sum of the
  // layers from each one on if every device could be used again and again.
  void open_stages(double limit) {
    std::fill(open_.begin(), open_.end(), kImpossible);
    std::fill(rest_.begin(), rest_.end(), kImpossible);
    rest_[static_cast<size_t>(layers_)] = 0;
    for (int first = layers_ - 1; first >= 0; --first) {
      double& least = rest_[static_cast<size_t>(first)];
      for (int place = 0; place < places_; ++place) {
        const int reach = reach_[static_cast<size_t>(place * layers_ + first)];
        const size_t entries = table_.at(device(place), first, 0);
        for (int stop = first + 1; stop <= reach; ++stop) {
          const size_t entry = entries + static_cast<size_t>(stop);
          if (table_.peak[entry] > limit) continue;
          if (rules_.forced && allowed_[static_cast<size_t>(first)] != stop) continue;
          open_[row(place, first) + static_cast<size_t>(stop)] = table_.sum[entry];
          least = std::min(least, table_.sum[entry] + rest_[static_cast<size_t>(stop)]);
        }
      }
    }
  }

  // Of splits with no peak above `limit` and a sum below `useful`; kImpossible when there is none.
  // trace() then tells the split.
  double best_sum(double limit, double useful) {
    open_stages(limit);
    std::fill(value_.begin(), value_.end(), kImpossible);
    value_[cell(0, 0)] = 0;
    for (size_t state = 0; state < states_; ++state) {
      for (int place = 0; place < places_; ++place) {
        size_t next = 0;
        if (!step(state, place, next)) continue;
        for (int first = 0; first < layers_; ++first) {
          const double base = value_[cell(state, first)];
          if (base + rest_[static_cast<size_t>(first)] >= useful) continue;
          const double* sums = &open_[row(place, first)];
          double* values = &value_[cell(next, 0)];
          const int reach = reach_[static_cast<size_t>(place * layers_ + first)];
          for (int stop = first + 1; stop <= reach; ++stop) {
            const double total = base + sums[stop];
            values[stop] = total < values[stop] ? total : values[stop];
          }
        }
      }
    }
    double best = kImpossible;
    for (size_t state = 0; state < states_; ++state) {
      if (!complete(state)) continue;
      const double value = value_[cell(state, layers_)];
      if (value < best) {
        best = value;
        end_ = state;
      }
    }
    return best;
  }

  // The state after a stage on the device at `place`; false when the rules do not allow it.
  bool step(size_t state, int place, size_t& next) const {
    const auto p = static_cast<size_t>(place);
    switch (rules_.mode) {
      case SearchRules::Order::kInOrder: next = p + 1; return p >= state;
      case SearchRules::Order::kAllInOrder: next = p + 1; return p == state;
      case SearchRules::Order::kAny: break;
    }
    const size_t bit = size_t{1} << p;
    if ((state & bit) != 0) return false;
    next = state | bit;
    const int twin = rules_.twin.empty() ? -1 : rules_.twin[static_cast<size_t>(device(place))];
    if (twin < 0) return true;
    const auto at = std::find(rules_.order.begin(), rules_.order.end(), twin);
    if (at == rules_.order.end()) return true;
    return (state & (size_t{1} << (at - rules_.order.begin()))) != 0;
  }

  bool complete(size_t state) const {
    if (value_[cell(state, layers_)] == kImpossible) return false;
    if (rules_.mode == SearchRules::Order::kAllInOrder) return state + 1 == states_;
    if (rules_.required < 0 || rules_.mode != SearchRules::Order::kAny) return true;
    const auto at = std::find(rules_.order.begin(), rules_.order.end(), rules_.required);
    return at != rules_.order.end() && (state & (size_t{1} << (at - rules_.order.begin()))) != 0;
  }

  // Walks back from end_: the value of a boundary is the sum of what led to it, to the last bit.
  FoundSplit trace() const {
    FoundSplit found;
    size_t state = end_;
    for (int layer = layers_; layer > 0;) {
      const auto [before, stage] = step_back(state, layer);
      found.stages.push_back(stage);
      state = before;
      layer = stage.first;
    }
    std::reverse(found.stages.begin(), found.stages.end());
    return found;
  }

  std::pair<size_t, FoundStage> step_back(size_t state, int layer) const {
    const double value = value_[cell(state, layer)];
    for (int place = 0; place < places_; ++place) {
      const auto bit = size_t{1} << static_cast<size_t>(place);
      const bool any = rules_.mode == SearchRules::Order::kAny;
      if (any ? (state & bit) == 0 : state != static_cast<size_t>(place) + 1) continue;
      for (size_t before = any ? state ^ bit : 0; before < (any ? (state ^ bit) + 1 : state);
           ++before) {
        size_t next = 0;
        if (!step(before, place, next) || next != state) continue;
        for (int first = 0; first < layer; ++first) {
          if (value_[cell(before, first)] + open_[row(place, first) + static_cast<size_t>(layer)] ==
              value) {
            return {before, {device(place), first, layer}};
          }
        }
      }
    }
    return {0, {device(0), 0, layer}};
  }

  const StageTable& table_;
  const double weight_;
  const SearchRules& rules_;
  const double keep_;
  const int layers_;
  int places_ = 0;
  size_t states_ = 0;
  std::vector<int> reach_;     // [places][layers] the furthest end that fits
  std::vector<int> allowed_;   // [layers] the end of a forced stage that begins there
  std::vector<double> peaks_;  // every peak that occurs, rising
  std::vector<double> rest_;   // [layers + 1]
  std::vector<double> value_;  // [states][layers + 1]
  std::vector<double> open_;   // [places][layers][layers + 1] sums of stages now allowed
  size_t end_ = 0;
  FoundSplit best_;
};

}  // namespace

StageTable::StageTable(int devices, int layers)
    : devices(devices),
      layers(layers),
      sum(static_cast<size_t>(devices) * static_cast<size_t>(layers) *
              static_cast<size_t>(layers + 1),
          kImpossible),
      peak(sum.size(), kImpossible) {}

std::optional<FoundSplit> search_split(const StageTable& table, double peak_weight,
                                       const SearchRules& rules, double tolerance, double bound) {
  return Search(table, peak_weight, rules, tolerance, bound).run();
}

}  // namespace strata::engine
