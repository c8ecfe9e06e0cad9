// What a kernel may ask of the machine it runs on. Three implementations with one interface: NVIDIA,
// AMD, and the emulator on the host. Kernels include this file and use nothing else of a GPU
// language.
//
// A kernel is a type:
//
//   template <class Arch, ...>
//   struct HcWrite {
//     struct Params { ... };                  // trivially copyable, passed by value
//     static constexpr int kThreads = 256;    // of a block; a multiple of the wave, at most 1024
//     static constexpr int kSharedBytes = 0;  // optional; as kTileM, kTileN (image.h)
//     STRATA_DEVICE static void run(const Thread& t, const Params& p);
//   };
//
// Blocks are one-dimensional; the grid has up to three dimensions. Every thread of a block reaches
// every t.sync(), every lane of a wave every wave operation: no early return before one.
// The wave has 32 lanes on every group.
//
// class Thread
//   int index(), size()              place in the block, threads of the block
//   int lane(), wave(), waves()      place in the wave, wave of the block, waves of the block
//   int block_x/y/z(), grid_x/y/z()
//   T* shared<T>(int offset)         the block's shared memory from `offset` bytes, 16-byte aligned
//   void sync()                      barrier of the block; orders shared and global memory in it
//   void sync_wave()                 the same among the lanes of a wave
//   T shuffle(T v, int lane)         T of 4 bytes; `lane` of the wave, the same or different per lane
//   T shuffle_xor(T v, int mask)
//   uint32_t ballot(bool p)          bit l = p of lane l
//   int atomic_add(int* p, int v)    shared or global; returns the old value
//   void copy_async16(void* shared, const void* global)   16 bytes, both 16-byte aligned
//   void copy_async16(int shared, const void* global)     the same, to shared<uint8_t>(shared)
//   void copy_async_commit()         closes a group of copies
//   void copy_async_wait<N>()        until at most N groups of this thread are in flight
// where the group has no asynchronous copies they are ordinary ones. Of groups with kBulkCopy, by one
// thread of a block:
//   void bulk_init(int barrier)              a barrier of 8 bytes in shared memory, before its use
//   void bulk_begin(int barrier, int bytes)  so many bytes will be copied
//   void bulk_copy(int shared, const void* global, int bytes, int barrier)   multiples of 16
//   void bulk_commit()                       closes a group of them
//   void bulk_wait<N>(int barrier, int phase)   by every thread: until the copies that were begun for
//                                            the barrier the phase-th time (modulo 2) are there, N
//                                            later groups being in flight; sync() must follow
//
// Free functions: int dot4(int a, int b, int c)   c + sum of four products of signed bytes
//                 Vec4 load_stream16(const void*) 16 aligned bytes that are read once
//                 struct Vec4 { uint32_t x, y, z, w; }
// Matrix products, one wave each (prim/matrix.h has the layouts). d = a b, c += a b:
//   mma_s8_16x8x32(t, const uint32_t (&a)[4], const uint32_t (&b)[2], int (&d)[4])   kMmaS8
//   mma_s8_16x8x16(t, const uint32_t (&a)[2], uint32_t b, int (&d)[4])               kMmaS8
//   warpgroup_product_s8(t, SharedOperand a, SharedOperand b, int (&d)[32])   Sm90
//     by four waves from a multiple of four on: 64 rows of a by 64 of b, k 32. A SharedOperand says
//     where rows of 32 bytes stand in shared memory: eight rows of the first 16 bytes side by side at
//     `offset`, the next eight after them, and so on; the second 16 bytes alike, `next` bytes on.
//     d[4 j + 2 r + c] is row 16 (wave % 4) + lane / 4 + 8 r, column 8 j + 2 (lane % 4) + c. It runs
//     beside the thread: t.warpgroup_fence() before, t.warpgroup_commit() after it, and
//     warpgroup_wait<N>(t, d) before d is used, which leaves the N last ones running.
//   wmma_s8_gfx11(t, int (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4])    kWmmaS8Gfx11
//   wmma_s8_gfx12(t, int (&c)[8], const uint32_t (&a)[2], const uint32_t (&b)[2])    kWmmaS8Gfx12
//
// Arithmetic is that of backend/numeric.h; nothing is fused or approximated behind its back.
#pragma once

#if defined(__CUDACC__)
#include "backend/gpu/prim/prim_cuda.h"
#elif defined(__HIP__)
#include "backend/gpu/prim/prim_hip.h"
#else
#include "backend/gpu/prim/prim_emu.h"
#endif
