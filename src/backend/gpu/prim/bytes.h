// Loads of known alignment and byte operations for which machines have instructions of their own.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/gpu/prim/prim.h"
#include "format/quant/half.h"

// Before a loop of constant length whose body indexes an array that must stay in registers.
#if !defined(STRATA_UNROLL)
#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_UNROLL _Pragma("unroll")
#else
#define STRATA_UNROLL
#endif
#endif

// Before a loop whose copies would cost more registers than they save instructions.
#if defined(__CUDACC__) || defined(__HIP__)
#define STRATA_ROLLED _Pragma("unroll 1")
#else
#define STRATA_ROLLED
#endif

namespace strata::gpu {

// `p` is a multiple of sizeof(T).
template <class T>
STRATA_DEVICE T load_as(const void* p) {
#if defined(__CUDACC__) || defined(__HIP__)
  return *static_cast<const T*>(p);
#else
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
#endif
}
template <class T>
STRATA_DEVICE void store_as(void* p, const T& value) {
#if defined(__CUDACC__) || defined(__HIP__)
  *static_cast<T*>(p) = value;
#else
  std::memcpy(p, &value, sizeof value);
#endif
}

struct alignas(8) Vec2 {
  uint32_t x, y;
};

// kCount consecutive words from `p`, which is a multiple of kAlign. Unless kAlign is 4, the words
// are cut out of aligned ones, so up to 3 bytes before and 4 after them are read and must exist.
template <int kAlign, int kCount>
STRATA_DEVICE void load_words(const uint8_t* p, uint32_t* out) {
  if constexpr (kAlign >= 4) {
    STRATA_UNROLL for (int i = 0; i < kCount; ++i) out[i] = load_as<uint32_t>(p + 4 * i);
  } else {
    const auto offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p) & 3u);
    const uint8_t* aligned = p - offset;
    uint32_t low = load_as<uint32_t>(aligned);
    STRATA_UNROLL for (int i = 0; i < kCount; ++i) {
      const uint32_t high = load_as<uint32_t>(aligned + 4 * i + 4);
      out[i] = static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> 8 * offset);
      low = high;
    }
  }
}

template <int kAlign>
STRATA_DEVICE uint32_t load_short(const uint8_t* p) {
  if constexpr (kAlign >= 2) {
    return load_as<uint16_t>(p);
  } else {
    return quant::load_u16(p);
  }
}

// Exact, as quant::half_to_float.
STRATA_DEVICE float widen_half(uint32_t half) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(half)));
  return value;
#elif defined(__HIP_DEVICE_COMPILE__)
  return static_cast<float>(__builtin_bit_cast(_Float16, static_cast<uint16_t>(half)));
#else
  return quant::half_to_float(static_cast<uint16_t>(half));
#endif
}

// Operands of mma_s8_16x8x32 from rows in shared memory, `pitch` bytes apart and 16-aligned: the A
// operand of 16 rows, or the B operands of rows 0 to 7 (b[0], b[1]) and 8 to 15 (b[2], b[3]). The
// second 16 of a row's 32 bytes are `next` bytes after the first.
STRATA_DEVICE void load_mma_a(const Thread& t, const uint8_t* rows, int pitch, int next,
                              uint32_t (&a)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  const uint8_t* own = rows + (t.lane() & 15) * pitch + (t.lane() >> 4) * next;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(own))));
#else
  for (int i = 0; i < 4; ++i) {
    a[i] = load_as<uint32_t>(rows + (t.lane() / 4 + 8 * (i % 2)) * pitch + t.lane() % 4 * 4 +
                             next * (i / 2));
  }
#endif
}
STRATA_DEVICE void load_mma_b(const Thread& t, const uint8_t* rows, int pitch, int next,
                              uint32_t (&b)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  const uint8_t* own =
      rows + ((t.lane() & 7) + (t.lane() >> 4) * 8) * pitch + (t.lane() >> 3 & 1) * next;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(own))));
#else
  for (int i = 0; i < 4; ++i) {
    b[i] = load_as<uint32_t>(rows + (t.lane() / 4 + 8 * (i / 2)) * pitch + t.lane() % 4 * 4 +
                             next * (i % 2));
  }
