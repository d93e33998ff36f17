// Codes of NEON: loads and stores of float16, bfloat16 and int8. Included by precision.h.

INLINE Words loadCodes(const uint16_t* p, int64_t n) {
  uint16_t part[lanes];
  return (Words)vmovl_u16(vld1_u16(source(part, p, n)));
}
INLINE Words loadCodes(const int8_t* p, int64_t n) {
  int8_t part[8] = {};  // a register of eight codes, of which four are used
  std::memcpy(part, p, static_cast<size_t>(n));
  return (Words)vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(part))));
}
INLINE Vec loadHalves(const uint16_t* p, int64_t n) {
  uint16_t part[lanes];
  return (Vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(source(part, p, n))));
}
INLINE void storeCodes(uint16_t* p, int64_t n, Words v) {
  uint16_t part[lanes];
  vst1_u16(n == lanes ? p : part, vmovn_u32((uint32x4_t)v));
  finish(p, n, part);
}
INLINE void storeCodes(int8_t* p, int64_t n, Words v) {
  const uint16x4_t narrow = vmovn_u32((uint32x4_t)v);
  int8_t part[8];
  vst1_s8(part, (int8x8_t)vmovn_u16(vcombine_u16(narrow, narrow)));
  std::memcpy(p, part, static_cast<size_t>(n));
}
INLINE Vec toFloat(Words v) { return (Vec)vcvtq_f32_s32((int32x4_t)v); }
/// As in AVX-512; the instruction makes 0 of NaN.
INLINE Words floorOf(Vec v) {
  return (Words)vcvtmq_s32_f32((float32x4_t)(v == v ? v : broadcast(-128)));
}
INLINE Vec within(Vec least, Vec v, Vec most) {
  return (Vec)vmaxq_f32((float32x4_t)least, vminq_f32((float32x4_t)most, (float32x4_t)v));
}
