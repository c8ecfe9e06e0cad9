strata_fuzzer(NAME gguf_fuzz SOURCES gguf_fuzz.cpp LIBS strata_format)
