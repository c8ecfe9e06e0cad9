strata_test(NAME model_test
  SOURCES config_test.cpp ngram_test.cpp rope_test.cpp
  LIBS strata_model)
target_include_directories(model_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
