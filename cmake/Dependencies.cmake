# What each dependency is for stands in docs/dependencies.md.
include(CoreDependencies)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(CURL 7.85 REQUIRED)
find_package(Boost 1.74 REQUIRED)  # headers alone
find_package(simdjson REQUIRED)

# Oniguruma ships no CMake package.
find_path(ONIGURUMA_INCLUDE_DIR oniguruma.h REQUIRED)
find_library(ONIGURUMA_LIBRARY onig REQUIRED)
add_library(Oniguruma::onig UNKNOWN IMPORTED)
set_target_properties(Oniguruma::onig PROPERTIES IMPORTED_LOCATION ${ONIGURUMA_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${ONIGURUMA_INCLUDE_DIR})

# Nor do GMP and MPFR.
foreach(name gmp gmpxx mpfr)
  find_library(${name}_LIBRARY ${name} REQUIRED)
  add_library(${name}_imported UNKNOWN IMPORTED)
  set_target_properties(${name}_imported PROPERTIES IMPORTED_LOCATION ${${name}_LIBRARY})
endforeach()
target_link_libraries(gmpxx_imported INTERFACE gmp_imported)
target_link_libraries(mpfr_imported INTERFACE gmp_imported)
add_library(GMP::gmpxx ALIAS gmpxx_imported)
add_library(MPFR::mpfr ALIAS mpfr_imported)

if(NOT ROUTEOPD_TORCH_PYTHON)
  message(FATAL_ERROR "ROUTEOPD_TORCH_PYTHON is not set: run `make build`, or name a Python that has torch 2.13.0.")
endif()
execute_process(COMMAND ${ROUTEOPD_TORCH_PYTHON} -c "import torch; print(torch.utils.cmake_prefix_path, end='')"
                OUTPUT_VARIABLE torch_prefix RESULT_VARIABLE torch_missing ERROR_QUIET)
if(torch_missing)
  message(FATAL_ERROR "${ROUTEOPD_TORCH_PYTHON} cannot import torch: install torch==2.13.0 there, or name another.")
endif()
list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
find_package(Torch 2.13 REQUIRED)

# LibTorch with its headers as SYSTEM. at::parallel_for is a header template over OpenMP: without -fopenmp it runs
# serially and says nothing. The wheel brings its own libgomp.so.1; its folder leads the run path, so the process has
# one OpenMP runtime and one pool of threads.
get_filename_component(torch_lib_dir ${TORCH_LIBRARY} DIRECTORY)
add_library(routeopd_torch INTERFACE)
target_include_directories(routeopd_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
# The wheel brings fmt's headers too, another release than the distribution's library: units that see torch use them
# without the library. fmt keeps each release in an inline namespace of its own, so the two live side by side.
target_compile_definitions(routeopd_torch INTERFACE FMT_HEADER_ONLY)
if(NOT DEFINED ROUTEOPD_OPENMP)
  set(ROUTEOPD_OPENMP -fopenmp)
elseif(NOT ROUTEOPD_OPENMP)
  target_compile_options(routeopd_torch INTERFACE -Wno-unknown-pragmas)
endif()
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(routeopd_torch INTERFACE ${torch_flags} ${ROUTEOPD_OPENMP})
file(GLOB torch_gomp ${torch_lib_dir}/libgomp*.so*)  # some wheels put a hash into its name
if(NOT torch_gomp)
  message(FATAL_ERROR "${torch_lib_dir} has no libgomp: torch 2.13.0 from a wheel brings its own, which the program must share.")
endif()
# libtorch.so brings libtorch_cuda.so with it where the wheel has one.
target_link_libraries(routeopd_torch INTERFACE ${torch_lib_dir}/libtorch.so ${torch_lib_dir}/libtorch_cpu.so
                      ${torch_lib_dir}/libc10.so ${torch_gomp})
target_link_options(routeopd_torch INTERFACE -Wl,--no-as-needed)
set(CMAKE_BUILD_RPATH ${torch_lib_dir})

# What `make install` takes along (docs/decisions/0021). Builds with CUDA find a dozen more packages of several GB beside
# themselves, some of them by dlopen alone: a program on one of those loads it from where it was built on.
if(EXISTS ${torch_lib_dir}/libtorch_cuda.so)
  set(ROUTEOPD_TORCH_STAYS ${torch_lib_dir} CACHE INTERNAL "LibTorch that is not installed")
else()
  set(ROUTEOPD_TORCH_STAYS "" CACHE INTERNAL "LibTorch that is not installed")
  set(ROUTEOPD_TORCH_FILES ${torch_lib_dir}/libtorch.so ${torch_lib_dir}/libtorch_cpu.so ${torch_lib_dir}/libc10.so ${torch_gomp})
endif()
