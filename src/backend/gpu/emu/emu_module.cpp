// The emulator as a back end module: devices are made from their specs, nothing is probed for.
#include "backend/gpu/all_images.h"
#include "backend/gpu/emu/emu_runtime.h"
#include "backend/gpu/gpu_module.h"
#include "interface_hash.h"

namespace {

strata::backend::Module* create(std::string& error) {
  (void)error;
  strata::gpu::ImageList images;
  strata::gpu::add_all_images(images);
  return strata::gpu::make_gpu_module(
             STRATA_MODULE_KIND, images,
             [images](const std::vector<std::string>& targets)
                 -> strata::Result<std::shared_ptr<strata::gpu::Runtime>> {
               auto runtime = strata::gpu::make_emu_runtime(targets, 1, images);
               if (!runtime.ok()) return runtime.status();
               return std::shared_ptr<strata::gpu::Runtime>(std::move(runtime).value());
             },
             strata::gpu::Numbering::kByPosition)
      .release();
}

}  // namespace

extern "C" const strata::backend::ModuleHeader strata_backend_module = {
    .interface_hash = strata::backend::kInterfaceHash,
    .version = STRATA_VERSION,
    .architectures = STRATA_MODULE_ARCHITECTURES,
    .create = create,
};
