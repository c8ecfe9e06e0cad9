strata_fuzzer(NAME tokenizer_fuzz SOURCES tokenizer_fuzz.cpp LIBS strata_text)
