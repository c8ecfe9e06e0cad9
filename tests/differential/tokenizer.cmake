# Our side of tokenizer_fuzz.py.
add_executable(tokenizer_batch ${CMAKE_CURRENT_LIST_DIR}/tokenizer_batch.cpp)
target_link_libraries(tokenizer_batch PRIVATE strata_text)
set_target_properties(tokenizer_batch PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
