strata_test(NAME tokenizer_test
  SOURCES tokenizer_test.cpp tokenizer_spans_test.cpp tokenizer_create_test.cpp
    pretokenizer_test.cpp utf8_test.cpp
  LIBS strata_text PkgConfig::PCRE2 Threads::Threads
)
