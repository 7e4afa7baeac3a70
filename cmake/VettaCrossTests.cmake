# SPDX-License-Identifier: Apache-2.0
# Unit tests of the node set in a cross build: GoogleTest from its sources (Debian's googletest package), since the
# built library is the host's. Property tests (rapidcheck) run in the native build only.

include_guard()
if(NOT EXISTS /usr/src/googletest/CMakeLists.txt)
  message(FATAL_ERROR "/usr/src/googletest is missing: apt-get install googletest")
endif()
set(INSTALL_GTEST OFF)
add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
foreach(target gtest gtest_main gmock gmock_main)
  if(NOT TARGET GTest::${target})
    add_library(GTest::${target} ALIAS ${target})
  endif()
endforeach()
add_library(rapidcheck INTERFACE)
target_compile_definitions(rapidcheck INTERFACE VETTA_NO_RAPIDCHECK=1)
