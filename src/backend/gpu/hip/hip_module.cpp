// HIP as a back end module.
#include "backend/gpu/all_images.h"
#include "backend/gpu/hip/hip_runtime.h"
#include "backend/gpu/gpu_module.h"
#include "interface_hash.h"

namespace {

strata::backend::Module* create(std::string& error) {
  auto runtime = strata::gpu::make_hip_runtime();
  if (!runtime.ok()) {
    error = runtime.status().message();
    return nullptr;
  }
  strata::gpu::ImageList images;
  strata::gpu::add_all_images(images);
  return strata::gpu::make_gpu_module(
             "hip", std::move(images),
             [shared = std::move(runtime).value()](const std::vector<std::string>&)
                 -> strata::Result<std::shared_ptr<strata::gpu::Runtime>> { return shared; },
             strata::gpu::Numbering::kByTarget)
      .release();
}

}  // namespace

extern "C" const strata::backend::ModuleHeader strata_backend_module = {
    .interface_hash = strata::backend::kInterfaceHash,
    .version = STRATA_VERSION,
    .architectures = STRATA_MODULE_ARCHITECTURES,
    .create = create,
};
