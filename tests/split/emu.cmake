# Emulated cards, opened as the program opens them, and some that a test holds itself to ask the
# emulator what it saw.
foreach(subject IN ITEMS device_faults engine_faults graphs handoff mixed schedules)
  strata_test(NAME split_${subject}
    SOURCES ${subject}_test.cpp $<TARGET_OBJECTS:strata_emu_kernels>
    LIBS strata_engine strata_gpu_emu strata_gpu strata_options
    LABELS split
    TIMEOUT 900)
  target_include_directories(split_${subject} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(split_${subject} PRIVATE STRATA_MODULE_FOLDER="${CMAKE_BINARY_DIR}")
  add_dependencies(split_${subject} strata_emu)
endforeach()

strata_test(NAME split_sampling LABELS split TIMEOUT 900
  SOURCES sampling_test.cpp
  LIBS strata_engine)
target_include_directories(split_sampling PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_compile_definitions(split_sampling PRIVATE STRATA_MODULE_FOLDER="${CMAKE_BINARY_DIR}")
add_dependencies(split_sampling strata_emu)
