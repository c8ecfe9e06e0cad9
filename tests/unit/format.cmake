strata_test(NAME format_test
  SOURCES
    gguf_hostile_test.cpp
    gguf_read_test.cpp
    gguf_robustness_test.cpp
    gguf_split_test.cpp
    gguf_summary_test.cpp
    quant_codebook_test.cpp
    quant_decode_test.cpp
  LIBS strata_format
)
