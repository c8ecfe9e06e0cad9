# Back end modules with a fault of the kinds that must be found before a card is used, and the tests
# that find them. Only what carries the fault is compiled again.
set(folder ${CMAKE_BINARY_DIR}/tests/mutations)

# strata_mutation(<name> <source>...): libstrata_emu.so in a folder of its own.
function(strata_mutation name)
  add_library(mutation_${name} MODULE ${ARGN} $<TARGET_OBJECTS:strata_emu_kernels>)
  target_link_libraries(mutation_${name} PRIVATE strata_gpu_emu strata_options)
  # As the real one, so that two of them in one process share nothing.
  target_link_options(mutation_${name} PRIVATE
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/backend/gpu/module.map)
  set_target_properties(mutation_${name} PROPERTIES
    OUTPUT_NAME strata_emu LIBRARY_OUTPUT_DIRECTORY ${folder}/${name})
endfunction()

set(driver ${CMAKE_SOURCE_DIR}/src/backend/gpu/drivers/products.cpp)
set(asks_once ${CMAKE_BINARY_DIR}/generated/mutations/products_ask_once.cpp)
add_custom_command(OUTPUT ${asks_once}
  COMMAND ${CMAKE_COMMAND} -DINPUT=${driver} -DOUTPUT=${asks_once}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/mutations/ask_once.cmake
  DEPENDS ${driver} mutations/ask_once.cmake VERBATIM)
strata_mutation(ask_once ${asks_once} ${CMAKE_SOURCE_DIR}/src/backend/gpu/emu/emu_module.cpp)
target_compile_definitions(mutation_ask_once PRIVATE STRATA_MODULE_KIND="emu"
  STRATA_VERSION="${PROJECT_VERSION}" STRATA_MODULE_ARCHITECTURES="test")
strata_mutation(wrong_bit mutations/wrong_bit.cpp)

strata_test(NAME gpu_mutation
  SOURCES mutation_test.cpp
  LIBS strata_engine
  LABELS gpu)
target_compile_definitions(gpu_mutation PRIVATE
  STRATA_MODULE_FOLDER="${CMAKE_BINARY_DIR}" STRATA_MUTATION_FOLDER="${folder}")
add_dependencies(gpu_mutation strata_emu mutation_ask_once mutation_wrong_bit)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
# The mutated source must also fail the rules of the source tree.
add_test(NAME layers.ask_once
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/layers/state.py --expect-problem ${asks_once})
set_tests_properties(layers.ask_once PROPERTIES LABELS gpu)
