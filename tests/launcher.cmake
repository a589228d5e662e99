dlaunch_test(NAME launcher_test LABELS unit LIBS dlaunch_launcher nlohmann_json::nlohmann_json
  SOURCES
    launcher/commands/command_parser_test.cpp
    launcher/commands/commands_test.cpp
    launcher/commands/completion_test.cpp
    launcher/commands/debugger_output_test.cpp
    launcher/commands/endpoint_status_test.cpp
    launcher/commands/flight_record_test.cpp
    launcher/commands/innermost_frames_test.cpp
    launcher/commands/inspection_test.cpp
    launcher/commands/torch_flight_test.cpp
    launcher/commands/worker_socket_test.cpp
    launcher/commands/call_dump_test.cpp
    launcher/commands/job_dump_test.cpp
    launcher/commands/job_trace_test.cpp
    launcher/commands/job_list_test.cpp
    launcher/commands/job_table_test.cpp
    launcher/commands/log_locator_test.cpp
    launcher/commands/log_reader_test.cpp
    launcher/commands/pickle_test.cpp
    launcher/commands/process_handle_test.cpp
    launcher/commands/process_stacks_test.cpp
    launcher/commands/process_table_test.cpp
    launcher/commands/store_options_test.cpp
    launcher/commands/top_view_test.cpp
    launcher/console/await_readers_test.cpp
    launcher/console/command_io_test.cpp
    launcher/console/output_loss_test.cpp
    launcher/console/stop_signals_test.cpp
    launcher/doctor/debugging_test.cpp
    launcher/doctor/finding_test.cpp
    launcher/doctor/link_probe_test.cpp
    launcher/doctor/link_text_test.cpp
    launcher/doctor/link_verdict_test.cpp
    launcher/doctor/peer_list_test.cpp
    launcher/doctor/probe_session_test.cpp
    launcher/doctor/remote_probe_test.cpp
    launcher/flags/command_line_test.cpp
    launcher/flags/config_file_test.cpp
    launcher/flags/flag_table_test.cpp
    launcher/flags/settings_test.cpp
    launcher/flags/shell_words_test.cpp
    launcher/flags/spelling_test.cpp
    launcher/flags/value_parsers_test.cpp
    launcher/machine/collect_facts_test.cpp
    launcher/machine/interpreter_test.cpp
    launcher/machine/local_addresses_test.cpp
    launcher/machine/look_up_test.cpp
    launcher/machine/machine_test.cpp
    launcher/machine/mpi_library_test.cpp
    launcher/machine/mpi_proxy_test.cpp
    launcher/machine/port_owner_test.cpp
    launcher/machine/process_limits_test.cpp
    launcher/machine/program_file_test.cpp
    launcher/machine/program_output_test.cpp
    launcher/machine/sanitize_startup_test.cpp
    launcher/machine/slurm_controller_test.cpp
    launcher/node/containment_test.cpp
    launcher/node/final_report_test.cpp
    launcher/node/node_agent_test.cpp
    launcher/node/node_output_test.cpp
    launcher/node/node_process_test.cpp
    launcher/node/secret_test.cpp
    launcher/node/serve_test.cpp
    launcher/node/tls_test.cpp
    launcher/node/unfit_node_test.cpp
    launcher/node/wall_clock_test.cpp
    launcher/page/page_test.cpp
    launcher/options/binding_test.cpp
    launcher/options/check_combinations_test.cpp
    launcher/options/dry_run_test.cpp
    launcher/options/failure_flags_test.cpp
    launcher/options/lifeline_terms_test.cpp
    launcher/options/log_flags_test.cpp
    launcher/options/options_from_settings_test.cpp
    launcher/options/options_test.cpp
    launcher/options/plan_test.cpp
    launcher/options/rdzv_conf_test.cpp
    launcher/options/settings_reader_test.cpp
    launcher/options/version_text_test.cpp
    launcher/remote/host_file_test.cpp
    launcher/remote/local_host_test.cpp
    launcher/remote/remote_dry_run_test.cpp
    launcher/remote/remote_job_test.cpp
    launcher/remote/remote_plan_test.cpp
    launcher/remote/remote_protocol_test.cpp
    launcher/remote/remote_runner_test.cpp
    launcher/remote/piped_process_test.cpp
    launcher/remote/relay_protocol_test.cpp
    launcher/remote/start_tree_test.cpp
    launcher/remote/remote_start_simulation_test.cpp
    launcher/remote/ssh_diagnosis_test.cpp
    launcher/report/clock_time_test.cpp
    launcher/report/event_log_test.cpp
    launcher/report/report_file_test.cpp
    launcher/report/report_test.cpp
    launcher/report/torchelastic_events_test.cpp
    launcher/scheduler/host_list_test.cpp
    launcher/scheduler/job_port_test.cpp
    launcher/scheduler/pod_name_test.cpp
    launcher/scheduler/scheduler_allocation_test.cpp
    launcher/scheduler/scheduler_flux_test.cpp
    launcher/scheduler/scheduler_kubernetes_test.cpp
    launcher/scheduler/scheduler_lsf_test.cpp
    launcher/scheduler/scheduler_mpi_test.cpp
    launcher/scheduler/scheduler_pbs_test.cpp
    launcher/scheduler/scheduler_slurm_test.cpp
    launcher/scheduler/scheduler_test.cpp
    launcher/scheduler/slurm_node_test.cpp
    launcher/startup/name_services_test.cpp
    launcher/topology/accelerators_test.cpp
    launcher/topology/cpu_list_test.cpp
    launcher/topology/topology_test.cpp)
