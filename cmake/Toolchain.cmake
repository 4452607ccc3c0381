# Language standard, warnings, sanitizers, compiler cache. No -march=native: kernels choose their instructions at run
# time (Highway), so one build serves every x86-64 processor.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # -O3 where kernels are (src/routeopd/CMakeLists.txt)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")  # for sanitizers: checks multiply what an optimiser reads
option(ROUTEOPD_UNITY "Compile each folder as a few large units" ON)
set(ROUTEOPD_APART "" CACHE STRING "Regular expression of the sources that are units of their own all the same")
add_compile_options(-fPIC)  # for libraries and programs alike, so that they can share a precompiled header

find_program(ROUTEOPD_CCACHE ccache)
if(ROUTEOPD_CCACHE)
  # Precompiled headers are cached only when ccache is told that their time stamps and defines do not matter.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${ROUTEOPD_CCACHE})
  add_compile_options(-fpch-preprocess)
endif()

add_library(routeopd_flags INTERFACE)
target_compile_options(routeopd_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Werror)
if(ROUTEOPD_UNITY)  # a .cpp that is included counts as a header there, where unnamed types are suspect
  target_compile_options(routeopd_flags INTERFACE -Wno-subobject-linkage)
endif()
if(ROUTEOPD_SANITIZE)
  target_compile_options(routeopd_flags INTERFACE -fsanitize=${ROUTEOPD_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=undefined)
  target_link_options(routeopd_flags INTERFACE -fsanitize=${ROUTEOPD_SANITIZE})
endif()
