// The machine interface of prim.h on AMD cards. Written against the compiler's own builtins: the
// HIP device headers of a distribution need not match its compiler.
#pragma once

#include <cstdint>
#include <type_traits>

#define STRATA_DEVICE __device__ inline __attribute__((always_inline))

namespace strata::gpu {

struct alignas(16) Vec4 {
  uint32_t x, y, z, w;
};

struct SharedOperand {
  int offset, next;
};

class Thread {
 public:
  STRATA_DEVICE int index() const { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
  STRATA_DEVICE int size() const { return static_cast<int>(__builtin_amdgcn_workgroup_size_x()); }
  STRATA_DEVICE int lane() const { return index() & 31; }
  STRATA_DEVICE int wave() const { return index() >> 5; }
  STRATA_DEVICE int waves() const { return size() >> 5; }
  STRATA_DEVICE int block_x() const { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
  STRATA_DEVICE int block_y() const { return static_cast<int>(__builtin_amdgcn_workgroup_id_y()); }
  STRATA_DEVICE int block_z() const { return static_cast<int>(__builtin_amdgcn_workgroup_id_z()); }
  STRATA_DEVICE int grid_x() const {
    return static_cast<int>(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x());
  }
  STRATA_DEVICE int grid_y() const {
    return static_cast<int>(__builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y());
  }
  STRATA_DEVICE int grid_z() const {
    return static_cast<int>(__builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z());
  }

  template <class T>
  STRATA_DEVICE T* shared(int offset) const {
    extern __attribute__((shared)) __attribute__((aligned(16))) unsigned char strata_shared_memory[];
    return reinterpret_cast<T*>(strata_shared_memory + offset);
  }

  STRATA_DEVICE void sync() const {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  // A wave runs in lockstep; only the order of its memory operations needs saying.
  STRATA_DEVICE void sync_wave() const {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
  }

  template <class T>
  STRATA_DEVICE T shuffle(T v, int lane) const {
    static_assert(sizeof(T) == 4);
    return __builtin_bit_cast(
        T, __builtin_amdgcn_ds_bpermute(lane << 2, __builtin_bit_cast(int, v)));
  }
  template <class T>
  STRATA_DEVICE T shuffle_xor(T v, int mask) const {
    return shuffle(v, lane() ^ mask);
  }
  STRATA_DEVICE uint32_t ballot(bool p) const { return __builtin_amdgcn_ballot_w32(p); }
  STRATA_DEVICE int atomic_add(int* p, int v) const {
    return __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  }

  STRATA_DEVICE void copy_async16(void* shared, const void* global) const {
    *static_cast<Vec4*>(shared) = *static_cast<const Vec4*>(global);
  }
  STRATA_DEVICE void copy_async16(int shared, const void* global) const {
    copy_async16(this->shared<uint8_t>(shared), global);
  }
  STRATA_DEVICE void copy_async_commit() const {}
  template <int kGroups>
  STRATA_DEVICE void copy_async_wait() const {}

  // No group here copies in bulk or has warpgroups.
  STRATA_DEVICE void bulk_init(int) const { __builtin_trap(); }
  STRATA_DEVICE void bulk_begin(int, int) const { __builtin_trap(); }
  STRATA_DEVICE void bulk_copy(int, const void*, int, int) const { __builtin_trap(); }
  STRATA_DEVICE void bulk_commit() const { __builtin_trap(); }
  template <int kGroups>
  STRATA_DEVICE void bulk_wait(int, int) const {
    __builtin_trap();
  }
  STRATA_DEVICE void warpgroup_fence() const { __builtin_trap(); }
  STRATA_DEVICE void warpgroup_commit() const { __builtin_trap(); }
};

STRATA_DEVICE int dot4(int a, int b, int c) {
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif defined(__GFX10__) && !defined(__gfx1010__) && !defined(__gfx1013__)
  return __builtin_amdgcn_sdot4(a, b, c, false);
#else
  for (int i = 0; i < 4; ++i) {
    c += static_cast<int>(static_cast<int8_t>(a >> 8 * i)) *
         static_cast<int>(static_cast<int8_t>(b >> 8 * i));
  }
  return c;
#endif
}

STRATA_DEVICE Vec4 load_stream16(const void* p) {
  typedef uint32_t Words __attribute__((ext_vector_type(4)));
  const Words v = __builtin_nontemporal_load(static_cast<const Words*>(p));
  return {v.x, v.y, v.z, v.w};
}

// A kernel reaches these only where its group has the unit; elsewhere they exist to be named.
STRATA_DEVICE void wmma_s8_gfx11(const Thread&, int (&c)[8], const uint32_t (&a)[4],
                                 const uint32_t (&b)[4]) {
#if defined(__GFX11__)
  typedef int Operand __attribute__((ext_vector_type(4)));
  typedef int Sum __attribute__((ext_vector_type(8)));
  const Operand va = __builtin_bit_cast(Operand, a), vb = __builtin_bit_cast(Operand, b);
  Sum sum = __builtin_bit_cast(Sum, c);
  sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, va, true, vb, sum, false);
  for (int i = 0; i < 8; ++i) c[i] = sum[i];
#else
  __builtin_trap();
#endif
}

STRATA_DEVICE void wmma_s8_gfx12(const Thread&, int (&c)[8], const uint32_t (&a)[2],
                                 const uint32_t (&b)[2]) {
#if defined(__GFX12__)
  typedef int Operand __attribute__((ext_vector_type(2)));
  typedef int Sum __attribute__((ext_vector_type(8)));
  const Operand va = __builtin_bit_cast(Operand, a), vb = __builtin_bit_cast(Operand, b);
  Sum sum = __builtin_bit_cast(Sum, c);
  sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, va, true, vb, sum, false);
  for (int i = 0; i < 8; ++i) c[i] = sum[i];
#else
  __builtin_trap();
#endif
}

STRATA_DEVICE void mma_s8_16x8x32(const Thread&, const uint32_t (&)[4], const uint32_t (&)[2],
                                  int (&)[4]) {
  __builtin_trap();
}
STRATA_DEVICE void mma_s8_16x8x16(const Thread&, const uint32_t (&)[2], uint32_t,
                                  int (&)[4]) {
  __builtin_trap();
}

STRATA_DEVICE void warpgroup_product_s8(const Thread&, SharedOperand, SharedOperand, int (&)[32]) {
  __builtin_trap();
}
template <int kLeft>
STRATA_DEVICE void warpgroup_wait(const Thread&, int (&)[32]) {
  __builtin_trap();
}

}  // namespace strata::gpu
