// The best logits of a row. There are k groups whose best is as good as the k-th best of all groups, so
// the k best logits are at least as good: few groups need a look.

inline constexpr int64_t kLogitGroup = 2 * TopKLogitsArgs::kGroup;

inline uint32_t key_of(float logit) { return logit_key(quant::bits_from_float(logit)); }

inline float largest_lane(const FVec& v) {
  float lane[kVec];
  f_store(lane, v);
  for (int half = kVec / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] = numeric::max(lane[i], lane[i + half]);
  }
  return lane[0];
}

// The largest key of each of the groups [begin, end) of a row.
inline void best_keys(const float* logits, int64_t valid, int64_t begin, int64_t end,
                      uint32_t* keys) {
  const FVec lowest = f_set(-3.40282347e38f), zero = f_zero();
  FVec poison = zero;  // NaN once a logit is NaN or +inf
  const int64_t whole = std::min(end, valid / kLogitGroup);
  for (int64_t g = begin; g < whole; ++g) {
    FVec best = f_set(-INFINITY);
    for (int64_t i = 0; i < kLogitGroup; i += kVec) {
      const FVec x = f_load(logits + g * kLogitGroup + i);
      best = f_max(x, best);
      poison = f_fma(f_max(lowest, x), zero, poison);
    }
    keys[g] = key_of(largest_lane(best));
  }
  float lane[kVec];
  f_store(lane, poison);
  bool faulty = false;
  for (const float x : lane) faulty = faulty || x != x;
  for (int64_t g = faulty ? begin : std::max(begin, whole); g < end; ++g) {
    uint32_t best = 0;
    const int64_t last = std::min(valid, (g + 1) * kLogitGroup);
    for (int64_t id = g * kLogitGroup; id < last; ++id) {
      const uint32_t key = key_of(logits[id]);
      best = key > best ? key : best;
    }
    keys[g] = best;
  }
}

// Key, then the lower id: a larger rank is a better logit.
inline uint64_t logit_rank(uint32_t key, int64_t id) {
  return static_cast<uint64_t>(key) << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}

// `maxima`: best keys of the row's groups, of which `order` has room for a copy, `list` for the ranks of
// all logits.
inline void top_k_of_row(const TopKLogitsArgs& a, int64_t row, const uint32_t* maxima, int64_t groups,
                         uint32_t* order, uint64_t* list) {
  const float* logits = a.logits + row * a.stride;
  // Types of this file, so that what is compiled for them stays in it.
  const auto larger = [](uint32_t x, uint32_t y) { return x > y; };
  const auto better = [](uint64_t x, uint64_t y) { return x > y; };
  uint32_t bound = 0;
  if (a.k == 1) {
    for (int64_t g = 0; g < groups; ++g) bound = maxima[g] > bound ? maxima[g] : bound;
  } else if (a.k <= groups) {
    std::memcpy(order, maxima, sizeof(uint32_t) * static_cast<size_t>(groups));
    std::nth_element(order, order + (a.k - 1), order + groups, larger);
    bound = order[a.k - 1];
  }
  int64_t count = 0;
  for (int64_t g = 0; g < groups; ++g) {
    if (maxima[g] < bound) continue;
    const int64_t end = std::min<int64_t>(a.valid, (g + 1) * kLogitGroup);
    for (int64_t id = g * kLogitGroup; id < end; ++id) {
      const uint32_t key = key_of(logits[id]);
      if (key >= bound) list[count++] = logit_rank(key, id);
    }
  }
  if (count > a.k) std::nth_element(list, list + (a.k - 1), list + count, better);
  std::sort(list, list + a.k, better);
  for (int64_t j = 0; j < a.k; ++j) {
    const uint32_t id = 0xffffffffu - static_cast<uint32_t>(list[j]);
    a.ids[row * a.k + j] = static_cast<int32_t>(id);
    a.values[row * a.k + j] = logits[id];
  }
}

inline Status top_k_logits(CpuStream& stream, const TopKLogitsArgs& a) {
  constexpr int64_t kGroupsOfTask = 256;
  const int64_t groups = (a.valid + kLogitGroup - 1) / kLogitGroup;
  const int64_t stride = TopKLogitsArgs::groups(a.valid);
  const int64_t tasks = (groups + kGroupsOfTask - 1) / kGroupsOfTask;
  stream.pool().parallel_for(a.rows * tasks, [&](int64_t task, int) {
    const int64_t row = task / tasks;
    const int64_t begin = task % tasks * kGroupsOfTask;
    const int64_t end = std::min(groups, begin + kGroupsOfTask);
    best_keys(a.logits + row * a.stride, a.valid, begin, end, a.scratch + row * stride);
  });
  const size_t list_bytes = sizeof(uint64_t) * static_cast<size_t>(a.valid);
  const size_t bytes = list_bytes + sizeof(uint32_t) * static_cast<size_t>(groups);
  stream.reserve_scratch(bytes);
  stream.pool().parallel_for(a.rows, [&](int64_t row, int worker) {
    auto* list = static_cast<uint64_t*>(stream.scratch(worker, bytes));
    top_k_of_row(a, row, a.scratch + row * stride, groups,
                 reinterpret_cast<uint32_t*>(list + a.valid), list);
  });
  return {};
}
