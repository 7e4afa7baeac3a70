# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=DIR -DPRESET=NAME [-DTARGET=NAME] -P build_preset.cmake: configures and builds.
set(build --build --preset ${PRESET})
if(TARGET)
  list(APPEND build --target ${TARGET})
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --preset ${PRESET} WORKING_DIRECTORY ${SOURCE} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} ${build} WORKING_DIRECTORY ${SOURCE} COMMAND_ERROR_IS_FATAL ANY)
