# Back end modules as files: what the program refuses to load, and what lies inside the real ones.
set(folder ${CMAKE_BINARY_DIR}/tests/modules)

# strata_fake_module(<name> <magic> <interface> <error>): libstrata_hip.so in a folder of its own.
function(strata_fake_module name magic interface error)
  add_library(fake_module_${name} MODULE modules/fake_module.cpp)
  target_link_libraries(fake_module_${name} PRIVATE strata_options fmt::fmt)
  target_compile_definitions(fake_module_${name} PRIVATE
    FAKE_MAGIC=${magic} "FAKE_INTERFACE=${interface}" "FAKE_ERROR=\"${error}\"")
  set_target_properties(fake_module_${name} PROPERTIES
    OUTPUT_NAME strata_hip LIBRARY_OUTPUT_DIRECTORY ${folder}/${name})
endfunction()

strata_fake_module(other_version strata::backend::ModuleHeader::kMagic "\"0123456789ab\"" "never asked")
strata_fake_module(bad_magic 0x12345678 strata::backend::kInterfaceHash "never asked")
strata_fake_module(old_driver strata::backend::ModuleHeader::kMagic strata::backend::kInterfaceHash
  "the driver is too old: it serves HIP 4.0, this program needs 5.0 or newer\; update the driver")
file(WRITE ${folder}/no_library/libstrata_hip.so "this is no library\n")

strata_test(NAME module_loader_test
  SOURCES module_loader_test.cpp
  LIBS strata_backend
  LABELS unit)
target_compile_definitions(module_loader_test PRIVATE STRATA_MODULES="${folder}")
add_dependencies(module_loader_test
  fake_module_other_version fake_module_bad_magic fake_module_old_driver)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(STRATA_ENABLE_HIP)
  get_property(architectures GLOBAL PROPERTY STRATA_HIP_ARCHITECTURES)
  list(JOIN architectures "," architectures)
  get_property(quants GLOBAL PROPERTY STRATA_QUANT_LIST)
  list(JOIN quants "," quants)
  add_test(NAME gpu.HipImages
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/hip_images.py $<TARGET_FILE:strata_hip>
            ${architectures} ${quants})
  set_tests_properties(gpu.HipImages PROPERTIES LABELS gpu)
endif()
