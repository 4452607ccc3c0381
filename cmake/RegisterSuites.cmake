# Run after a GoogleTest program is linked: writes one ctest entry per suite, so that a process that loads LibTorch runs a
# suite and not a single test. The suites are those the program lists, so none can be forgotten.
#
#   cmake -DPROGRAM=… -DPREFIX=… -DOUTPUT=… -DENVIRONMENT=… -P RegisterSuites.cmake
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests failed: ${failed}")
endif()
string(REPLACE "\n" ";" lines "${listed}")
set(entries "")
foreach(line ${lines})
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.")  # a suite; its tests are indented
    set(suite ${CMAKE_MATCH_1})
    string(APPEND entries
      "add_test(\"${PREFIX}.${suite}\" \"${PROGRAM}\" \"--gtest_filter=${suite}.*\" \"--gtest_brief=1\")\n"
      "set_tests_properties(\"${PREFIX}.${suite}\" PROPERTIES ENVIRONMENT \"${ENVIRONMENT}\")\n")
  endif()
endforeach()
if(NOT entries)
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()
file(WRITE ${OUTPUT} "${entries}")
