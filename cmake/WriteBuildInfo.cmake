# Run by every build: writes JSON and CPP from TEMPLATE with the hash of the files under SOURCE, when
# it is another one than theirs.
file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/*)
list(SORT files)
set(all "")
foreach(file IN LISTS files)
  file(SHA256 ${SOURCE}/${file} digest)
  string(APPEND all "${digest}  ${file}\n")
endforeach()
string(SHA256 hash "${all}")

file(READ ${TEMPLATE} json)
string(REPLACE "<source-hash>" "${hash}" json "${json}")
set(cpp "#include \"apps/build_info.h\"

namespace strata::apps {
const char* build_info() {
  return R\"json(${json})json\";
}
}  // namespace strata::apps
")
foreach(output IN ITEMS JSON CPP)
  string(TOLOWER ${output} content)
  set(old "")
  if(EXISTS ${${output}})
    file(READ ${${output}} old)
  endif()
  if(NOT old STREQUAL "${${content}}")
    file(WRITE ${${output}} "${${content}}")
  endif()
endforeach()
