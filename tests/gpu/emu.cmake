# The emulator itself, with kernels of the tests' own.
foreach(subject IN ITEMS block graph matrix runtime)
  strata_test(NAME gpu_emu_${subject}
    SOURCES emu_${subject}_test.cpp
    LIBS strata_gpu_emu strata_options
    LABELS gpu)
  target_include_directories(gpu_emu_${subject} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
endforeach()

if(TARGET strata_gpu_emu_race)
  # Instrumented, but linked without the sanitizer's runtime.
  add_library(gpu_emu_race_kernels OBJECT emu_race_kernels.cpp)
  target_link_libraries(gpu_emu_race_kernels PRIVATE strata_options)
  target_include_directories(gpu_emu_race_kernels PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(gpu_emu_race_kernels PRIVATE -fsanitize=thread)
  strata_test(NAME gpu_emu_race
    SOURCES emu_race_test.cpp $<TARGET_OBJECTS:gpu_emu_race_kernels>
    LIBS strata_gpu_emu_race strata_options
    LABELS gpu)
  target_include_directories(gpu_emu_race PRIVATE ${CMAKE_SOURCE_DIR}/tests)
endif()
