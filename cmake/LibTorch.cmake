# dlaunch_find_libtorch(): sets DLAUNCH_TORCH_FOUND; then there is the target dlaunch_libtorch, and dlaunch_libtorch_cuda if it has
# CUDA and the headers of CUDA are there. LibTorch is Debian's libtorch-dev,
# or that of CMAKE_PREFIX_PATH: its own folder, or the folder `torch` of a wheel, whose strings are those of our compiler (its C++11
# ABI) in PyPI's wheels from 2.7 on.
function(dlaunch_find_libtorch)
  set(DLAUNCH_TORCH_FOUND OFF PARENT_SCOPE)
  find_path(DLAUNCH_TORCH_CONFIG TorchConfig.cmake HINTS ${Torch_DIR}
    PATH_SUFFIXES share/cmake/Torch Torch lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch
    DOC "the folder of LibTorch's TorchConfig.cmake")
  if(NOT DLAUNCH_TORCH_CONFIG)
    return()
  endif()
  cmake_path(SET folder NORMALIZE ${DLAUNCH_TORCH_CONFIG}/../../..)  # share/cmake/Torch
  if(EXISTS ${folder}lib/libtorch_cuda.so)
    # Its find_package() ends the configuration if CUDA's compiler is not there. Of the GPU's part only the streams are used
    # here.
    include(${DLAUNCH_TORCH_CONFIG}/TorchConfigVersion.cmake)
    set(Torch_VERSION ${PACKAGE_VERSION})
    set(libraries ${folder}lib/libtorch_cpu.so ${folder}lib/libc10.so)
    set(includes ${folder}include ${folder}include/torch/csrc/api/include)
  else()
    find_package(Torch QUIET PATHS ${DLAUNCH_TORCH_CONFIG} NO_DEFAULT_PATH)
    set(libraries ${TORCH_LIBRARIES})
    set(includes "")
  endif()
  if(NOT Torch_VERSION VERSION_GREATER_EQUAL 1.13)
    return()
  endif()
  if(Torch_VERSION VERSION_LESS 2 AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()  # Clang rejects its headers as C++20: they use a vector of a type that is not complete yet
  endif()
  add_library(dlaunch_libtorch INTERFACE)
  set_target_properties(dlaunch_libtorch PROPERTIES DLAUNCH_VERSION ${Torch_VERSION})
  target_link_libraries(dlaunch_libtorch INTERFACE ${libraries})
  target_include_directories(dlaunch_libtorch SYSTEM INTERFACE ${includes})  # not ours to warn about
  if(EXISTS ${folder}lib/libtorch_cpu.so)  # it is not the system's
    target_link_options(dlaunch_libtorch INTERFACE LINKER:-rpath,${folder}lib)
  endif()
  if(EXISTS ${folder}lib/libc10_cuda.so AND DLAUNCH_CUDA_FOUND)
    add_library(dlaunch_libtorch_cuda INTERFACE)
    target_link_libraries(dlaunch_libtorch_cuda INTERFACE ${folder}lib/libc10_cuda.so)
    target_include_directories(dlaunch_libtorch_cuda SYSTEM INTERFACE ${CUDA_INCLUDE_DIR})
  endif()
  message(STATUS "LibTorch ${Torch_VERSION} in ${folder}")
  set(DLAUNCH_TORCH_FOUND ON PARENT_SCOPE)
endfunction()

# dlaunch_precompile_libtorch(target first): LibTorch's headers, which take two thirds of the time in which a short program is
# compiled, are read once for all targets of this `first`, which is the first one called for. They are compiled in the same way.
function(dlaunch_precompile_libtorch target first)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)  # for ccache
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE <torch/torch.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()
