strata_test(NAME sampler_test
  SOURCES
    sampler_candidates_test.cpp
    sampler_reference_test.cpp
    sampler_test.cpp
    sampling_resolve_test.cpp
    ${CMAKE_SOURCE_DIR}/src/engine/sampler.cpp
  LIBS strata_base nlohmann_json::nlohmann_json)
target_include_directories(sampler_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
# Limits of time mean something only in an optimised build without sanitizers.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT STRATA_SANITIZE)
  target_compile_definitions(sampler_test PRIVATE STRATA_TIMED_TESTS)
endif()

strata_test(NAME stop_matcher_test
  SOURCES
    stop_matcher_test.cpp
    ${CMAKE_SOURCE_DIR}/src/engine/stop_matcher.cpp
  LIBS strata_base nlohmann_json::nlohmann_json)
