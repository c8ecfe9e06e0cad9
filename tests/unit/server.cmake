strata_test(NAME server_parts_test
  SOURCES server_json_test.cpp server_request_test.cpp server_answer_test.cpp server_activity_test.cpp
          server_watch_test.cpp
  LIBS strata_server)
strata_test(NAME server_tools_test SOURCES server_tools_test.cpp server_mutations_test.cpp LIBS strata_server)
strata_test(NAME server_http_test LABELS unit threads
  SOURCES server_http_test.cpp server_access_test.cpp server_stream_test.cpp server_chat_test.cpp server_apis_test.cpp
          server_responses_test.cpp server_silence_test.cpp
  LIBS strata_server)
foreach(target IN ITEMS server_parts_test server_http_test)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/..)
endforeach()
