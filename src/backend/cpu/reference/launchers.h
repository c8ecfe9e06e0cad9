// The reference rows' launch functions, one per op; rows.cpp lists them.
//
// Every formula is evaluated in double precision from the operands as given: weights decoded
// exactly, activations as the floats they are. A value is rounded to float only where it is stored
// in an output or in state. Each output is a fixed sequence of operations on its own row and on the
// state, so neither the number of workers nor the way a sequence is cut into calls changes a bit.
#pragma once

#include "backend/device.h"
#include "base/status.h"

namespace strata::backend::reference {

Status embed(Stream& stream, const void* args);
Status hc_broadcast(Stream& stream, const void* args);
Status hc_read(Stream& stream, const void* args);
Status hc_write(Stream& stream, const void* args);
Status matmul(Stream& stream, const void* args);
Status gdn(Stream& stream, const void* args);
Status qsa_prepare(Stream& stream, const void* args);
Status qsa_select(Stream& stream, const void* args);
Status attention(Stream& stream, const void* args);
Status router(Stream& stream, const void* args);
Status experts(Stream& stream, const void* args);
Status swiglu(Stream& stream, const void* args);
Status shared_expert_add(Stream& stream, const void* args);
Status ple_inject(Stream& stream, const void* args);
Status top_k_logits(Stream& stream, const void* args);

}  // namespace strata::backend::reference
