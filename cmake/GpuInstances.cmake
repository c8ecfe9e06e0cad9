# Writes the sources that instantiate the GPU kernels: small files, so that builds run in parallel.
#
#   strata_gpu_instances(<out-variable> EXTENSION cpp|cu|hip FOLDER <folder> GROUPS <group>...
#     [ALL_QUANTS_GROUPS <group>...])
#
# One file per (group, half of the untyped families) and per (group, weight type), and one that
# calls them all: void strata::gpu::add_all_images(ImageList&).

set(STRATA_GPU_FAMILIES_A products moe elementwise hyper_connection)
set(STRATA_GPU_FAMILIES_B gdn attention ple top_k self_test)
set(STRATA_GPU_TYPED_FAMILIES products moe elementwise)
set(STRATA_ALL_GPU_GROUPS sm75 sm80 sm90 sm120 gfx10 gfx11 gfx12)

# Who builds the tests compiles often, and needs the types of the small models; who does not, runs
# models of any type.
set(default_quants all)
if(STRATA_BUILD_TESTS)
  set(default_quants F32 F16 BF16 Q8_0 Q6_K IQ2_XS IQ3_XXS IQ4_NL IQ4_XS)
endif()
set(STRATA_QUANTS "${default_quants}" CACHE STRING
  "Weight types that GPU kernels are compiled for, as quant_types.def names them; \"all\" for every type")
set(STRATA_EMU_ALL_QUANTS_GROUPS "" CACHE STRING
  "Architecture groups whose emulated kernels are compiled for every weight type, whatever STRATA_QUANTS says")

# strata_names(<option> <known>...): refuses names in the option that are not known.
function(strata_names option)
  foreach(name IN LISTS ${option})
    if(NOT name IN_LIST ARGN)
      list(JOIN ARGN ", " known)
      message(FATAL_ERROR "${option} has ${name}, which does not exist; there are ${known}.")
    endif()
  endforeach()
endfunction()

if(STRATA_QUANTS STREQUAL "all")
  set(STRATA_QUANT_LIST ${STRATA_ALL_QUANTS})
else()
  set(STRATA_QUANT_LIST ${STRATA_QUANTS})
  strata_names(STRATA_QUANTS ${STRATA_ALL_QUANTS})
endif()
set_property(GLOBAL PROPERTY STRATA_QUANT_LIST ${STRATA_QUANT_LIST})
strata_names(STRATA_EMU_ALL_QUANTS_GROUPS ${STRATA_ALL_GPU_GROUPS})

function(strata_gpu_write path content)
  set(old "")
  if(EXISTS ${path})
    file(READ ${path} old)
  endif()
  if(NOT old STREQUAL content)
    file(WRITE ${path} "${content}")
  endif()
endfunction()

function(strata_gpu_instances out)
  cmake_parse_arguments(I "" "EXTENSION;FOLDER" "GROUPS;ALL_QUANTS_GROUPS" ${ARGN})
  set(sources)
  set(declarations "")
  set(calls "")
  foreach(group IN LISTS I_GROUPS)
    string(SUBSTRING ${group} 0 1 first)
    string(TOUPPER ${first} first)
    string(SUBSTRING ${group} 1 -1 rest)
    set(arch "arch::${first}${rest}")
    set(units)
    foreach(half IN ITEMS A B)
      set(name ${group}_common_${half})
      set(includes "")
      set(body "")
      foreach(family IN LISTS STRATA_GPU_FAMILIES_${half})
        string(APPEND includes "#include \"backend/gpu/kernels/${family}_images.h\"\n")
        string(APPEND body "  add_${family}_images<${arch}>(list);\n")
      endforeach()
      strata_gpu_write(${I_FOLDER}/${name}.${I_EXTENSION}
        "#include \"backend/gpu/instance.h\"\n${includes}\nnamespace strata::gpu {\nvoid add_${name}(ImageList& list) {\n${body}}\n}  // namespace strata::gpu\n")
      list(APPEND units ${name})
    endforeach()
    set(quants ${STRATA_QUANT_LIST})
    if(group IN_LIST I_ALL_QUANTS_GROUPS)
      set(quants ${STRATA_ALL_QUANTS})
    endif()
    foreach(quant IN LISTS quants)
      set(name ${group}_${quant})
      set(includes "")
      set(body "")
      foreach(family IN LISTS STRATA_GPU_TYPED_FAMILIES)
        string(APPEND includes "#include \"backend/gpu/kernels/${family}_images.h\"\n")
        string(APPEND body "  add_${family}_images<${arch}, quant::${quant}>(list);\n")
      endforeach()
      strata_gpu_write(${I_FOLDER}/${name}.${I_EXTENSION}
        "#include \"backend/gpu/instance.h\"\n${includes}\nnamespace strata::gpu {\nvoid add_${name}(ImageList& list) {\n${body}}\n}  // namespace strata::gpu\n")
      list(APPEND units ${name})
    endforeach()
    foreach(unit IN LISTS units)
      list(APPEND sources ${I_FOLDER}/${unit}.${I_EXTENSION})
      string(APPEND declarations "void add_${unit}(ImageList& list);\n")
      string(APPEND calls "  add_${unit}(list);\n")
    endforeach()
  endforeach()
  strata_gpu_write(${I_FOLDER}/all_images.cpp
    "#include \"backend/gpu/all_images.h\"\n\nnamespace strata::gpu {\n${declarations}\nvoid add_all_images(ImageList& list) {\n${calls}}\n}  // namespace strata::gpu\n")
  list(APPEND sources ${I_FOLDER}/all_images.cpp)
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
