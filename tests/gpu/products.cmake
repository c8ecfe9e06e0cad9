# Matrix products and experts, on emulated cards of every group or on real ones (--device=cuda:0).
# Without the emulator they are programs to be run by hand.
foreach(subject IN ITEMS products moe)
  if(STRATA_ENABLE_EMU)
    strata_test(NAME gpu_${subject}
      SOURCES ${subject}_test.cpp
      LIBS strata_ops
      LABELS gpu)
    add_dependencies(gpu_${subject} strata_emu)
  else()
    add_executable(gpu_${subject} EXCLUDE_FROM_ALL ${subject}_test.cpp)
    target_link_libraries(gpu_${subject} PRIVATE strata_ops GTest::gtest)
    set_target_properties(gpu_${subject} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endif()
  target_include_directories(gpu_${subject} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
endforeach()
