// A back end module that the program must refuse: of another interface, no module at all, or one
// whose driver does not start.
#include "backend/module.h"
#include "interface_hash.h"

namespace {

strata::backend::Module* create(std::string& error) {
  error = FAKE_ERROR;
  return nullptr;
}

}  // namespace

extern "C" const strata::backend::ModuleHeader strata_backend_module = {
    .magic = FAKE_MAGIC,
    .interface_hash = FAKE_INTERFACE,
    .version = "9.9.9",
    .architectures = "gfx1100",
    .create = create,
};
