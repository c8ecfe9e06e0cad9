include(${CMAKE_CURRENT_LIST_DIR}/text_tokenizer.cmake OPTIONAL)
include(${CMAKE_CURRENT_LIST_DIR}/text_jinja.cmake OPTIONAL)
include(${CMAKE_CURRENT_LIST_DIR}/text_grammar.cmake OPTIONAL)
