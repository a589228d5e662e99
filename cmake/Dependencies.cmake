# Everything dlaunch stands on. Required: Debian 12's packages (scripts/setup installs them).
# Optional: what some machines have; the rest builds and passes without it.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(LIBUV REQUIRED IMPORTED_TARGET libuv)
find_package(ZLIB REQUIRED)

find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(GLOO_INCLUDE_DIR gloo/context.h)
find_library(GLOO_LIBRARY gloo)
if(NOT GLOO_INCLUDE_DIR OR NOT GLOO_LIBRARY)
  message(STATUS "Gloo not found: the gloo backend is not built (Debian: libgloo-dev)")
endif()
