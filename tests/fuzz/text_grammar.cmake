strata_fuzzer(NAME grammar_fuzz SOURCES grammar_fuzz.cpp LIBS strata_text)
