if(STRATA_ENABLE_EMU)
  foreach(subject IN ITEMS Seeds Plans)
    add_test(NAME split.${subject}
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/split_test.py ${subject})
    set_tests_properties(split.${subject} PROPERTIES
      LABELS e2e TIMEOUT 600 ENVIRONMENT "STRATA_BINARY=$<TARGET_FILE:strata>;PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endif()
