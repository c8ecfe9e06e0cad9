foreach(subject IN ITEMS Answers BadInput)
  add_test(NAME http.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/http_test.py ${subject})
endforeach()
foreach(subject IN ITEMS Apis Tls)
  add_test(NAME http.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/api_test.py ${subject})
endforeach()
foreach(subject IN ITEMS Handmade Random)
  add_test(NAME hostile_model.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/hostile_model_test.py ${subject})
endforeach()
set_tests_properties(http.Answers http.BadInput http.Apis http.Tls hostile_model.Handmade hostile_model.Random PROPERTIES
  LABELS e2e TIMEOUT 240
  ENVIRONMENT "STRATA_BINARY=$<TARGET_FILE:strata>;PYTHONDONTWRITEBYTECODE=1")

# Clients that people use, from npm, installed once into the build folder.
add_executable(fake_server ${CMAKE_CURRENT_LIST_DIR}/fake_server.cpp)
target_link_libraries(fake_server PRIVATE strata_server)
target_include_directories(fake_server PRIVATE ${CMAKE_SOURCE_DIR}/tests)
set_target_properties(fake_server PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
foreach(subject IN ITEMS Sdks Agent TinyModel)
  add_test(NAME clients.${subject}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/clients_test.py ${subject})
endforeach()
set_tests_properties(clients.Sdks clients.Agent clients.TinyModel PROPERTIES
  LABELS e2e TIMEOUT 1200 SKIP_RETURN_CODE 77 RESOURCE_LOCK client_packages
  ENVIRONMENT "STRATA_BINARY=$<TARGET_FILE:strata>;STRATA_FAKE_SERVER=$<TARGET_FILE:fake_server>;STRATA_CLIENTS=${CMAKE_BINARY_DIR}/clients;PYTHONDONTWRITEBYTECODE=1")

# Ten minutes: load_test.py --seconds 600
add_test(NAME http.load COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/load_test.py)
set_tests_properties(http.load PROPERTIES LABELS e2e TIMEOUT 240 RUN_SERIAL ON
  ENVIRONMENT "STRATA_FAKE_SERVER=$<TARGET_FILE:fake_server>;PYTHONDONTWRITEBYTECODE=1")
