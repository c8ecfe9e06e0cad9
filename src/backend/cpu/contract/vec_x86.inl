// Vectors of the x86 tiers: 16 lanes with AVX-512, 8 with AVX2. kOffset says that weight codes are
// stored with 128 added, because dpbusd wants its first operand unsigned.

inline void store32(int8_t* q, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), v); }
inline __m256i load32(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

#if STRATA_TIER_WIDTH == 512

using FVec = __m512;
using IVec = __m512i;
constexpr int kVec = 16;

inline FVec f_zero() { return _mm512_setzero_ps(); }
inline FVec f_set(float x) { return _mm512_set1_ps(x); }
inline FVec f_load(const float* p) { return _mm512_loadu_ps(p); }
inline void f_store(float* p, FVec v) { _mm512_storeu_ps(p, v); }
inline FVec f_add(FVec a, FVec b) { return _mm512_add_ps(a, b); }
inline FVec f_sub(FVec a, FVec b) { return _mm512_sub_ps(a, b); }
inline FVec f_mul(FVec a, FVec b) { return _mm512_mul_ps(a, b); }
inline FVec f_max(FVec a, FVec b) { return _mm512_max_ps(a, b); }  // a > b ? a : b
inline FVec f_fma(FVec a, FVec b, FVec c) { return _mm512_fmadd_ps(a, b, c); }
inline FVec f_nfma(FVec a, FVec b, FVec c) { return _mm512_fnmadd_ps(a, b, c); }
inline FVec f_from(IVec v) { return _mm512_cvtepi32_ps(v); }
inline IVec i_set(int32_t x) { return _mm512_set1_epi32(x); }
inline IVec i_add(IVec a, IVec b) { return _mm512_add_epi32(a, b); }
inline IVec i_load(const void* p) { return _mm512_loadu_si512(p); }

#if STRATA_TIER_VNNI
inline IVec dot4(IVec acc, IVec w, IVec x) { return _mm512_dpbusd_epi32(acc, w, x); }
#else
inline IVec dot4(IVec acc, IVec w, IVec x) {
  // |w| * (x with the sign of w): |w| <= 128 and |x| <= 127, so pairs stay below 2^15.
  const __mmask64 negative = _mm512_movepi8_mask(w);
  const IVec signed_x = _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x);
  const IVec pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x);
  return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

#else  // 256 bits

using FVec = __m256;
using IVec = __m256i;
constexpr int kVec = 8;

inline FVec f_zero() { return _mm256_setzero_ps(); }
inline FVec f_set(float x) { return _mm256_set1_ps(x); }
inline FVec f_load(const float* p) { return _mm256_loadu_ps(p); }
inline void f_store(float* p, FVec v) { _mm256_storeu_ps(p, v); }
inline FVec f_add(FVec a, FVec b) { return _mm256_add_ps(a, b); }
inline FVec f_sub(FVec a, FVec b) { return _mm256_sub_ps(a, b); }
inline FVec f_mul(FVec a, FVec b) { return _mm256_mul_ps(a, b); }
inline FVec f_max(FVec a, FVec b) { return _mm256_max_ps(a, b); }  // a > b ? a : b
inline FVec f_fma(FVec a, FVec b, FVec c) { return _mm256_fmadd_ps(a, b, c); }
inline FVec f_nfma(FVec a, FVec b, FVec c) { return _mm256_fnmadd_ps(a, b, c); }
inline FVec f_from(IVec v) { return _mm256_cvtepi32_ps(v); }
inline IVec i_set(int32_t x) { return _mm256_set1_epi32(x); }
inline IVec i_add(IVec a, IVec b) { return _mm256_add_epi32(a, b); }
inline IVec i_load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline IVec dot4(IVec acc, IVec w, IVec x);

#endif

// 32 products summed by fours, exactly: lanes 0..3 are the low half of a group, 4..7 the high one.
#if STRATA_TIER_VNNI && STRATA_TIER_WIDTH == 512
constexpr bool kOffset = true;
inline __m256i dot4_256(__m256i acc, __m256i w, __m256i x) {
  return _mm256_dpbusd_epi32(acc, w, x);
}
#elif STRATA_TIER_VNNI
constexpr bool kOffset = true;
inline __m256i dot4_256(__m256i acc, __m256i w, __m256i x) {
  return _mm256_dpbusd_avx_epi32(acc, w, x);
}
#else
constexpr bool kOffset = false;
inline __m256i dot4_256(__m256i acc, __m256i w, __m256i x) {
  // |w| * (x with the sign of w): |w| <= 128 and |x| <= 127, so pairs stay below 2^15.
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

#if STRATA_TIER_WIDTH == 256
inline IVec dot4(IVec acc, IVec w, IVec x) { return dot4_256(acc, w, x); }
#endif

// Eight vectors of dot4_256 to the low-half and high-half sums of eight groups, in order.
inline void fold_groups(const __m256i* v, __m256i& low, __m256i& high) {
  const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  low = _mm256_permute2x128_si256(a, b, 0x20);
  high = _mm256_permute2x128_si256(a, b, 0x31);
}
