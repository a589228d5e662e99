# The thirty failures: programs that stage them, and the table of what the last screen says of each
# (tests/failures/table.py prints it).
if(TARGET dlaunch_backend_gloo)
  add_executable(trainer failures/trainer.cpp)
  dlaunch_settings(trainer)
  target_link_libraries(trainer PRIVATE dlaunch_runtime)
  set_target_properties(trainer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(trainer dlaunch dlaunch_backend_gloo)
  dlaunch_script_tests(NAME failures_of_workers SCRIPT failures/workers_cases_test.py BASE Failures)
  dlaunch_script_tests(NAME failures_of_waiting SCRIPT failures/waiting_cases_test.py BASE Failures)
  dlaunch_script_tests(NAME failures_of_limits SCRIPT failures/limits_cases_test.py BASE Failures)
  dlaunch_script_tests(NAME failures_of_nodes SCRIPT failures/nodes_cases_test.py BASE Failures)
  # The kernel counts the kills of the whole machine.
  get_directory_property(tests TESTS)
  list(FILTER tests INCLUDE REGEX "^failures_of_workers\\.Workers\\.test_04_")
  set_tests_properties(${tests} PROPERTIES RESOURCE_LOCK out_of_memory)
endif()
