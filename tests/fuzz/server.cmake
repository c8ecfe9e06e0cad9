strata_fuzzer(NAME http_fuzz SOURCES http_fuzz.cpp LIBS strata_server Boost::headers)
strata_fuzzer(NAME json_body_fuzz SOURCES json_body_fuzz.cpp LIBS strata_server)
strata_fuzzer(NAME tool_call_fuzz SOURCES tool_call_fuzz.cpp LIBS strata_server)
