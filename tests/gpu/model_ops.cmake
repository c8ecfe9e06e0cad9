# The op tests of tests/ops on emulated cards of every group that is compiled (or, with --device=, on
# real ones), where they compare every kernel row with the CPU's bits. One card has a single
# multiprocessor, which makes drivers choose the forms for a full device.
set(cards)
foreach(group IN LISTS STRATA_GPU_GROUPS)
  string(REPLACE "gfx10" "gfx1030:multiprocessors=1" card ${group})
  string(REPLACE "gfx11" "gfx1100" card ${card})
  string(REPLACE "gfx12" "gfx1201" card ${card})
  list(APPEND cards emu:${card})
endforeach()
list(JOIN cards "," cards)

foreach(subject IN ITEMS attention gdn hyper_connection ple qsa_prepare qsa_select self_test
    top_k_logits)
  strata_test(NAME gpu_${subject}
    SOURCES ${CMAKE_SOURCE_DIR}/tests/ops/${subject}_test.cpp
            ${CMAKE_SOURCE_DIR}/tests/support/test_devices.cpp
    LIBS strata_ops
    LABELS gpu
    PREFIX gpu.)
  target_include_directories(gpu_${subject} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(gpu_${subject} PRIVATE STRATA_TEST_DEVICES="${cards}")
  add_dependencies(gpu_${subject} strata_emu)
endforeach()

# The whole small model; other groups are run by tests/split.
strata_test(NAME gpu_model
  SOURCES model_test.cpp ${CMAKE_SOURCE_DIR}/tests/support/test_devices.cpp
  LIBS strata_engine
  LABELS gpu
  PREFIX gpu.)
target_include_directories(gpu_model PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_definitions(gpu_model PRIVATE STRATA_TEST_DEVICES="emu:sm90:multiprocessors=1")
add_dependencies(gpu_model strata_emu)
