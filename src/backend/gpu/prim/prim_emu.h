// The machine of prim.h on the host: threads of a block are fibers, and whatever waits for other
// threads goes to the block's scheduler (emu/block.h). Misuse that a GPU would answer with a hang
// or with garbage (a barrier that some threads never reach, a shuffle from no lane, shared memory
// past what the launch asked for) ends the launch with a sentence.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/gpu/prim/matrix.h"

#define STRATA_DEVICE inline

namespace strata::gpu {

class Thread;

struct alignas(16) Vec4 {
  uint32_t x, y, z, w;
};

namespace emu {

class BlockRunner;

// What a thread sees of its block.
struct BlockView {
  BlockRunner* runner = nullptr;
  std::byte* shared = nullptr;
  int shared_bytes = 0;
  int threads = 0;
  int x = 0, y = 0, z = 0;
  int grid_x = 1, grid_y = 1, grid_z = 1;
};

// Each is one rendezvous: it returns when every thread of the block, or lane of the wave, is there.
void barrier(const Thread& t);
void wave_barrier(const Thread& t);
uint32_t shuffle(const Thread& t, uint32_t bits, int lane);
uint32_t ballot(const Thread& t, bool predicate);
// `a`, `b`, `c` are this lane's registers, in the layout of `instruction`; the product replaces c.
void matrix_product(const Thread& t, matrix::Instruction instruction, const uint32_t* a,
                    const uint32_t* b, int* c);

int atomic_add(const Thread& t, int* p, int v);
void copy_async16(const Thread& t, void* shared, const void* global);
void copy_async_commit(const Thread& t);
void copy_async_wait(const Thread& t, int groups);

[[noreturn]] void bad_shared(const Thread& t, int offset, size_t size, size_t alignment);

}  // namespace emu

struct SharedOperand {
  int offset, next;
};

class Thread {
 public:
  Thread(const emu::BlockView* block, int index) : block_(block), index_(index) {}

  int index() const { return index_; }
  int size() const { return block_->threads; }
  int lane() const { return index_ & 31; }
  int wave() const { return index_ >> 5; }
  int waves() const { return block_->threads >> 5; }
  int block_x() const { return block_->x; }
  int block_y() const { return block_->y; }
  int block_z() const { return block_->z; }
  int grid_x() const { return block_->grid_x; }
  int grid_y() const { return block_->grid_y; }
  int grid_z() const { return block_->grid_z; }

  template <class T>
  T* shared(int offset) const {
    if (offset < 0 || offset % static_cast<int>(alignof(T)) != 0 ||
        static_cast<size_t>(offset) + sizeof(T) > static_cast<size_t>(block_->shared_bytes)) {
      emu::bad_shared(*this, offset, sizeof(T), alignof(T));
    }
    return reinterpret_cast<T*>(block_->shared + offset);
  }

  void sync() const { emu::barrier(*this); }
  void sync_wave() const { emu::wave_barrier(*this); }

  template <class T>
  T shuffle(T v, int lane) const {
    static_assert(sizeof(T) == 4 && std::is_trivially_copyable_v<T>);
    return std::bit_cast<T>(emu::shuffle(*this, std::bit_cast<uint32_t>(v), lane));
  }
  template <class T>
  T shuffle_xor(T v, int mask) const {
    return shuffle(v, lane() ^ mask);
  }
  uint32_t ballot(bool p) const { return emu::ballot(*this, p); }

  int atomic_add(int* p, int v) const { return emu::atomic_add(*this, p, v); }

  void copy_async16(void* shared, const void* global) const {
    emu::copy_async16(*this, shared, global);
  }
  void copy_async16(int shared, const void* global) const {
    copy_async16(this->shared<uint8_t>(shared), global);
  }
  void copy_async_commit() const { emu::copy_async_commit(*this); }
  template <int N>
  void copy_async_wait() const {
    emu::copy_async_wait(*this, N);
  }

  void bulk_init(int) const {}
  void bulk_begin(int, int) const {}
  void bulk_copy(int shared, const void* global, int bytes, int) const {
    for (int at = 0; at < bytes; at += 16) {
      copy_async16(shared + at, static_cast<const uint8_t*>(global) + at);
    }
  }
  void bulk_commit() const { copy_async_commit(); }
  template <int N>
  void bulk_wait(int, int) const {
    copy_async_wait<N>();
  }

  void warpgroup_fence() const {}
  void warpgroup_commit() const {}

  const emu::BlockView& emulated_block() const { return *block_; }

 private:
  const emu::BlockView* block_;
  int index_;
};

STRATA_DEVICE int dot4(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8) {
    c += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  }
  return c;
}

STRATA_DEVICE Vec4 load_stream16(const void* p) { return *static_cast<const Vec4*>(p); }

STRATA_DEVICE void mma_s8_16x8x32(const Thread& t, const uint32_t (&a)[4],
                                  const uint32_t (&b)[2], int (&d)[4]) {
  d[0] = d[1] = d[2] = d[3] = 0;
  emu::matrix_product(t, matrix::Instruction::kMmaS8_16x8x32, a, b, d);
}
STRATA_DEVICE void mma_s8_16x8x16(const Thread& t, const uint32_t (&a)[2], uint32_t b,
                                  int (&d)[4]) {
  d[0] = d[1] = d[2] = d[3] = 0;
  emu::matrix_product(t, matrix::Instruction::kMmaS8_16x8x16, a, &b, d);
}
// Done when it is begun, which is one of the moments at which the machine may do it.
STRATA_DEVICE void warpgroup_product_s8(const Thread& t, SharedOperand a, SharedOperand b,
                                        int (&d)[32]) {
  const auto row = [&](SharedOperand o, int r, int part) {
    return t.shared<Vec4>(o.offset + part * o.next + r / 8 * 128 + r % 8 * 16);
  };
  for (int i = 0; i < 32; ++i) {
    const int m = t.wave() % 4 * 16 + t.lane() / 4 + 8 * (i / 2 % 2);
    const int n = i / 4 * 8 + t.lane() % 4 * 2 + i % 2;
    d[i] = 0;
    for (int part = 0; part < 2; ++part) {
      const Vec4 x = *row(a, m, part), w = *row(b, n, part);
      d[i] = dot4(static_cast<int>(x.x), static_cast<int>(w.x), d[i]);
      d[i] = dot4(static_cast<int>(x.y), static_cast<int>(w.y), d[i]);
      d[i] = dot4(static_cast<int>(x.z), static_cast<int>(w.z), d[i]);
      d[i] = dot4(static_cast<int>(x.w), static_cast<int>(w.w), d[i]);
    }
  }
}
template <int kLeft>
STRATA_DEVICE void warpgroup_wait(const Thread&, int (&)[32]) {}
STRATA_DEVICE void wmma_s8_gfx11(const Thread& t, int (&c)[8], const uint32_t (&a)[4],
                                 const uint32_t (&b)[4]) {
  emu::matrix_product(t, matrix::Instruction::kWmmaS8Gfx11, a, b, c);
}
STRATA_DEVICE void wmma_s8_gfx12(const Thread& t, int (&c)[8], const uint32_t (&a)[2],
                                 const uint32_t (&b)[2]) {
  emu::matrix_product(t, matrix::Instruction::kWmmaS8Gfx12, a, b, c);
}

}  // namespace strata::gpu
