# Debian packages by `cpack -G DEB` (scripts/deb): dlaunch, libdlaunch0.2, libdlaunch-dev, python3-dlaunch. The library's package
# has the version in its name, as its file does: programs that are linked with different minor versions live side by side.
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(DLAUNCH_PACKAGER "The dlaunch authors <dlaunch@localhost>" CACHE STRING "Maintainer of the Debian packages: NAME <ADDRESS>")

# Only for that package: other installs find the package in the wheel.
set(python_dir lib/python3/dist-packages)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/python/dlaunch DESTINATION ${python_dir} COMPONENT python EXCLUDE_FROM_ALL
  PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/python/dlaunch-${PROJECT_VERSION}.dist-info DESTINATION ${python_dir} COMPONENT python
  EXCLUDE_FROM_ALL)

set(name_program dlaunch)
set(name_library libdlaunch${soversion})
set(name_development libdlaunch-dev)
set(name_python python3-dlaunch)
set(summary_program "launcher and elastic supervisor for distributed jobs")
set(summary_library "collectives and stores for distributed C++ and C programs")
set(summary_development "headers and manual of libdlaunch")
set(summary_python "PyTorch backend and numpy calls over libdlaunch")
set(text_program "dlaunch starts the worker processes of a job on each node, watches them and
 restarts them. It takes torchrun's place for C++ programs and PyTorch scripts.")
set(text_library "Process groups, collectives and messages between the workers of a job,
 over shared memory and TCP.")
set(text_development "What is needed to compile programs that use libdlaunch: the headers, files
 for CMake and pkg-config, and the manual pages of the library.")
set(text_python "Backend dlaunch of torch.distributed, the same calls on numpy arrays, and
 the launcher as a library.")

# Each package has the licence and the changes.
find_program(GZIP gzip)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(doc ${PROJECT_BINARY_DIR}/packages)
set(exact "${name_library} (= ${PROJECT_VERSION}-1)")
set(CPACK_COMPONENTS_ALL program library development python)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${exact}")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${exact}, python3 (>= 3.9), python3-numpy")
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
# What the packages of programs depend on that are linked with the library, and that the linker's cache learns of it.
file(WRITE ${doc}/shlibs "libdlaunch ${soversion} ${name_library} (>= ${PROJECT_VERSION})\n")
file(WRITE ${doc}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${doc}/shlibs ${doc}/triggers)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} C)
  set(package ${name_${component}})
  set(CPACK_DEBIAN_${C}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${C}_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_${C}_DESCRIPTION "${summary_${component}}\n${text_${component}}")
  set(CPACK_COMPONENT_${C}_DESCRIPTION "${summary_${component}}\n${text_${component}}")
  if(NOT component STREQUAL python AND NOT component STREQUAL development)
    set(CPACK_DEBIAN_${C}_PACKAGE_SHLIBDEPS ON)
  endif()
  set(CPACK_DEBIAN_${C}_PACKAGE_SECTION utils)
  if(GZIP)
    file(WRITE ${doc}/${package}/changelog
      "${package} (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- ${DLAUNCH_PACKAGER}  ${date}\n")
    execute_process(COMMAND ${GZIP} -9nc ${doc}/${package}/changelog OUTPUT_FILE ${doc}/${package}/changelog.Debian.gz
      COMMAND_ERROR_IS_FATAL ANY)
    configure_file(${PROJECT_SOURCE_DIR}/LICENSE ${doc}/${package}/copyright COPYONLY)
    install(FILES ${doc}/${package}/changelog.Debian.gz ${doc}/${package}/copyright
      DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
  endif()
endforeach()
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)

# The program is linked statically on purpose: one file runs on each node, and starts in half the time.
file(WRITE ${doc}/overrides "dlaunch: statically-linked-binary\ndlaunch: embedded-library\n")
install(FILES ${doc}/overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME dlaunch COMPONENT program EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME dlaunch)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_NAME} built using CMake")  # CPack's own, which it does not put before each package's
set(CPACK_PACKAGE_VENDOR "The dlaunch authors")
set(CPACK_PACKAGE_CONTACT "${DLAUNCH_PACKAGER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/CompressManual.cmake)
include(CPack)
