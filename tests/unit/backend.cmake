strata_test(NAME backend_test
  SOURCES device_spec_test.cpp
  LIBS strata_backend)
