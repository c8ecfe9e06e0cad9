#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/qsa.h"
#include "backend/gpu/kernels/qsa_select.h"

namespace strata::gpu {

// Variants of kAttentionSegment: the cache type, plus kAttentionManyHeads where a block takes twelve
// heads instead of four.
inline constexpr int kAttentionManyHeads = 4;

template <class A, backend::KvType kType>
void add_attention_segments(ImageList& list) {
  const int variant = static_cast<int>(kType);
  add<A, AttentionSegment<A, kType, FewHeads>>(list,
                                               image_key(Kernel::kAttentionSegment, variant));
  add<A, AttentionSegment<A, kType, ManyHeads>>(
      list, image_key(Kernel::kAttentionSegment, variant + kAttentionManyHeads));
}

// Variant of kQsaScore in which block keys meet four rows at a time.
inline constexpr int kQsaScoreManyRows = 1;

template <class A>
void add_attention_images(ImageList& list) {
  add<A, QsaPrepare<A>>(list, image_key(Kernel::kQsaPrepare));
  add<A, QsaScore<A, 1, 4>>(list, image_key(Kernel::kQsaScore));
  add<A, QsaScore<A, 4, 6>>(list, image_key(Kernel::kQsaScore, kQsaScoreManyRows));
  add<A, QsaSelect<A>>(list, image_key(Kernel::kQsaSelect));
  add<A, QsaSelectCells<A>>(list, image_key(Kernel::kQsaSelectCells));
  add_attention_segments<A, backend::KvType::kF32>(list);
  add_attention_segments<A, backend::KvType::kF16>(list);
  add_attention_segments<A, backend::KvType::kI8>(list);
  add<A, AttentionMerge<A>>(list, image_key(Kernel::kAttentionMerge));
}

}  // namespace strata::gpu
