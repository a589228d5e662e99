# Everything dlaunch stands on. Required: Debian 12's packages (scripts/setup installs them).
# Optional: what some machines have; the rest builds and passes without it.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json REQUIRED)

# The dlaunch program needs no library where it runs, so it starts in half the time and one file can be copied to any
# node: spdlog and fmt are compiled in, libuv and the C library (below) are linked statically where their archives are there.
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
add_library(dlaunch_spdlog INTERFACE)
target_compile_definitions(dlaunch_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_include_directories(dlaunch_spdlog SYSTEM INTERFACE $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(dlaunch_spdlog INTERFACE fmt::fmt-header-only Threads::Threads)

pkg_check_modules(LIBUV REQUIRED IMPORTED_TARGET libuv)
find_library(LIBUV_ARCHIVE NAMES libuv_a.a libuv.a)
add_library(dlaunch_libuv INTERFACE)
if(LIBUV_ARCHIVE)
  target_include_directories(dlaunch_libuv SYSTEM INTERFACE ${LIBUV_INCLUDE_DIRS})
  target_link_libraries(dlaunch_libuv INTERFACE ${LIBUV_ARCHIVE} Threads::Threads ${CMAKE_DL_LIBS})
else()
  target_link_libraries(dlaunch_libuv INTERFACE PkgConfig::LIBUV Threads::Threads)
endif()
# Nettle: HMAC, constant-time comparison and base64. The archive is preferred, so that libdlaunch.so, too, needs no
# further library where it runs.
find_path(NETTLE_INCLUDE_DIR nettle/hmac.h REQUIRED)
find_library(NETTLE_LIBRARY NAMES libnettle.a nettle REQUIRED)
add_library(dlaunch_nettle INTERFACE)
target_include_directories(dlaunch_nettle SYSTEM INTERFACE ${NETTLE_INCLUDE_DIR})
target_link_libraries(dlaunch_nettle INTERFACE ${NETTLE_LIBRARY})
find_package(ZLIB REQUIRED)

# TLS (--tls): the archives where dlaunch is linked statically, the shared library for libdlaunch's module.
find_package(OpenSSL 3.0)
if(OpenSSL_FOUND)
  get_filename_component(OPENSSL_DIR ${OPENSSL_SSL_LIBRARY} DIRECTORY)
  find_library(OPENSSL_SSL_ARCHIVE libssl.a HINTS ${OPENSSL_DIR})
  find_library(OPENSSL_CRYPTO_ARCHIVE libcrypto.a HINTS ${OPENSSL_DIR})
else()
  message(STATUS "OpenSSL not found: --tls is refused (Debian: libssl-dev)")
endif()

# The GNU C library's archive, to link into dlaunch (launcher/startup/static_names.cpp uses what only that library has).
option(DLAUNCH_STATIC "link dlaunch statically where its libraries' archives are there" ON)
set(DLAUNCH_LINKS_STATICALLY OFF)
if(DLAUNCH_STATIC AND NOT DLAUNCH_SANITIZE AND LIBUV_ARCHIVE AND NETTLE_LIBRARY MATCHES "\\.a$")
  include(CheckCXXSourceCompiles)
  set(DLAUNCH_STATIC_LINK_OPTIONS -static-pie -Wl,--wrap=getaddrinfo -Wl,--wrap=getpwuid -Wl,--no-warnings)
  set(CMAKE_REQUIRED_FLAGS -fPIE)
  set(CMAKE_REQUIRED_LINK_OPTIONS ${DLAUNCH_STATIC_LINK_OPTIONS})
  check_cxx_source_compiles("#include <gnu/libc-version.h>\n#include <string>\nint main() { return std::string(gnu_get_libc_version()).empty(); }"
    DLAUNCH_STATIC_LINK_WORKS)
  unset(CMAKE_REQUIRED_FLAGS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  set(DLAUNCH_LINKS_STATICALLY ${DLAUNCH_STATIC_LINK_WORKS})
endif()

find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(GLOO_INCLUDE_DIR gloo/context.h)
find_library(GLOO_LIBRARY gloo)
if(NOT GLOO_INCLUDE_DIR OR NOT GLOO_LIBRARY)
  message(STATUS "Gloo not found: collective_bench, which compares with it, is not built (Debian: libgloo-dev)")
endif()

# The backend "mpi": a module for Open MPI and one for MPICH, as far as they are there (Debian's are side by side); else one
# for the MPI that CMake finds (MPI_C_COMPILER names another). The compilers' wrappers come with the packages that run MPI
# programs, mpi.h only with the development packages: FindMPI compiles with it.
option(DLAUNCH_MPI "build the backend mpi where there is an MPI, and dlaunch-pmix where there is libpmix" ON)
if(DLAUNCH_MPI)
  pkg_check_modules(OPEN_MPI QUIET IMPORTED_TARGET ompi-c)
  pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
  if(NOT OPEN_MPI_FOUND AND NOT MPICH_FOUND)
    find_package(MPI QUIET COMPONENTS C)
  endif()
endif()
if(NOT OPEN_MPI_FOUND AND NOT MPICH_FOUND AND NOT MPI_C_FOUND)
  message(STATUS "no MPI: the backend mpi is not built (Debian: libopenmpi-dev or libmpich-dev)")
endif()

# PMIx for Open MPI's programs under dlaunch (agent/pmix).
if(DLAUNCH_MPI)
  pkg_check_modules(PMIX QUIET IMPORTED_TARGET pmix)
endif()
if(NOT PMIX_FOUND)
  message(STATUS "no libpmix: Open MPI's programs need mpirun (Debian: libpmix-dev)")
endif()

# CUDA tensors on backends for CPU tensors, and the backend "nccl": the headers of CUDA's runtime and of NCCL. The libraries are found
# when a program runs.
option(DLAUNCH_CUDA "build what CUDA tensors need where there are the headers of CUDA" ON)
option(DLAUNCH_NCCL "build the backend nccl where there are the headers of CUDA and NCCL" ON)
set(DLAUNCH_CUDA_FOUND OFF)
set(DLAUNCH_NCCL_FOUND OFF)
if(DLAUNCH_CUDA)
  find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
  if(CUDA_INCLUDE_DIR)
    file(STRINGS ${CUDA_INCLUDE_DIR}/cuda_runtime_api.h line REGEX "^#define CUDART_VERSION +[0-9]+")
    string(REGEX MATCH "[0-9]+" CUDA_MAJOR_VERSION "${line}")
    math(EXPR CUDA_MAJOR_VERSION "${CUDA_MAJOR_VERSION} / 1000")
    if(CUDA_MAJOR_VERSION GREATER_EQUAL 11)
      set(DLAUNCH_CUDA_FOUND ON)
    endif()
  endif()
endif()
if(DLAUNCH_CUDA_FOUND AND DLAUNCH_NCCL)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ${CUDA_INCLUDE_DIR} PATH_SUFFIXES include)
  if(NCCL_INCLUDE_DIR)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h line REGEX "^#define NCCL_M(AJOR|INOR) +[0-9]+")
    string(REGEX REPLACE "[^0-9;]" "" NCCL_HEADER_VERSION "${line}")
    string(REPLACE ";" "." NCCL_HEADER_VERSION "${NCCL_HEADER_VERSION}")
    if(NCCL_HEADER_VERSION VERSION_GREATER_EQUAL 2.19)
      set(DLAUNCH_NCCL_FOUND ON)
    endif()
  endif()
endif()
if(NOT DLAUNCH_CUDA_FOUND)
  message(STATUS "no headers of CUDA 11 or newer: gloo, shm and mpi do not take CUDA tensors (CUDA_HOME)")
endif()
if(NOT DLAUNCH_NCCL_FOUND)
  message(STATUS "no headers of CUDA 11 and NCCL 2.19 or newer: the backend nccl is not built (CUDA_HOME, NCCL_HOME)")
endif()
