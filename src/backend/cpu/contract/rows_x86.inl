// kVec consecutive values of a row as stored, widened; `i` is a multiple of kVec.
inline FVec load_row(const F32Row& w, int64_t i) { return f_load(w.p + i); }

#if STRATA_TIER_WIDTH == 512
inline FVec load_row(const F16Row& w, int64_t i) { return _mm512_cvtph_ps(load32(w.p + 2 * i)); }
inline FVec load_row(const BF16Row& w, int64_t i) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load32(w.p + 2 * i)), 16));
}
inline FVec load_row(const I8Row& w, int64_t i) {
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16(w.p + i))),
                       f_set(w.scale[i / quant::kGroupElems]));
}
#else
inline FVec load_row(const F16Row& w, int64_t i) { return _mm256_cvtph_ps(load16(w.p + 2 * i)); }
inline FVec load_row(const BF16Row& w, int64_t i) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(w.p + 2 * i)), 16));
}
inline FVec load_row(const I8Row& w, int64_t i) {
  const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(w.p + i));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
                       f_set(w.scale[i / quant::kGroupElems]));
}
#endif
