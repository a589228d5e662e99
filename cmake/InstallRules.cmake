# cmake --install: bin, lib, include, man. In a wheel (pyproject.toml) the prefix is that of the Python that installs it. Each
# file belongs to a component, which is a Debian package (Packages.cmake); what names none belongs to `library`.

if(SKBUILD)
  set(CMAKE_INSTALL_BINDIR ${SKBUILD_SCRIPTS_DIR})
endif()
install(TARGETS dlaunch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(TARGET dlaunch_with_tls)
  install(TARGETS dlaunch_with_tls RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/dlaunch COMPONENT program)
endif()
if(SKBUILD)  # a wheel holds no links: for programs that are linked with -ldlaunch there is a linker script
  install(TARGETS dlaunch_runtime EXPORT dlaunch-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/libdlaunch.so "INPUT(libdlaunch.so.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})\n")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libdlaunch.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
else()
  install(TARGETS dlaunch_runtime EXPORT dlaunch-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
    NAMELINK_COMPONENT development)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/dlaunch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
function(install_manual section component)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component}
    FILES_MATCHING PATTERN "*.${section}")
endfunction()
install_manual(1 program)
install_manual(3 development)
install_manual(5 program)
install_manual(7 program)

# For those who build against the library: find_package(dlaunch), and pkg-config.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dlaunch)
install(EXPORT dlaunch-targets FILE dlaunch-config.cmake NAMESPACE dlaunch:: DESTINATION ${package_dir} COMPONENT development)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/dlaunch-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dlaunch-config-version.cmake DESTINATION ${package_dir} COMPONENT development)
# From lib/<architecture>/pkgconfig to the prefix.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/dlaunch.pc.in ${CMAKE_CURRENT_BINARY_DIR}/dlaunch.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dlaunch.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# What the program itself prints for each shell.
function(install_completion shell directory name)
  install(CODE "
    execute_process(COMMAND \"$<TARGET_FILE:dlaunch>\" completion ${shell} OUTPUT_FILE \"${CMAKE_BINARY_DIR}/completion.${shell}\"
      COMMAND_ERROR_IS_FATAL ANY)
    file(INSTALL \"${CMAKE_BINARY_DIR}/completion.${shell}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${directory}\" RENAME \"${name}\")"
    COMPONENT program)
endfunction()
install_completion(bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions dlaunch)
install_completion(zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _dlaunch)
install_completion(fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d dlaunch.fish)
