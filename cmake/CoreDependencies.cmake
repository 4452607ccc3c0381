# What base, types, routing and kernels need: all that the Python package's operators are made of.
foreach(package fmt nlohmann_json hwy)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found: install libfmt-dev, nlohmann-json3-dev and libhwy-dev (Debian, Ubuntu), "
                        "or name its CMake package by -D${package}_DIR=….")
  endif()
endforeach()
find_package(Threads REQUIRED)
