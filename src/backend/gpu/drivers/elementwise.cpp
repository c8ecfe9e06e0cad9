// embed, hc_broadcast, hc_write.
#include "backend/gpu/drivers/launch.h"
#include "backend/gpu/kernels/op_params.h"

namespace strata::gpu {

using namespace backend;

namespace {

Status embed(GpuStream& stream, const EmbedArgs& a) {
  const ImageKey key = image_key(Kernel::kEmbed, a.table.type);
  const QuantInfo& info = quant_info(a.table.type);
  const int64_t units = a.table.k / (info.quantised ? quant::kGroupElems : 1);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(key));
  return stream.launch(key, {.x = a.rows, .y = pieces(units, image->shape.threads)},
                       EmbedParams{.table = static_cast<const uint8_t*>(a.table.data),
                                   .ids = a.ids,
                                   .scale = a.table.scale,
                                   .out = a.out,
                                   .row_bytes = static_cast<int64_t>(
                                       row_bytes(a.table.type, a.table.k)),
                                   .width = static_cast<int>(a.table.k)});
}

Status hc_broadcast(GpuStream& stream, const HcBroadcastArgs& a) {
  const ImageKey key = image_key(Kernel::kHcBroadcast);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(key));
  return stream.launch(
      key, {.x = a.rows, .y = pieces(a.width, image->shape.threads)},
      HcBroadcastParams{
          .e = a.e, .residual = a.residual, .streams = a.streams, .width = a.width});
}

Status hc_write(GpuStream& stream, const HcWriteArgs& a) {
  const ImageKey key = image_key(Kernel::kHcWrite);
  STRATA_ASSIGN_OR_RETURN(const KernelImage* image, stream.image(key));
  return stream.launch(key, {.x = a.rows, .y = pieces(a.width, image->shape.threads)},
                       HcWriteParams{.residual = a.residual,
                                     .y = a.y,
                                     .inject_weight = a.inject_weight,
                                     .streams = a.streams,
                                     .width = a.width});
}

constexpr uint32_t kEmbedImages[] = {pack_key({Kernel::kEmbed, kRowType})};
constexpr uint32_t kHcBroadcastImages[] = {pack_key(image_key(Kernel::kHcBroadcast))};
constexpr uint32_t kHcWriteImages[] = {pack_key(image_key(Kernel::kHcWrite))};

constexpr KernelSpec kRows[] = {
#define STRATA_QUANT_TYPE(Name) \
  portable_row<EmbedArgs, embed>("embed/gpu", kEmbedImages, QuantType::k##Name),
#include "format/quant/quant_types.def"
#undef STRATA_QUANT_TYPE
    portable_row<HcBroadcastArgs, hc_broadcast>("hc_broadcast/gpu", kHcBroadcastImages),
    portable_row<HcWriteArgs, hc_write>("hc_write/gpu", kHcWriteImages),
};

}  // namespace

std::span<const KernelSpec> elementwise_rows() { return kRows; }

}  // namespace strata::gpu
