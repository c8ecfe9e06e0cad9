strata_test(NAME jinja_test
  SOURCES jinja_reference_test.cpp jinja_provenance_test.cpp jinja_limits_test.cpp
    jinja_errors_test.cpp chat_template_test.cpp
  LIBS strata_text Threads::Threads
)
