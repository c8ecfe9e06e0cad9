find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(subject IN ITEMS Usage Run Chat Serve Inspect Tokenize Eval)
  add_test(NAME cli.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/cli_test.py ${subject})
  set_tests_properties(cli.${subject} PROPERTIES
    LABELS e2e TIMEOUT 120
    ENVIRONMENT "STRATA_BINARY=$<TARGET_FILE:strata>;PYTHONDONTWRITEBYTECODE=1")
endforeach()
