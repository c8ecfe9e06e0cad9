# BUILD.json beside the program, and the same text inside it: what this build is.
#
#   strata_back_end(<kind> ARCHITECTURES <list> GROUPS <list>)  announces a back end
#   strata_build_info_source(<out-variable>)                    the source that defines the text
#   strata_write_build_info()                                   last, when all back ends are known
#
# The hash of the sources is renewed by every build; files change only when it does, so that an edit
# costs one small file more.

set(STRATA_BUILD_INFO_TEMPLATE ${CMAKE_BINARY_DIR}/generated/BUILD.json.in)
set(STRATA_BUILD_INFO_SOURCE ${CMAKE_BINARY_DIR}/generated/build_info.cpp)
set_property(GLOBAL PROPERTY STRATA_BACK_ENDS "")

function(strata_json_list out)
  set(text "")
  foreach(item IN LISTS ARGN)
    string(APPEND text ", \"${item}\"")
  endforeach()
  string(REGEX REPLACE "^, " "" text "${text}")
  set(${out} "[${text}]" PARENT_SCOPE)
endfunction()

function(strata_back_end kind)
  cmake_parse_arguments(B "" "" "ARCHITECTURES;GROUPS;QUANTS" ${ARGN})
  strata_json_list(architectures ${B_ARCHITECTURES})
  strata_json_list(groups ${B_GROUPS})
  strata_json_list(quants ${B_QUANTS})
  set_property(GLOBAL APPEND_STRING PROPERTY STRATA_BACK_ENDS
    ",\n    {\"kind\": \"${kind}\", \"architectures\": ${architectures}, \"groups\": ${groups}, \"quant_types\": ${quants}}")
endfunction()

function(strata_build_info_source out)
  if(NOT TARGET strata_build_info)
    add_custom_target(strata_build_info ALL
      COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}/src -DTEMPLATE=${STRATA_BUILD_INFO_TEMPLATE}
              -DJSON=${CMAKE_BINARY_DIR}/BUILD.json -DCPP=${STRATA_BUILD_INFO_SOURCE}
              -P ${CMAKE_SOURCE_DIR}/cmake/WriteBuildInfo.cmake
      BYPRODUCTS ${STRATA_BUILD_INFO_SOURCE} ${CMAKE_BINARY_DIR}/BUILD.json
      COMMENT "Hashing the sources" VERBATIM)
  endif()
  set(${out} ${STRATA_BUILD_INFO_SOURCE} PARENT_SCOPE)
endfunction()

function(strata_write_build_info)
  get_property(back_ends GLOBAL PROPERTY STRATA_BACK_ENDS)
  string(REGEX REPLACE "^," "" back_ends "${back_ends}")
  set(build_type "${CMAKE_BUILD_TYPE}")
  if(STRATA_SANITIZE)
    string(APPEND build_type " with ${STRATA_SANITIZE}")
  endif()
  # The placeholder is filled in by WriteBuildInfo.cmake.
  file(CONFIGURE OUTPUT ${STRATA_BUILD_INFO_TEMPLATE} @ONLY NEWLINE_STYLE UNIX CONTENT
"{
  \"version\": \"@PROJECT_VERSION@\",
  \"source_sha256\": \"<source-hash>\",
  \"interface\": \"${STRATA_INTERFACE_HASH}\",
  \"compiler\": \"@CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@\",
  \"build_type\": \"${build_type}\",
  \"back_ends\": [${back_ends}
  ]
}
")
endfunction()