target_compile_definitions(launcher_test PRIVATE DLAUNCH_VERSION="${PROJECT_VERSION}")
# Each program of these rooms compiles this one source, with OpenSSL or without.
add_library(launcher_test_tls OBJECT ${PROJECT_SOURCE_DIR}/launcher/node/tls.cpp)
dlaunch_settings(launcher_test_tls)
target_link_libraries(launcher_test_tls PRIVATE dlaunch_launcher_node)
if(OpenSSL_FOUND)
  target_compile_definitions(launcher_test_tls PUBLIC DLAUNCH_HAS_TLS)
  target_link_libraries(launcher_test_tls PUBLIC dlaunch_tls)
endif()
target_link_libraries(launcher_test PRIVATE launcher_test_tls)

# What dlaunch doctor reports of GPUs, on the texts of machines that have them.
dlaunch_test(NAME gpu_doctor_test LABELS unit LIBS dlaunch_launcher_doctor nlohmann_json::nlohmann_json
  SOURCES
    launcher/doctor/gpu_json_test.cpp
    launcher/doctor/gpu_links_test.cpp
    launcher/doctor/gpu_query_test.cpp
    launcher/doctor/gpu_verdict_test.cpp
    launcher/doctor/nccl_text_test.cpp
    launcher/doctor/nvidia_text_test.cpp)

dlaunch_test(NAME lifeline_test LABELS unit LIBS dlaunch_launcher_remote SOURCES launcher/remote/lifeline_test.cpp)

# With dlaunch itself as the relay.
dlaunch_test(NAME host_tree_test LABELS unit LIBS dlaunch_launcher_remote SOURCES launcher/remote/host_tree_test.cpp)
add_dependencies(host_tree_test dlaunch)

