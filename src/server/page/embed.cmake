# cmake -DOUTPUT=<header> -DFILES=<name>=<path>|<name>=<path>... -P embed.cmake
# Writes a header with one std::string_view per file in namespace strata::server::page_data.
set(text "#pragma once\n\n#include <string_view>\n\nnamespace strata::server::page_data {\n")
string(REPLACE "|" ";" entries "${FILES}")
foreach(entry IN LISTS entries)
  string(REGEX MATCH "^([^=]+)=(.+)$" matched "${entry}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND text "\ninline constexpr char ${name}Bytes[] = {\n${bytes}};\n"
    "inline constexpr std::string_view ${name}{${name}Bytes, sizeof(${name}Bytes)};\n")
endforeach()
string(APPEND text "\n}  // namespace strata::server::page_data\n")
file(WRITE "${OUTPUT}" "${text}")
