// The vectors of vec_x86.inl for any machine: the compiler makes of them what it can.

struct FVec {
  float lane[8];
};
constexpr int kVec = 8;

template <class F>
inline FVec f_each(const F& f) {
  FVec out;
  for (int l = 0; l < kVec; ++l) out.lane[l] = f(l);
  return out;
}
inline FVec f_zero() { return {}; }
inline FVec f_set(float x) {
  return f_each([&](int) { return x; });
}
inline FVec f_load(const float* p) {
  FVec out;
  std::memcpy(out.lane, p, sizeof out.lane);
  return out;
}
inline void f_store(float* p, const FVec& v) { std::memcpy(p, v.lane, sizeof v.lane); }
inline FVec f_add(const FVec& a, const FVec& b) {
  return f_each([&](int l) { return a.lane[l] + b.lane[l]; });
}
inline FVec f_sub(const FVec& a, const FVec& b) {
  return f_each([&](int l) { return a.lane[l] - b.lane[l]; });
}
inline FVec f_mul(const FVec& a, const FVec& b) {
  return f_each([&](int l) { return a.lane[l] * b.lane[l]; });
}
inline FVec f_max(const FVec& a, const FVec& b) {
  return f_each([&](int l) { return numeric::max(a.lane[l], b.lane[l]); });
}
inline FVec f_fma(const FVec& a, const FVec& b, const FVec& c) {
  return f_each([&](int l) { return numeric::fma(a.lane[l], b.lane[l], c.lane[l]); });
}
