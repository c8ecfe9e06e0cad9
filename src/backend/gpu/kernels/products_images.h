#pragma once

#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/products_float.h"
#include "backend/gpu/kernels/products_tile.h"
#include "backend/gpu/kernels/products_unpacked.h"
#include "backend/gpu/kernels/products_vec.h"
#include "backend/gpu/kernels/type_of.h"

namespace strata::gpu {

template <class A>
void add_products_images(ImageList& list) {
  add<A, QuantizeRows<A>>(list, image_key(Kernel::kQuantizeRows));
}

template <class A, class Q>
void add_products_images(ImageList& list) {
  constexpr QuantType kType = type_of<Q>();
  if constexpr (!Q::kQuantised) {
    add<A, MatmulFloat<A, Q, 1, 1>>(list, image_key(Kernel::kMatmulFloat, kType, 0));
    add<A, MatmulFloat<A, Q, 8, 4>>(list, image_key(Kernel::kMatmulFloat, kType, 1));
    add<A, MatmulFloatTile<A, Q>>(list, image_key(Kernel::kMatmulFloat, kType, 2));
  } else {
    add<A, MatmulVec<A, Q, 1>>(list, image_key(Kernel::kMatmulVec, kType, 0));
    add<A, MatmulVec<A, Q, 2>>(list, image_key(Kernel::kMatmulVec, kType, 1));
    add<A, MatmulVec<A, Q, 4>>(list, image_key(Kernel::kMatmulVec, kType, 2));
    add<A, MatmulVec<A, Q, 8>>(list, image_key(Kernel::kMatmulVec, kType, 3));
    add<A, MatmulTile<A, Q, DotUnit>>(list, image_key(Kernel::kMatmulTile, kType));
    if constexpr (A::kMatrix != MatrixUnit::kNone) {
      using Forms = MatrixForms<A>;
      add<A, MatmulTile<A, Q, typename Forms::Large>>(list,
                                                      image_key(Kernel::kMatmulMatrix, kType, 0));
      add<A, MatmulTile<A, Q, typename Forms::Small>>(list,
                                                      image_key(Kernel::kMatmulMatrix, kType, 1));
    }
    if constexpr (A::kMatrix == MatrixUnit::kMmaS8) {
      using Tables = TablesOf<Q>;
      using Packed = typename PackedUnit<A, Tables::kHalves, Tables::kCount>::Type;
      add<A, UnpackRows<A, Q>>(list, image_key(Kernel::kUnpackRows, kType));
      add<A, MatmulUnpacked<A, Tables, Packed>>(list, image_key(Kernel::kMatmulUnpacked, kType));
    }
  }
}

}  // namespace strata::gpu
