# What devices do when something is wrong with them or with how they are named.
strata_test(NAME gpu_faults
  SOURCES faults_test.cpp
  LIBS strata_engine
  LABELS gpu
  TIMEOUT 300)
target_compile_definitions(gpu_faults PRIVATE STRATA_MODULE_FOLDER="${CMAKE_BINARY_DIR}")
add_dependencies(gpu_faults strata_emu)
