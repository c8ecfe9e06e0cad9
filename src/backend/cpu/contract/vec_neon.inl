// Vectors of the NEON tiers: eight lanes in two registers, as wide as the scalar ones, so that loops
// over kVec have work for both pipes.

struct FVec {
  float32x4_t low, high;
};
constexpr int kVec = 8;

inline FVec f_set(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline FVec f_zero() { return f_set(0.0f); }
inline FVec f_load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
inline void f_store(float* p, const FVec& v) {
  vst1q_f32(p, v.low);
  vst1q_f32(p + 4, v.high);
}
inline FVec f_add(const FVec& a, const FVec& b) {
  return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
inline FVec f_sub(const FVec& a, const FVec& b) {
  return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
inline FVec f_mul(const FVec& a, const FVec& b) {
  return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
inline FVec f_fma(const FVec& a, const FVec& b, const FVec& c) {
  return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
inline float32x4_t max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline FVec f_max(const FVec& a, const FVec& b) {  // a > b ? a : b
  return {max4(a.low, b.low), max4(a.high, b.high)};
}
