strata_test(NAME engine_test LABELS unit threads TIMEOUT 300
  SOURCES engine_test.cpp engine_constraint_test.cpp
  LIBS strata_engine)
target_include_directories(engine_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
