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
  else()  # headers alone, or a layer whose first source is still to come
    add_library(routeopd_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(routeopd::${name} ALIAS routeopd_${name})
  target_include_directories(routeopd_${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM arg_USES PREPEND routeopd::)
  target_link_libraries(routeopd_${name} ${scope} ${arg_USES} ${arg_LINK})
  if(arg_TORCH)
    target_link_libraries(routeopd_${name} ${scope} routeopd_torch)
    if(sources)
      routeopd_torch_pch(routeopd_${name})
    endif()
  endif()
endfunction()

# One precompiled ATen header, shared by every target that uses torch (about 11 s each without it).
function(routeopd_torch_pch target)
  if(NOT TARGET routeopd_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp "// owner of the shared precompiled header\n")
    add_library(routeopd_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
    target_link_libraries(routeopd_pch PRIVATE routeopd_torch routeopd_flags)
    target_precompile_headers(routeopd_pch PRIVATE <ATen/ATen.h> <ATen/Parallel.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM routeopd_pch)
endfunction()
