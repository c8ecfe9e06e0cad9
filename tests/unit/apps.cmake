strata_test(NAME apps_test
  SOURCES options_test.cpp conversation_test.cpp files_test.cpp logit_stats_test.cpp
  LIBS strata_apps)
strata_test(NAME bench_test
  SOURCES bench_stats_test.cpp
  LIBS strata_apps)
