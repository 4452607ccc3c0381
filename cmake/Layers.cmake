# The layers of design: dependencies point one way, and a folder links only what it is declared to use here.
#
#   routeopd_library(NAME [TORCH] [USES folder…] [LINK target…])
#
# makes routeopd::NAME from src/routeopd/NAME/*.cpp. A folder that is not marked TORCH links no torch; the test
# `layers` holds the sources to the same rules.
function(routeopd_library name)
  cmake_parse_arguments(arg "TORCH" "" "USES;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  set(scope PUBLIC)
  if(sources)
    add_library(routeopd_${name} STATIC ${sources})
    target_link_libraries(routeopd_${name} PRIVATE routeopd_flags)
  else()  # headers alone
    add_library(routeopd_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(routeopd::${name} ALIAS routeopd_${name})
  target_include_directories(routeopd_${name} ${scope} ${ROUTEOPD_ROOT}/src)
  list(TRANSFORM arg_USES PREPEND routeopd::)
  target_link_libraries(routeopd_${name} ${scope} ${arg_USES} ${arg_LINK})
  if(arg_TORCH)
    target_link_libraries(routeopd_${name} ${scope} routeopd_torch)
  endif()
  if(sources)
    routeopd_fast_compile(routeopd_${name} ${arg_TORCH} ${sources})
  endif()
endfunction()

# Compiles a target in a few large units behind a precompiled header (docs/decisions/0009 has the measurements).
# Names in anonymous namespaces are therefore unique within a folder. Highway's files, which include themselves once per
# instruction set, stay units of their own.
function(routeopd_fast_compile target torch)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ROUTEOPD_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  foreach(source ${ARGN})
    file(STRINGS ${source} per_target REGEX "HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    if(per_target)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES
                                  SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
    elseif(ROUTEOPD_APART AND source MATCHES "${ROUTEOPD_APART}")
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  if(torch)
    target_precompile_headers(${target} REUSE_FROM routeopd_torch_pch)
  else()
    target_precompile_headers(${target} REUSE_FROM routeopd_pch)
  endif()
endfunction()

# The two precompiled headers: what nearly every file parses (3 to 4 s each without it), and ATen on top (11 s).
# Written where they differ: a newer owner would have both compiled again at every configuration.
foreach(owner pch torch_pch)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${owner}.cpp CONTENT "// owner of a shared precompiled header\n")
endforeach()
set(common_headers <algorithm> <filesystem> <functional> <map> <optional> <string> <vector>
    <nlohmann/json.hpp> <fmt/format.h>)
add_library(routeopd_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
target_link_libraries(routeopd_pch PRIVATE routeopd_flags fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(routeopd_pch PRIVATE ${common_headers})
if(TARGET routeopd_torch)
  add_library(routeopd_torch_pch OBJECT ${CMAKE_BINARY_DIR}/torch_pch.cpp)
  target_link_libraries(routeopd_torch_pch PRIVATE routeopd_torch routeopd_flags fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(routeopd_torch_pch PRIVATE <ATen/ATen.h> <ATen/Parallel.h> ${common_headers})
endif()
