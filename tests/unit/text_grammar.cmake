strata_test(NAME grammar_test
  SOURCES grammar_core_test.cpp grammar_schema_test.cpp grammar_speed_test.cpp
  LIBS strata_text
)
target_include_directories(grammar_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
# Limits of time mean something only in an optimised build without sanitizers.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT STRATA_SANITIZE)
  target_compile_definitions(grammar_test PRIVATE STRATA_TIMED_TESTS)
endif()

add_executable(grammar_schema_probe grammar_schema_probe.cpp)
target_link_libraries(grammar_schema_probe PRIVATE strata_text GTest::gtest)
set_target_properties(grammar_schema_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(grammar_test grammar_schema_probe)

# An independent validator on what comes out. Debian's own interpreter, which has python3-jsonschema.
find_program(STRATA_DEBIAN_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(STRATA_DEBIAN_PYTHON)
  add_test(NAME grammar_schema_check
    COMMAND ${STRATA_DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/grammar_schema_check.py
      $<TARGET_FILE:grammar_schema_probe> /usr/share/json-schema-test-suite/tests
      ${CMAKE_SOURCE_DIR}/tests/data/json_schemas.json)
  set_tests_properties(grammar_schema_check PROPERTIES LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

strata_test(NAME constraint_compiler_test
  SOURCES
    constraint_compiler_test.cpp
    ${CMAKE_SOURCE_DIR}/src/engine/constraint_compiler.cpp
    ${CMAKE_SOURCE_DIR}/src/engine/sampler.cpp
  LIBS strata_text
)
