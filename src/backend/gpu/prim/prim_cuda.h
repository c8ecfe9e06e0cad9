// The machine interface of prim.h on NVIDIA cards.
#pragma once

#include <cstdint>
#include <type_traits>

#define STRATA_DEVICE __device__ __forceinline__

namespace strata::gpu {

struct alignas(16) Vec4 {
  uint32_t x, y, z, w;
};

struct SharedOperand {
  int offset, next;
};

class Thread {
 public:
  STRATA_DEVICE int index() const { return static_cast<int>(threadIdx.x); }
  STRATA_DEVICE int size() const { return static_cast<int>(blockDim.x); }
  STRATA_DEVICE int lane() const { return static_cast<int>(threadIdx.x) & 31; }
  STRATA_DEVICE int wave() const { return static_cast<int>(threadIdx.x) >> 5; }
  STRATA_DEVICE int waves() const { return static_cast<int>(blockDim.x) >> 5; }
  STRATA_DEVICE int block_x() const { return static_cast<int>(blockIdx.x); }
  STRATA_DEVICE int block_y() const { return static_cast<int>(blockIdx.y); }
  STRATA_DEVICE int block_z() const { return static_cast<int>(blockIdx.z); }
  STRATA_DEVICE int grid_x() const { return static_cast<int>(gridDim.x); }
  STRATA_DEVICE int grid_y() const { return static_cast<int>(gridDim.y); }
  STRATA_DEVICE int grid_z() const { return static_cast<int>(gridDim.z); }

  template <class T>
  STRATA_DEVICE T* shared(int offset) const {
    extern __shared__ __align__(16) unsigned char strata_shared_memory[];
    return reinterpret_cast<T*>(strata_shared_memory + offset);
  }

  STRATA_DEVICE void sync() const { __syncthreads(); }
  STRATA_DEVICE void sync_wave() const { __syncwarp(); }

  template <class T>
  STRATA_DEVICE T shuffle(T v, int lane) const {
    static_assert(sizeof(T) == 4);
    return __shfl_sync(0xffffffffu, v, lane);
  }
  template <class T>
  STRATA_DEVICE T shuffle_xor(T v, int mask) const {
    static_assert(sizeof(T) == 4);
    return __shfl_xor_sync(0xffffffffu, v, mask);
  }
  STRATA_DEVICE uint32_t ballot(bool p) const { return __ballot_sync(0xffffffffu, p); }
  STRATA_DEVICE int atomic_add(int* p, int v) const { return atomicAdd(p, v); }

  STRATA_DEVICE void copy_async16(void* shared, const void* global) const {
#if __CUDA_ARCH__ >= 800
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
#else
    *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#endif
  }
  // Of a byte of the block's shared memory, as instructions take it.
  STRATA_DEVICE uint32_t shared_address(int offset) const {
    extern __shared__ __align__(16) unsigned char strata_shared_memory[];
    return static_cast<uint32_t>(__cvta_generic_to_shared(strata_shared_memory)) +
           static_cast<uint32_t>(offset);
  }
  STRATA_DEVICE void copy_async16(int shared, const void* global) const {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global)
                 : "memory");
#else
    copy_async16(this->shared<uint8_t>(shared), global);
#endif
  }
  STRATA_DEVICE void bulk_init(int barrier) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
                     shared_address(barrier))
                 : "memory");
#endif
  }
  STRATA_DEVICE void bulk_begin(int barrier, int bytes) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
#endif
  }
  STRATA_DEVICE void bulk_copy(int shared, const void* global, int bytes, int barrier) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(shared)),
        "l"(global), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
#else
    __trap();
#endif
  }
  template <int kGroups>
  STRATA_DEVICE void bulk_wait(int barrier, int phase) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .pred p;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"(
            shared_address(barrier)),
        "r"(phase)
        : "memory");
#endif
  }
  STRATA_DEVICE void bulk_commit() const {}
  STRATA_DEVICE void warpgroup_fence() const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
  }
  STRATA_DEVICE void warpgroup_commit() const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
  }
  STRATA_DEVICE void copy_async_commit() const {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  template <int kGroups>
  STRATA_DEVICE void copy_async_wait() const {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
  }
};

STRATA_DEVICE int dot4(int a, int b, int c) { return __dp4a(a, b, c); }

STRATA_DEVICE Vec4 load_stream16(const void* p) {
  const uint4 v = __ldcs(static_cast<const uint4*>(p));
  return {v.x, v.y, v.z, v.w};
}

// A kernel reaches these only where its group has the unit; elsewhere they exist to be named.
STRATA_DEVICE void mma_s8_16x8x32(const Thread&, const uint32_t (&a)[4],
                                  const uint32_t (&b)[2], int (&d)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
#else
  __trap();
#endif
}
STRATA_DEVICE void mma_s8_16x8x16(const Thread&, const uint32_t (&a)[2], uint32_t b,
                                  int (&d)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%7,%7,%7,%7};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "r"(0));
#else
  __trap();
#endif
}
STRATA_DEVICE void warpgroup_product_s8(const Thread& t, SharedOperand a, SharedOperand b,
                                        int (&d)[32]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const auto descriptor = [&](SharedOperand o) {
    const auto word = [](uint32_t bytes) { return static_cast<uint64_t>(bytes & 0x3ffffu) >> 4; };
    return word(t.shared_address(o.offset)) | word(static_cast<uint32_t>(o.next)) << 16 |
           word(128) << 32;
  };
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p;\n}"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]), "=r"(d[4]), "=r"(d[5]),
      "=r"(d[6]), "=r"(d[7]), "=r"(d[8]), "=r"(d[9]), "=r"(d[10]), "=r"(d[11]),
      "=r"(d[12]), "=r"(d[13]), "=r"(d[14]), "=r"(d[15]), "=r"(d[16]), "=r"(d[17]),
      "=r"(d[18]), "=r"(d[19]), "=r"(d[20]), "=r"(d[21]), "=r"(d[22]), "=r"(d[23]),
      "=r"(d[24]), "=r"(d[25]), "=r"(d[26]), "=r"(d[27]), "=r"(d[28]), "=r"(d[29]),
      "=r"(d[30]), "=r"(d[31])
      : "l"(descriptor(a)), "l"(descriptor(b)));
#else
  __trap();
#endif
}
template <int kLeft>
STRATA_DEVICE void warpgroup_wait(const Thread&, int (&d)[32]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#endif
  // The results are used after this, whatever the compiler would like.
  asm volatile("" : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]),
      "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),
      "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]),
      "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
      "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]),
      "+r"(d[30]), "+r"(d[31]));
}
STRATA_DEVICE void wmma_s8_gfx11(const Thread&, int (&)[8], const uint32_t (&)[4],
                                 const uint32_t (&)[4]) {
  __trap();
}
STRATA_DEVICE void wmma_s8_gfx12(const Thread&, int (&)[8], const uint32_t (&)[2],
                                 const uint32_t (&)[2]) {
  __trap();
}

}  // namespace strata::gpu
