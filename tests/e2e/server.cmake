foreach(subject IN ITEMS Answers BadInput)
  add_test(NAME http.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/http_test.py ${subject})
endforeach()
foreach(subject IN ITEMS Handmade Random)
  add_test(NAME hostile_model.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/hostile_model_test.py ${subject})
endforeach()
set_tests_properties(http.Answers http.BadInput hostile_model.Handmade hostile_model.Random PROPERTIES
  LABELS e2e TIMEOUT 240
  ENVIRONMENT "STRATA_BINARY=$<TARGET_FILE:strata>;PYTHONDONTWRITEBYTECODE=1")
