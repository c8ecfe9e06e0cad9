// Who holds what in a matrix instruction: which element of A (M x K), B (K x N), C and D (M x N)
// stands in which register of which lane. All operands are signed bytes, four of one register being
// four consecutive k, lowest byte first; accumulators are 32-bit. Kernels index with these
// functions, so that a layout is written down once; the emulator multiplies through them.
//
//   word = index of a 32-bit operand register, i = index of an accumulator register
//
// Sources
//   mma.sync: PTX ISA, "Matrix Fragments for mma.m16n8k16 / m16n8k32" (.s8): with group = lane / 4
//     and place = lane % 4. Needs sm80; sm75 knows m8n8k16 only, which no kernel uses.
//   gfx11: AMD RDNA3 ISA, 7.9 "WMMA", and the AMD matrix instruction calculator for
//     v_wmma_i32_16x16x16_iu8: A and B are the same in both halves of the wave (the instruction
//     reads either; what differs between them is undefined), rows of C alternate between the
//     halves. NEG[0] and NEG[1] of the instruction make A and B signed.
//   gfx12: AMD RDNA4 ISA, 7.12 "WMMA", same sources: the halves of the wave hold different k of A
//     and B, eight each, and different rows of C, eight each.
//   Both compiler builtins take a last argument that saturates the sums; it is false here.
#pragma once

#include <cstdint>

#include "format/quant/portable.h"

