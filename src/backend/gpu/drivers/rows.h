// The op rows of each driver file: how an op becomes launches of kernels. One set for all runtimes
// and groups; what a device lacks is decided by its own image table and features.
//
// A driver gets the op's Args (operands checked by ops/), finds geometry through
// GpuStream::image(), launches, and returns the first failure. Rows with rank 0 are the portable
// forms, which every group has; they are marked `reference`, so that kernels=reference selects them.
#pragma once

#include <span>

#include "backend/kernel_table.h"

namespace strata::gpu {

std::span<const backend::KernelSpec> product_rows();           // matmul
std::span<const backend::KernelSpec> moe_rows();               // router, experts, swiglu, shared_expert_add
std::span<const backend::KernelSpec> elementwise_rows();       // embed, hc_broadcast, hc_write
std::span<const backend::KernelSpec> hyper_connection_rows();  // hc_read
std::span<const backend::KernelSpec> gdn_rows();
std::span<const backend::KernelSpec> attention_rows();         // qsa_prepare, qsa_select, attention
std::span<const backend::KernelSpec> ple_rows();
std::span<const backend::KernelSpec> top_k_rows();

}  // namespace strata::gpu
