# The examples of the reference documents (000 to 004) as programs, with the values that these print. What needs
# neither RPC, nor DistributedDataParallel, nor a GPU.
if(NOT TARGET dlaunch_backend_gloo OR DLAUNCH_SANITIZE STREQUAL "thread")
  return()
endif()

function(dlaunch_reference_program program file)
  add_executable(${program} ${file})
  dlaunch_settings(${program})
  target_compile_options(${program} PRIVATE ${test_options})
  target_link_libraries(${program} PRIVATE dlaunch_runtime Threads::Threads)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(${program} dlaunch dlaunch_backend_gloo dlaunch_store_server_module)
endfunction()

# dlaunch_reference(file [RANKS n]). With RANKS the launcher starts the program so many times; without, it starts its
# processes itself.
function(dlaunch_reference file)
  cmake_parse_arguments(R "" "RANKS" "" ${ARGN})
  get_filename_component(name ${file} NAME_WE)
  set(program reference_${name})
  dlaunch_reference_program(${program} ${file})
  if(R_RANKS)
    add_test(NAME reference.${name} COMMAND dlaunch --nproc-per-node=${R_RANKS} $<TARGET_FILE:${program}>)
  else()
    add_test(NAME reference.${name} COMMAND ${program})
  endif()
  set_tests_properties(reference.${name} PROPERTIES TIMEOUT 120 LABELS runtime)
endfunction()

dlaunch_reference(reference/000_init.cpp)
dlaunch_reference(reference/000_stores.cpp)
dlaunch_reference(reference/000_collectives.cpp RANKS 2)
dlaunch_reference(reference/000_all_to_all.cpp RANKS 4)
dlaunch_reference(reference/000_objects.cpp RANKS 3)
dlaunch_reference(reference/000_device_mesh.cpp RANKS 8)
dlaunch_reference(reference/000_debugging.cpp)
dlaunch_reference(reference/002_backend_table.cpp RANKS 2)
dlaunch_reference(reference/003_template.cpp)
dlaunch_reference(reference/003_training.cpp RANKS 2)
dlaunch_reference(reference/004_outputs.cpp RANKS 4)

# The launch utility's own flags.
dlaunch_reference_program(reference_000_launch reference/000_launch.cpp)
add_test(NAME reference.000_launch_with_an_argument
  COMMAND dlaunch --pass-local-rank --nproc-per-node=2 $<TARGET_FILE:reference_000_launch> --arg1 argument)
add_test(NAME reference.000_launch_with_the_environment
  COMMAND dlaunch --use-env=True --nproc-per-node=2 $<TARGET_FILE:reference_000_launch> --arg1 environment)
set_tests_properties(reference.000_launch_with_an_argument reference.000_launch_with_the_environment
  PROPERTIES TIMEOUT 120 LABELS runtime)
