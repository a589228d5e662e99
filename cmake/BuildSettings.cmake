# How everything is compiled. Targets take these through dlaunch_settings().

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # numeric kernels ask for -O3 themselves
option(DLAUNCH_TESTS "build the tests" ON)
option(DLAUNCH_BENCH "build the benchmarks" OFF)
option(DLAUNCH_TOGETHER "compile several sources of a folder as one, which takes a third of the time" ON)
set(DLAUNCH_SANITIZE "" CACHE STRING "empty, 'address' (with undefined; clang: the fuzz targets as well), or 'thread' (GCC)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # What ccache must overlook to cache at all what uses precompiled headers; and one checkout takes what another has
  # compiled.
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# dlaunch_link_fast(target): what is no product is linked by lld, if it is there: in a fifth of the time of GNU's linker.
find_program(DLAUNCH_LLD ld.lld DOC "LLVM's linker, for the tests and sanitizers")
function(dlaunch_link_fast target)
  if(DLAUNCH_LLD)
    target_link_options(${target} PRIVATE -fuse-ld=lld)
  endif()
endfunction()

# One build serves the suite and the fuzz targets: clang without optimisation needs two thirds of the time of GCC with -Og.
# Optimised are what simulations run, the store, which thousands ask at once, and the runtime, which reduces long data. Not
# checked is what needs type information that the libraries hide from each other (vptr, function). The fuzz targets link static
# libraries; only these count what is reached, which takes a quarter of the time to compile and doubles the code.
function(dlaunch_settings_of_address_sanitizer target)
  set(checks -fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(level -O0)
    if(target MATCHES "^dlaunch_(agent|base|loop|runtime_core|store|wire)|^dlaunch_launcher_remote$|^sim_test$")
      set(level -O1)
    endif()
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    target_compile_options(${target} PRIVATE ${level} -D__SANITIZE_ADDRESS__=1)  # as GCC defines it
    list(APPEND checks -fno-sanitize=vptr,function)
  else()
    target_compile_options(${target} PRIVATE -Og)
  endif()
  target_compile_options(${target} PRIVATE ${checks} -fno-sanitize-recover=all -g1 -fno-omit-frame-pointer)
  target_link_options(${target} PRIVATE ${checks})
endfunction()

# dlaunch_settings(target [TOGETHER]): warnings are errors, includes from the repository's root, sanitizers when asked for
# (GCC's with -Og, which compiles in two thirds of the time of -O1). TOGETHER, and all under sanitizers: several sources are
# compiled as one, also without DLAUNCH_TOGETHER; in the others that build sees whether each source includes what it uses.
function(dlaunch_settings target)
  # GCC 12 sees uninitialized members inside std::variant, and overlapping copies in std::string, where there are none.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wswitch-enum -Werror
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized -Wno-restrict>
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wconversion -Wsuggest-override>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  if(DLAUNCH_SANITIZE)
    dlaunch_link_fast(${target})
  endif()
  if(DLAUNCH_SANITIZE OR DLAUNCH_TOGETHER OR "TOGETHER" IN_LIST ARGN)
    dlaunch_compile_together(${target})
  endif()
  if(DLAUNCH_SANITIZE STREQUAL "address")
    dlaunch_settings_of_address_sanitizer(${target})
  elseif(DLAUNCH_SANITIZE STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread -g1 -Og)
    target_link_options(${target} PRIVATE -fsanitize=thread)
  elseif(DLAUNCH_SANITIZE)
    message(FATAL_ERROR "DLAUNCH_SANITIZE is '${DLAUNCH_SANITIZE}': use 'address' or 'thread'")
  endif()
endfunction()
