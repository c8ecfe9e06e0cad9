// A back end module with one kernel that computes wrongly on one group of cards: one bit of one value.
#include "backend/gpu/all_images.h"
#include "backend/gpu/emu/emu_runtime.h"
#include "backend/gpu/gpu_module.h"
#include "backend/gpu/instance.h"
#include "backend/gpu/kernels/gdn.h"
#include "interface_hash.h"

namespace strata::gpu {
namespace {

struct WrongBit {
  using Right = GdnNorm<arch::Gfx11>;
  static constexpr int kThreads = Right::kThreads;
  using Params = Right::Params;

  static void run(const Thread& t, const Params& p) {
    Right::run(t, p);
    if (t.block_x() != 0 || t.index() != 0) return;
    uint32_t bits;
    std::memcpy(&bits, p.out, sizeof bits);
    bits ^= 1;
    std::memcpy(p.out, &bits, sizeof bits);
  }
};

backend::Module* create(std::string& error) {
  (void)error;
  ImageList images, wrong;
  add_all_images(images);
  add<arch::Gfx11, WrongBit>(wrong, image_key(Kernel::kGdnNorm));
  for (KernelImage& image : images) {
    if (image.key == wrong.front().key && std::string_view(image.group) == wrong.front().group) {
      image.entry = wrong.front().entry;
    }
  }
  return make_gpu_module(
             "emu", images,
             [images](const std::vector<std::string>& targets) -> Result<std::shared_ptr<Runtime>> {
               auto runtime = make_emu_runtime(targets, 1, images);
               if (!runtime.ok()) return runtime.status();
               return std::shared_ptr<Runtime>(std::move(runtime).value());
             },
             Numbering::kByPosition)
      .release();
}

}  // namespace
}  // namespace strata::gpu

extern "C" const strata::backend::ModuleHeader strata_backend_module = {
    .interface_hash = strata::backend::kInterfaceHash,
    .version = "test",
    .architectures = "test",
    .create = strata::gpu::create,
};