# dlaunch itself, with real processes.
dlaunch_script_tests(NAME launch SCRIPT process/launch_test.py BASE Launch)
dlaunch_script_tests(NAME settings SCRIPT process/settings_test.py BASE Launch)
dlaunch_script_tests(NAME mistakes SCRIPT process/mistakes_test.py BASE Launch)
dlaunch_script_tests(NAME nodes SCRIPT process/nodes_test.py BASE Launch)
dlaunch_script_tests(NAME torchrun SCRIPT process/torchrun_test.py BASE Launch)
dlaunch_script_tests(NAME write_commit SCRIPT process/write_commit_test.py BASE unittest.TestCase)
dlaunch_script_tests(NAME store_command SCRIPT process/store_test.py BASE StoreCommand)
dlaunch_script_tests(NAME secret SCRIPT process/secret_test.py BASE Secret)
dlaunch_script_tests(NAME commands SCRIPT process/commands_test.py BASE Commands)
dlaunch_script_tests(NAME output SCRIPT process/output_test.py BASE Output)
dlaunch_script_tests(NAME readers SCRIPT process/readers_test.py BASE Output)
dlaunch_script_tests(NAME logs SCRIPT process/logs_test.py BASE Output)
dlaunch_script_tests(NAME failure SCRIPT process/failure_test.py BASE Failure)
# The kernel counts such kills for the whole machine.
get_directory_property(tests TESTS)
list(FILTER tests INCLUDE REGEX "^failure\\.OutOfMemory\\.")
set_tests_properties(${tests} PROPERTIES RESOURCE_LOCK out_of_memory)
dlaunch_script_tests(NAME last_screen SCRIPT process/last_screen_test.py BASE LastScreen)
dlaunch_script_tests(NAME timer SCRIPT process/timer_test.py BASE Timers)
dlaunch_script_tests(NAME cleanliness SCRIPT process/cleanliness_test.py BASE Cleanliness)
dlaunch_script_tests(NAME elastic SCRIPT process/elastic_test.py BASE Elastic)
dlaunch_script_tests(NAME failover SCRIPT process/failover_test.py BASE Elastic)
dlaunch_script_tests(NAME etcd SCRIPT process/etcd_test.py BASE Elastic)
dlaunch_script_tests(NAME one_world SCRIPT process/one_world_test.py BASE Witnessed)
dlaunch_script_tests(NAME chaos SCRIPT process/chaos_test.py BASE Elastic)
# Training takes ten times as long there, and the faults last no longer for that.
set_tests_properties(chaos.Chaos.test_training_ends_as_it_would_have_otherwise PROPERTIES LABELS "process;unsanitized" TIMEOUT 600)
if(TARGET dlaunch_backend_gloo)
  add_executable(all_reduce_worker process/all_reduce_worker.cpp)
  add_executable(crossing_worker process/crossing_worker.cpp)
  foreach(worker all_reduce_worker crossing_worker)
    dlaunch_settings(${worker})
    target_link_libraries(${worker} PRIVATE dlaunch_runtime)
    set_target_properties(${worker} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_dependencies(${worker} dlaunch dlaunch_backend_gloo)
  endforeach()
  add_executable(long_caller process/long_caller.cpp)
  dlaunch_settings(long_caller)
  target_link_libraries(long_caller PRIVATE dlaunch_runtime)
  set_target_properties(long_caller PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(long_caller dlaunch_store_server_module)
  dlaunch_script_tests(NAME rpc_hosts SCRIPT process/rpc_hosts_test.py BASE unittest.TestCase)
  dlaunch_script_tests(NAME links SCRIPT process/links_test.py BASE unittest.TestCase)
  dlaunch_script_tests(NAME interfaces SCRIPT process/interfaces_test.py BASE unittest.TestCase)
  foreach(source process/crasher.cpp process/thrower.cpp)
    get_filename_component(program ${source} NAME_WE)
    add_executable(${program} ${source})
    dlaunch_settings(${program})
    target_link_libraries(${program} PRIVATE dlaunch_runtime)
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_dependencies(${program} dlaunch dlaunch_backend_gloo train_mnist)
  endforeach()
  dlaunch_script_tests(NAME cause SCRIPT process/cause_test.py BASE Cause)
endif()
# Its nodes are given two seconds to answer, which is short for what takes ten times as long.
set_tests_properties(failover.ThreeEndpoints.test_no_worker_outlives_the_time_in_which_its_node_may_be_missed
  PROPERTIES LABELS "process;unsanitized")
dlaunch_script_tests(NAME odd_start SCRIPT process/odd_start_test.py BASE OddStart)
dlaunch_script_tests(NAME container SCRIPT process/container_test.py BASE unittest.TestCase)
dlaunch_script_tests(NAME kubernetes SCRIPT process/kubernetes_test.py BASE Kubernetes)
dlaunch_script_tests(NAME hosts SCRIPT process/hosts_test.py BASE Hosts)
dlaunch_script_tests(NAME ssh SCRIPT process/ssh_test.py BASE Ssh)
dlaunch_script_tests(NAME doctor SCRIPT process/doctor_test.py BASE Doctor)
if(DLAUNCH_LINKS_STATICALLY)
  dlaunch_script_tests(NAME names SCRIPT process/names_test.py BASE Names)
endif()
dlaunch_script_tests(NAME slurm SCRIPT process/slurm_test.py BASE unittest.TestCase BY_CLASS)
# A sanitized dlaunch needs more memory than the jobs there have.
set_tests_properties(slurm.Cgroups PROPERTIES RESOURCE_LOCK out_of_memory LABELS "process;unsanitized")
dlaunch_script_tests(NAME hang SCRIPT process/hang_test.py BASE Hang)
dlaunch_script_tests(NAME stragglers SCRIPT process/stragglers_test.py BASE Hang)
dlaunch_script_tests(NAME idle SCRIPT process/idle_test.py BASE Idle)
  dlaunch_script_tests(NAME page SCRIPT process/page_test.py BASE Page)
# The same program with each MPI that is there, by its own compiler: nothing of dlaunch links MPI for this.
dlaunch_script_tests(NAME mpi_launch SCRIPT process/mpi_test.py BASE Launch)
get_directory_property(mpi_launch_tests TESTS)
list(FILTER mpi_launch_tests INCLUDE REGEX "^mpi_launch\\.")
set_property(TEST ${mpi_launch_tests} APPEND PROPERTY ENVIRONMENT
  "LSAN_OPTIONS=print_suppressions=0:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/process/libpmix.supp")
foreach(mpi mpich openmpi)
  string(TOUPPER ${mpi} name)
  find_program(DLAUNCH_MPICC_${name} mpicc.${mpi})
  if(DLAUNCH_MPICC_${name})
    set(program ${CMAKE_BINARY_DIR}/tests/mpi_program_${mpi})
    add_custom_command(OUTPUT ${program} COMMAND ${DLAUNCH_MPICC_${name}} -o ${program} ${CMAKE_CURRENT_SOURCE_DIR}/process/mpi_program.c
      DEPENDS process/mpi_program.c VERBATIM)
    add_custom_target(build_${mpi}_program ALL DEPENDS ${program})
    set_property(TEST ${mpi_launch_tests} APPEND PROPERTY ENVIRONMENT "DLAUNCH_TEST_${name}=${program}")
  endif()
endforeach()
dlaunch_script_tests(NAME trace SCRIPT process/trace_test.py BASE Hang)
dlaunch_script_tests(NAME drop_in SCRIPT process/drop_in_test.py BASE DropIn)
dlaunch_script_tests(NAME terminal SCRIPT process/terminal_test.py BASE Terminal)
