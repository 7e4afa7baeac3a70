# SPDX-License-Identifier: Apache-2.0
# Compiles every header of every module alone, so that none leans on what was included before it.
foreach(step "--preset;dev" "--build;--preset;dev;--target;all_verify_interface_header_sets")
  execute_process(COMMAND ${CMAKE_COMMAND} ${step} WORKING_DIRECTORY ${SOURCE} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
