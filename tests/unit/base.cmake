strata_test(NAME base_test
  SOURCES cpu_topology_test.cpp mapped_file_test.cpp worker_count_test.cpp
  LIBS strata_base)
strata_test(NAME thread_pool_test
  SOURCES thread_pool_test.cpp
  LIBS strata_base
  LABELS unit threads)
# Ratios of time mean something only in an optimised build without sanitizers.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT STRATA_SANITIZE)
  target_compile_definitions(thread_pool_test PRIVATE STRATA_TIMED_TESTS)
endif()
