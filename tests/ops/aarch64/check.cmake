# Compiles the 64-bit ARM tiers with Debian's cross compiler and runs them under emulation, where all
# must give the scalar tier's bits (tiers.cpp).
#   cmake -DSOURCE_DIR=<repository> -DWORK_DIR=<scratch folder> -P check.cmake
find_program(compiler aarch64-linux-gnu-g++)
if(NOT compiler)
  message("SKIPPED: there is no aarch64-linux-gnu-g++ here; install the package g++-aarch64-linux-gnu")
  return()
endif()
find_program(emulator NAMES qemu-aarch64 qemu-aarch64-static)
if(NOT emulator)
  message("SKIPPED: there is no qemu-aarch64 here; install the package qemu-user")
  return()
endif()
file(MAKE_DIRECTORY ${WORK_DIR})

# compile(<object> <source> <flags>...)
function(compile object source)
  # Headers that belong to no architecture are the host's, after the compiler's own.
  execute_process(
    COMMAND ${compiler} ${ARGN} -std=c++20 -fno-math-errno -fno-trapping-math -ffp-contract=off
      -Wall -Wextra -Werror -DFMT_HEADER_ONLY -I${SOURCE_DIR}/src -idirafter /usr/include
      -c ${source} -o ${WORK_DIR}/${object}
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${source} does not compile for ${ARGN}")
  endif()
endfunction()

# Sources that share their headers are compiled as one.
set(contract ${SOURCE_DIR}/src/backend/cpu/contract)
set(tiers "")
foreach(tier IN ITEMS neon neondot neoni8mm)
  string(APPEND tiers "#include \"${contract}/kernels_${tier}.cpp\"\n")
  foreach(name IN ITEMS "" _NAME _WIDTH _NEON _DOT _MATMUL _VNNI _VBMI _NEEDS _RANK)
    string(APPEND tiers "#undef STRATA_TIER${name}\n")
  endforeach()
endforeach()
file(WRITE ${WORK_DIR}/tiers.cpp "${tiers}")
set(program "")
foreach(source IN ITEMS tests/ops/aarch64/tiers.cpp src/ops/self_test_products.cpp
    src/backend/device.cpp src/backend/kernel_table.cpp src/backend/cpu/cpu_stream.cpp
    src/backend/cpu/cpu_features.cpp src/backend/cpu/contract/rows.cpp src/base/thread_pool.cpp
    src/base/status.cpp src/format/quant/quant.cpp)
  string(APPEND program "#include \"${SOURCE_DIR}/${source}\"\n")
endforeach()
file(WRITE ${WORK_DIR}/program.cpp "${program}")

compile(tiers.o ${WORK_DIR}/tiers.cpp -march=armv8-a -O0)
compile(scalar.o ${contract}/kernels_scalar.cpp -march=armv8-a -O1)
compile(program.o ${WORK_DIR}/program.cpp -march=armv8-a -O1)
compile(model.o ${SOURCE_DIR}/src/ops/self_test_model.cpp -march=armv8-a -O0)
# A tier must also compile where the build's own flags ask for more than it does.
compile(unused.o ${contract}/kernels_neondot.cpp -march=armv8.2-a+dotprod+i8mm -O0)

execute_process(
  COMMAND ${compiler} -static tiers.o scalar.o program.o model.o -o tiers
  WORKING_DIRECTORY ${WORK_DIR} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "the program does not link")
endif()

# run(<processor> <cases> <tiers>...)
function(run processor)
  execute_process(COMMAND ${emulator} -cpu ${processor} ${WORK_DIR}/tiers ${ARGN}
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "on ${processor}: ${failed}")
  endif()
endfunction()
run(max all neon neondot neoni8mm)
run(neoverse-n1 some neon neondot)
run(cortex-a72 some neon)
