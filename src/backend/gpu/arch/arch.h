// Architecture groups: what kernels may rely on when they are compiled for one. A group is compiled
// once, for the architectures it names, into images that load on those and on nothing else. Device
// code asks these constants and never which device it runs on.
#pragma once

#include <cstdint>

namespace strata::gpu {

enum class MatrixUnit : uint8_t {
  kNone,
  kMmaS8,        // mma.sync m16n8k32 / m16n8k16, s8 x s8 -> s32 (sm80 and later)
  kWmmaS8Gfx11,  // v_wmma_i32_16x16x16_iu8, operands repeated in both halves of the wave
  kWmmaS8Gfx12,  // v_wmma_i32_16x16x16_iu8, operands split over the halves of the wave
};

namespace arch {

struct Sm75 {
  static constexpr const char* kName = "sm75";
  static constexpr int kWave = 32;
  static constexpr bool kAsyncCopy = false;
  static constexpr bool kBulkCopy = false;
  static constexpr MatrixUnit kMatrix = MatrixUnit::kNone;
  static constexpr int kSharedBytes = 64 * 1024;  // of one block, at most
};
struct Sm80 {  // sm80, sm86, sm87, sm89
  static constexpr const char* kName = "sm80";
  static constexpr int kWave = 32;
  static constexpr bool kAsyncCopy = true;
  static constexpr bool kBulkCopy = false;
  static constexpr MatrixUnit kMatrix = MatrixUnit::kMmaS8;
  static constexpr int kSharedBytes = 99 * 1024;
};
struct Sm90 {
  static constexpr const char* kName = "sm90";
  static constexpr int kWave = 32;
  static constexpr bool kAsyncCopy = true;
  static constexpr bool kBulkCopy = true;
  static constexpr MatrixUnit kMatrix = MatrixUnit::kMmaS8;
  static constexpr int kSharedBytes = 227 * 1024;
};
struct Sm120 {  // sm120, sm121
  static constexpr const char* kName = "sm120";
  static constexpr int kWave = 32;
  static constexpr bool kAsyncCopy = true;
  static constexpr bool kBulkCopy = true;
  static constexpr MatrixUnit kMatrix = MatrixUnit::kMmaS8;
  static constexpr int kSharedBytes = 99 * 1024;
};
struct Gfx10 {  // gfx103x
  static constexpr const char* kName = "gfx10";
  static constexpr int kWave = 32;
  static constexpr bool kAsyncCopy = false;
  static constexpr bool kBulkCopy = false;
  static constexpr MatrixUnit kMatrix = MatrixUnit::kNone;
  static constexpr int kSharedBytes = 64 * 1024;
};
struct Gfx11 {  // gfx110x, gfx115x
  static constexpr const char* kName = "gfx11";
  static constexpr int kWave = 32;
  static constexpr bool kAsyncCopy = false;
  static constexpr bool kBulkCopy = false;
  static constexpr MatrixUnit kMatrix = MatrixUnit::kWmmaS8Gfx11;
  static constexpr int kSharedBytes = 64 * 1024;
};
struct Gfx12 {  // gfx120x
  static constexpr const char* kName = "gfx12";
  static constexpr int kWave = 32;
  static constexpr bool kAsyncCopy = false;
  static constexpr bool kBulkCopy = false;
  static constexpr MatrixUnit kMatrix = MatrixUnit::kWmmaS8Gfx12;
  static constexpr int kSharedBytes = 64 * 1024;
};

}  // namespace arch
}  // namespace strata::gpu
