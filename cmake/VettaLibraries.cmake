# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, each with one owner module (docs/internals/architecture.md has the owner table).
# The node set uses header-only libraries alone, so that it needs nothing but libc on a node.

include_guard()
find_package(Threads REQUIRED)

# Header-only libraries are architecture-independent; a cross build takes the host's copies, one folder a library, so
# that no header of the host's libc is ever seen.
set(VETTA_HEADERS ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${VETTA_HEADERS})
foreach(library boost fmt nlohmann toml++ slurm)
  if(NOT EXISTS /usr/include/${library})
    message(FATAL_ERROR "/usr/include/${library} is missing: run tools/build, which installs what the build needs")
  endif()
  file(CREATE_LINK /usr/include/${library} ${VETTA_HEADERS}/${library} SYMBOLIC)
endforeach()

function(vetta_header_only name)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE ${VETTA_HEADERS})
endfunction()

# fmt from its headers, compiled once and linked statically: nothing more is needed on a node.
add_library(vetta_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cc)
target_include_directories(vetta_fmt SYSTEM PUBLIC ${VETTA_HEADERS})
target_compile_features(vetta_fmt PUBLIC cxx_std_23)
set_target_properties(vetta_fmt PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
vetta_header_only(vetta_json)
vetta_header_only(vetta_toml)
vetta_header_only(vetta_asio)
target_link_libraries(vetta_asio INTERFACE Threads::Threads)

if(NOT VETTA_NODE_SET_ONLY)
  find_package(CURL REQUIRED)
  find_package(SQLite3 REQUIRED)
  find_package(CLI11 REQUIRED)
endif()

if(VETTA_TESTS)
  if(VETTA_NODE_SET_ONLY)
    include(VettaCrossTests)
  else()
    find_package(GTest REQUIRED)
    find_package(benchmark REQUIRED)
    find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
    add_library(rapidcheck INTERFACE)
    target_link_libraries(rapidcheck INTERFACE ${RAPIDCHECK_LIBRARY})
  endif()
endif()
