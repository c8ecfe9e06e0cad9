# The web page in a browser. By hand: page_test.py screenshots
foreach(subject IN ITEMS types chat history content errors monitor access tiny)
  add_test(NAME page.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/page_test.py ${subject})
  set_tests_properties(page.${subject} PROPERTIES
    LABELS e2e TIMEOUT 300 SKIP_RETURN_CODE 77 RUN_SERIAL ON
    ENVIRONMENT "STRATA_BINARY=$<TARGET_FILE:strata>;STRATA_FAKE_SERVER=$<TARGET_FILE:fake_server>;STRATA_PAGE_PACKAGES=${CMAKE_BINARY_DIR}/page_packages;PYTHONDONTWRITEBYTECODE=1")
endforeach()
