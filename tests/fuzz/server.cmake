strata_fuzzer(NAME json_body_fuzz SOURCES json_body_fuzz.cpp LIBS strata_server)