#endif
}

// A byte of `a`, the same byte of `b`, the next of `a`, and so on.
STRATA_DEVICE void interleave_bytes(uint32_t a, uint32_t b, uint32_t& low, uint32_t& high) {
#if defined(__CUDA_ARCH__)
  low = __byte_perm(a, b, 0x5140);
  high = __byte_perm(a, b, 0x7362);
#elif defined(__HIP_DEVICE_COMPILE__)
  low = __builtin_amdgcn_perm(b, a, 0x05010400u);
  high = __builtin_amdgcn_perm(b, a, 0x07030602u);
#else
  low = (a & 0xffu) | (b & 0xffu) << 8 | (a & 0xff00u) << 8 | (b & 0xff00u) << 16;
  high = (a >> 16 & 0xffu) | (b >> 16 & 0xffu) << 8 | (a >> 24) << 16 | (b >> 24) << 24;
#endif
}

// Whether the machine looks nibbles up in their order at less cost than sorted.
#if defined(__HIP__)
inline constexpr bool kNibblesInOrder = false;
#else
inline constexpr bool kNibblesInOrder = true;
#endif

// Sixteen bytes in four words, looked up by the eight nibbles of `codes` in their order, the low
// nibble of a byte first: `first` by nibbles 0 to 3, `second` by the others.
STRATA_DEVICE void lookup_in_order(uint32_t t0, uint32_t t1, uint32_t t2, uint32_t t3,
                                   uint32_t codes, uint32_t& first, uint32_t& second) {
#if defined(__CUDA_ARCH__)
  // A selector of this instruction is a nibble already; it reaches eight bytes.
  const uint32_t index = codes & 0x77777777u;
  const uint32_t half = 0x32103210u | (codes & 0x88888888u) >> 1;
  first = __byte_perm(__byte_perm(t0, t1, index), __byte_perm(t2, t3, index), half);
  second = __byte_perm(__byte_perm(t0, t1, index >> 16), __byte_perm(t2, t3, index >> 16),
                       half >> 16);
#else
  const uint32_t table[4] = {t0, t1, t2, t3};
  const auto entry = [&](int i) {
    const uint32_t nibble = codes >> 4 * i & 15u;
    return table[nibble / 4] >> 8 * (nibble % 4) & 0xffu;
  };
  first = second = 0;
  for (int i = 0; i < 4; ++i) {
    first |= entry(i) << 8 * i;
    second |= entry(i + 4) << 8 * i;
  }
#endif
}

// The same, sorted: byte i of `low` is the entry of the low nibble of byte i, `high` that of the
// high one.
STRATA_DEVICE void lookup_nibbles(uint32_t t0, uint32_t t1, uint32_t t2, uint32_t t3,
                                  uint32_t codes, uint32_t& low, uint32_t& high) {
#if defined(__HIP_DEVICE_COMPILE__)
  const auto lookup = [&](uint32_t index) {
    const uint32_t three = index & 0x07070707u;
    const uint32_t half = 0x03020100u | (index & 0x08080808u) >> 1;
    return __builtin_amdgcn_perm(__builtin_amdgcn_perm(t3, t2, three),
                                 __builtin_amdgcn_perm(t1, t0, three), half);
  };
  low = lookup(codes & 0x0f0f0f0fu);
  high = lookup(codes >> 4 & 0x0f0f0f0fu);
#else
  uint32_t first, second;
  lookup_in_order(t0, t1, t2, t3, codes, first, second);
#if defined(__CUDA_ARCH__)
  low = __byte_perm(first, second, 0x6420);
  high = __byte_perm(first, second, 0x7531);
#else
  low = (first & 0xffu) | (first >> 16 & 0xffu) << 8 | (second & 0xffu) << 16 |
        (second >> 16 & 0xffu) << 24;
  high = (first >> 8 & 0xffu) | (first >> 24) << 8 | (second >> 8 & 0xffu) << 16 |
         (second >> 24) << 24;
#endif
#endif
}

}  // namespace strata::gpu