namespace strata::gpu::matrix {

enum class Instruction : uint8_t { kMmaS8_16x8x32, kMmaS8_16x8x16, kWmmaS8Gfx11, kWmmaS8Gfx12 };

struct MmaS8_16x8x32 {
  static constexpr int kM = 16, kN = 8, kK = 32;
  static constexpr int kAWords = 4, kBWords = 2, kCWords = 4;
  STRATA_HD static constexpr int a_row(int lane, int word) { return lane / 4 + 8 * (word % 2); }
  STRATA_HD static constexpr int a_k(int lane, int word) { return lane % 4 * 4 + 16 * (word / 2); }
  STRATA_HD static constexpr int b_column(int lane) { return lane / 4; }
  STRATA_HD static constexpr int b_k(int lane, int word) { return lane % 4 * 4 + 16 * word; }
  STRATA_HD static constexpr int c_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
  STRATA_HD static constexpr int c_column(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

struct MmaS8_16x8x16 {
  static constexpr int kM = 16, kN = 8, kK = 16;
  static constexpr int kAWords = 2, kBWords = 1, kCWords = 4;
  STRATA_HD static constexpr int a_row(int lane, int word) { return lane / 4 + 8 * word; }
  STRATA_HD static constexpr int a_k(int lane, int) { return lane % 4 * 4; }
  STRATA_HD static constexpr int b_column(int lane) { return lane / 4; }
  STRATA_HD static constexpr int b_k(int lane, int) { return lane % 4 * 4; }
  STRATA_HD static constexpr int c_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
  STRATA_HD static constexpr int c_column(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

struct WmmaS8Gfx11 {
  static constexpr int kM = 16, kN = 16, kK = 16;
  static constexpr int kAWords = 4, kBWords = 4, kCWords = 8;
  STRATA_HD static constexpr int a_row(int lane, int) { return lane % 16; }
  STRATA_HD static constexpr int a_k(int, int word) { return 4 * word; }
  STRATA_HD static constexpr int b_column(int lane) { return lane % 16; }
  STRATA_HD static constexpr int b_k(int, int word) { return 4 * word; }
  STRATA_HD static constexpr int c_row(int lane, int i) { return 2 * i + lane / 16; }
  STRATA_HD static constexpr int c_column(int lane, int) { return lane % 16; }
};

struct WmmaS8Gfx12 {
  static constexpr int kM = 16, kN = 16, kK = 16;
  static constexpr int kAWords = 2, kBWords = 2, kCWords = 8;
  STRATA_HD static constexpr int a_row(int lane, int) { return lane % 16; }
  STRATA_HD static constexpr int a_k(int lane, int word) { return 8 * (lane / 16) + 4 * word; }
  STRATA_HD static constexpr int b_column(int lane) { return lane % 16; }
  STRATA_HD static constexpr int b_k(int lane, int word) { return 8 * (lane / 16) + 4 * word; }
  STRATA_HD static constexpr int c_row(int lane, int i) { return i + 8 * (lane / 16); }
  STRATA_HD static constexpr int c_column(int lane, int) { return lane % 16; }
};

#if !defined(__CUDACC__) && !defined(__HIP__)

// The registers of a whole wave.
struct WaveOperands {
  uint32_t a[32][4];
  uint32_t b[32][4];
  int c[32][8];
};

// D = A B + C as the instruction computes it (sums wrap), into `w.c`. False when lanes that must
// hold the same part of an operand do not; c is then unchanged.
template <class Layout>
bool multiply(WaveOperands& w) {
  using L = Layout;
  // Widened, rows of k each: the inner loop then vectorises.
  int16_t a[L::kM][L::kK];
  int16_t b[L::kN][L::kK];
  uint32_t a_words[L::kM][L::kK / 4];
  uint32_t b_words[L::kN][L::kK / 4];
  constexpr bool kRepeated = 32 * L::kAWords > L::kM * L::kK / 4;
  for (int lane = 0; lane < 32; ++lane) {
    const bool again = kRepeated && lane >= 16;
    for (int word = 0; word < L::kAWords; ++word) {
      uint32_t& at = a_words[L::a_row(lane, word)][L::a_k(lane, word) / 4];
      if (again && at != w.a[lane][word]) return false;
      at = w.a[lane][word];
    }
    for (int word = 0; word < L::kBWords; ++word) {
      uint32_t& at = b_words[L::b_column(lane)][L::b_k(lane, word) / 4];
      if (again && at != w.b[lane][word]) return false;
      at = w.b[lane][word];
    }
  }
  for (int m = 0; m < L::kM; ++m) {
    for (int k = 0; k < L::kK; ++k) a[m][k] = static_cast<int8_t>(a_words[m][k / 4] >> k % 4 * 8);
  }
  for (int n = 0; n < L::kN; ++n) {
    for (int k = 0; k < L::kK; ++k) b[n][k] = static_cast<int8_t>(b_words[n][k / 4] >> k % 4 * 8);
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < L::kCWords; ++i) {
      const int16_t* row = a[L::c_row(lane, i)];
      const int16_t* column = b[L::c_column(lane, i)];
      int sum = 0;
      for (int k = 0; k < L::kK; ++k) sum += row[k] * column[k];
      w.c[lane][i] =
          static_cast<int>(static_cast<uint32_t>(w.c[lane][i]) + static_cast<uint32_t>(sum));
    }
  }
  return true;
}

struct OperandWords {
  int a, b, c;
};
constexpr OperandWords operand_words(Instruction instruction) {
  switch (instruction) {
    case Instruction::kMmaS8_16x8x32: return {4, 2, 4};
    case Instruction::kMmaS8_16x8x16: return {2, 1, 4};
    case Instruction::kWmmaS8Gfx11: return {4, 4, 8};
    case Instruction::kWmmaS8Gfx12: return {2, 2, 8};
  }
  return {0, 0, 0};
}

inline bool multiply(Instruction instruction, WaveOperands& w) {
  switch (instruction) {
    case Instruction::kMmaS8_16x8x32: return multiply<MmaS8_16x8x32>(w);
    case Instruction::kMmaS8_16x8x16: return multiply<MmaS8_16x8x16>(w);
    case Instruction::kWmmaS8Gfx11: return multiply<WmmaS8Gfx11>(w);
    case Instruction::kWmmaS8Gfx12: return multiply<WmmaS8Gfx12>(w);
  }
  return false;
}

#endif

}  // namespace strata::gpu::matrix
