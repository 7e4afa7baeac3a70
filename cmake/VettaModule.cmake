# SPDX-License-Identifier: Apache-2.0
# vetta_module(NAME FLOOR n [DEPS module...] [LIBS target...] [NODE])
#
# A folder src/NAME becomes the library vetta::NAME. DEPS may name only modules that are defined already and lie on
# a lower floor: an upward, sideways or undeclared arrow stops the configuration here, and tools/tidy compares every
# #include with the same table. LIBS are third-party targets; they stay private to the module's .cc files.
# NODE marks the modules that the node set (agent, plugins) is built from.
# Files: *.cc are the library, *_test.cc its unit tests (one executable, one ctest entry), *_bench.cc its micro benches.

include_guard()

set(VETTA_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Wundef)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It takes every file that a unit includes for a header.
  list(APPEND VETTA_WARNINGS -Wno-subobject-linkage)
endif()

function(vetta_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_23)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${VETTA_WARNINGS}>)
  target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                                             POSITION_INDEPENDENT_CODE ON)
endfunction()

function(vetta_module name)
  cmake_parse_arguments(arg "NODE" "FLOOR" "DEPS;LIBS" ${ARGN})
  if(VETTA_NODE_SET_ONLY AND NOT arg_NODE)
    return()
  endif()
  set(target vetta_${name})
  foreach(dep IN LISTS arg_DEPS)
    if(NOT TARGET vetta::${dep})
      message(FATAL_ERROR "module '${name}' depends on '${dep}', which is not defined above it in src/CMakeLists.txt; "
                          "arrows point down only, see docs/internals/architecture.md")
    endif()
    get_property(dep_floor GLOBAL PROPERTY VETTA_FLOOR_${dep})
    if(NOT dep_floor LESS arg_FLOOR)
      message(FATAL_ERROR "module '${name}' (floor ${arg_FLOOR}) depends on '${dep}' (floor ${dep_floor}): arrows "
                          "point down only, never sideways; see docs/internals/architecture.md")
    endif()
  endforeach()
  set_property(GLOBAL PROPERTY VETTA_FLOOR_${name} ${arg_FLOOR})

  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.h)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")

  add_library(${target} STATIC ${sources})
  add_library(vetta::${name} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR} FILES ${headers})
  list(TRANSFORM arg_DEPS PREPEND vetta::)
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE ${arg_LIBS})
  vetta_compile_options(${target})

  if(VETTA_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE vetta::${name} ${arg_LIBS} GTest::gmock GTest::gtest_main rapidcheck)
    vetta_compile_options(${name}_test)
    add_dependencies(unit_tests ${name}_test)
    add_test(NAME unit.${name} COMMAND ${name}_test)
    set_tests_properties(unit.${name} PROPERTIES LABELS "unit" TIMEOUT 300)
  endif()
  if(VETTA_TESTS AND benches AND NOT VETTA_NODE_SET_ONLY)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE vetta::${name} ${arg_LIBS} benchmark::benchmark_main)
    vetta_compile_options(${name}_bench)
  endif()
endfunction()

# vetta_app(NAME DEPS module... [LIBS target...] [NODE]): the program NAME in bin/ from apps/NAME/*.cc
function(vetta_app name)
  cmake_parse_arguments(arg "NODE" "" "DEPS;LIBS" ${ARGN})
  if(VETTA_NODE_SET_ONLY AND NOT arg_NODE)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  add_executable(${name} ${sources})
  list(TRANSFORM arg_DEPS PREPEND vetta::)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ${arg_LIBS})
  vetta_compile_options(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  add_dependencies(programs ${name})
  if(arg_NODE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()
