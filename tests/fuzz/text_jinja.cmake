strata_fuzzer(NAME template_fuzz SOURCES template_fuzz.cpp LIBS strata_text)
