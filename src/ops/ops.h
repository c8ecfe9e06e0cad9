// The only door to compute. Each function checks its operands against the contract in
// backend/op_args.h, finds the kernel in the table of the stream's own device, and launches it.
// A failed check is our bug or a wrong model file and comes back as a sentence naming op and shape.
#pragma once

#include "backend/device.h"
#include "backend/op_args.h"
#include "base/status.h"

namespace strata::ops {

Status embed(backend::Stream& stream, const backend::EmbedArgs& args);
Status hc_broadcast(backend::Stream& stream, const backend::HcBroadcastArgs& args);
Status hc_read(backend::Stream& stream, const backend::HcReadArgs& args);
Status hc_write(backend::Stream& stream, const backend::HcWriteArgs& args);
// Weights of any types with the same k; launches once per type, in the order of its first product.
Status matmul(backend::Stream& stream, const backend::MatmulArgs& args);
Status gdn(backend::Stream& stream, const backend::GdnArgs& args);
Status qsa_prepare(backend::Stream& stream, const backend::QsaPrepareArgs& args);
Status qsa_select(backend::Stream& stream, const backend::QsaSelectArgs& args);
Status attention(backend::Stream& stream, const backend::AttentionArgs& args);
Status router(backend::Stream& stream, const backend::RouterArgs& args);
Status experts(backend::Stream& stream, const backend::ExpertsArgs& args);
Status swiglu(backend::Stream& stream, const backend::SwiGluArgs& args);
Status shared_expert_add(backend::Stream& stream, const backend::SharedExpertAddArgs& args);
Status ple_inject(backend::Stream& stream, const backend::PleInjectArgs& args);
Status top_k_logits(backend::Stream& stream, const backend::TopKLogitsArgs& args);

}  // namespace strata::ops
