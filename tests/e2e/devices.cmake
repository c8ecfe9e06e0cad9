# Needs the emulator and the modules of tests/gpu.
if(STRATA_ENABLE_EMU)
  foreach(subject IN ITEMS Names Config Emulated Look)
    add_test(NAME devices.${subject}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/devices_test.py ${subject})
    set_tests_properties(devices.${subject} PROPERTIES
      LABELS e2e TIMEOUT 300
      ENVIRONMENT "STRATA_BINARY=$<TARGET_FILE:strata>;STRATA_MUTATIONS=${CMAKE_BINARY_DIR}/tests/mutations;STRATA_MODULES=${CMAKE_BINARY_DIR}/tests/modules;PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endif()
