// kVec consecutive values of a row as stored, widened; `i` is a multiple of kVec.
inline FVec load_row(const F32Row& w, int64_t i) { return f_load(w.p + i); }
inline FVec load_row(const F16Row& w, int64_t i) {
  uint16x8_t bits;
  std::memcpy(&bits, w.p + 2 * i, sizeof bits);
  const float16x8_t halves = vreinterpretq_f16_u16(bits);
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_f32_f16(vget_high_f16(halves))};
}
inline FVec load_row(const BF16Row& w, int64_t i) {
  uint16x8_t bits;
  std::memcpy(&bits, w.p + 2 * i, sizeof bits);
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
          vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(bits), 16))};
}
inline FVec load_row(const I8Row& w, int64_t i) {
  const int16x8_t codes = vmovl_s8(vld1_s8(w.p + i));
  const FVec wide = {vcvtq_f32_s32(vmovl_s16(vget_low_s16(codes))),
                     vcvtq_f32_s32(vmovl_s16(vget_high_s16(codes)))};
  return f_mul(wide, f_set(w.scale[i / quant::kGroupElems]));
}
