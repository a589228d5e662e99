# The runtime's own code, over threads.
dlaunch_test(NAME runtime_test THREADED LABELS runtime TIMEOUT 120 LIBS dlaunch_runtime_core dlaunch_mailbox nlohmann_json::nlohmann_json
  SOURCES
    runtime/api/any_test.cpp
    runtime/api/backend_name_test.cpp
    runtime/api/breakpoint_test.cpp
    runtime/api/debug_test.cpp
    runtime/api/device_mesh_test.cpp
    runtime/api/error_test.cpp
    runtime/api/float8_test.cpp
    runtime/api/object_test.cpp
    runtime/api/owned_tensor_test.cpp
    runtime/api/profiling_test.cpp
    runtime/api/reference_api_test.cpp
    runtime/api/spawn_message_test.cpp
    runtime/api/spawn_process_test.cpp
    runtime/api/tensor_test.cpp
    runtime/api/threads_test.cpp
    runtime/backend/backend_test.cpp
    runtime/backend/collective_backend_test.cpp
    runtime/backend/mailbox_test.cpp
    runtime/backend/module_file_test.cpp
    runtime/backend/operation_queue_test.cpp
    runtime/backend/registry_test.cpp
    runtime/base/close_on_fork_test.cpp
    runtime/base/comma_separated_test.cpp
    runtime/base/deadline_queue_test.cpp
    runtime/base/deadline_test.cpp
    runtime/base/errors_test.cpp
    runtime/base/function_ref_test.cpp
    runtime/base/own_process_test.cpp
    runtime/base/process_end_test.cpp
    runtime/base/process_environment_test.cpp
    runtime/base/short_array_test.cpp
    runtime/base/slot_queue_test.cpp
    runtime/base/start_thread_test.cpp
    runtime/base/task_test.cpp
    runtime/base/stragglers_test.cpp
    runtime/collectives/all_gather_test.cpp
    runtime/collectives/all_reduce_test.cpp
    runtime/collectives/all_to_all_test.cpp
    runtime/collectives/barrier_test.cpp
    runtime/collectives/broadcast_test.cpp
    runtime/collectives/coalesced_test.cpp
    runtime/collectives/collective_fingerprint_test.cpp
    runtime/collectives/collectives_test.cpp
    runtime/collectives/exchange_test.cpp
    runtime/collectives/gather_test.cpp
    runtime/collectives/message_header_test.cpp
    runtime/collectives/reduce_scatter_test.cpp
    runtime/collectives/reduce_to_root_test.cpp
    runtime/collectives/ring_schedule_test.cpp
    runtime/collectives/workspace_test.cpp
    runtime/group/aliasing_test.cpp
    runtime/group/argument_checks_test.cpp
    runtime/group/backend_choice_test.cpp
    runtime/group/call_comparison_test.cpp
    runtime/group/first_failure_test.cpp
    runtime/group/group_collectives_test.cpp
    runtime/group/group_plan_test.cpp
    runtime/group/group_rendezvous_test.cpp
    runtime/group/group_test.cpp
    runtime/group/message_flow_test.cpp
    runtime/group/new_group_test.cpp
    runtime/group/point_to_point_test.cpp
    runtime/group/profiler_test.cpp
    runtime/group/splits_test.cpp
    runtime/group/stuck_messages_test.cpp
    runtime/group/tensor_parts_test.cpp
    runtime/group/when_all_test.cpp
    runtime/group/work_test.cpp
    runtime/group/world_test.cpp
    runtime/point_to_point/envelope_test.cpp
    runtime/point_to_point/matching_test.cpp
    runtime/point_to_point/outbox_test.cpp
    runtime/point_to_point/pending_messages_test.cpp
    runtime/point_to_point/thread_on_demand_test.cpp
    runtime/point_to_point/transfers_test.cpp
    runtime/record/call_stack_test.cpp
    runtime/record/trace_file_test.cpp
    runtime/reduce/integer_avg_test.cpp
    runtime/reduce/reduce_loops_test.cpp
    runtime/reduce/reduce_test.cpp
    runtime/rendezvous/bootstrap_test.cpp
    runtime/rendezvous/failure_detector_test.cpp
    runtime/rendezvous/liveness_socket_test.cpp
    runtime/rendezvous/local_address_test.cpp
    runtime/rendezvous/loss_propagation_test.cpp
    runtime/rendezvous/rendezvous_test.cpp
    runtime/rendezvous/served_store_test.cpp
    runtime/rendezvous/store_barrier_test.cpp
    runtime/shared_memory/process_end_test.cpp)

# The collectives and messages in shared memory, over threads.
dlaunch_test(NAME shared_collectives_test THREADED LABELS runtime TIMEOUT 120 LIBS dlaunch_runtime_core dlaunch_mailbox
  SOURCES
    runtime/base/call_mutex_test.cpp
    runtime/base/hazard_pointer_test.cpp
    runtime/base/quick_clock_test.cpp
    runtime/hierarchical_collectives/hierarchical_call_test.cpp
    runtime/hierarchical_collectives/rows_test.cpp
    runtime/point_to_point/memory_messenger_test.cpp
    runtime/point_to_point/memory_protocol_ends_test.cpp
    runtime/point_to_point/memory_protocol_test.cpp
    runtime/shared_collectives/reduction_order_test.cpp
    runtime/shared_collectives/shared_call_test.cpp
    runtime/shared_memory/byte_rings_test.cpp
    runtime/shared_memory/copy_test.cpp
    runtime/shared_memory/direct_read_test.cpp
    runtime/shared_memory/extents_test.cpp
    runtime/shared_memory/group_memory_test.cpp
    runtime/shared_memory/host_map_test.cpp
    runtime/shared_memory/memory_limit_test.cpp
    runtime/shared_memory/message_rings_test.cpp
    runtime/shared_memory/processors_test.cpp
    runtime/shared_memory/rank_processors_test.cpp
    runtime/shared_memory/segment_test.cpp
    runtime/shared_memory/shared_heap_test.cpp)

# Data-parallel training, over threads.
dlaunch_test(NAME data_parallel_test THREADED LABELS runtime LIBS dlaunch_runtime_core dlaunch_mailbox
  SOURCES
    runtime/data_parallel/bucket_memory_test.cpp
    runtime/data_parallel/comm_hooks_test.cpp
    runtime/data_parallel/data_partitioner_test.cpp
    runtime/data_parallel/distributed_sampler_test.cpp
    runtime/data_parallel/gradient_reducer_test.cpp
    runtime/data_parallel/permutation_test.cpp
    runtime/data_parallel/reducer_agreement_test.cpp
    runtime/data_parallel/reducer_errors_test.cpp
    runtime/gradients/agreement_test.cpp
    runtime/gradients/bucket_assignment_test.cpp
    runtime/gradients/shard_layout_test.cpp
    runtime/gradients/step_state_test.cpp
    runtime/gradients/step_times_test.cpp
    runtime/gradients/unit_schedule_test.cpp)

# Remote calls.
dlaunch_test(NAME rpc_protocol_test LABELS unit LIBS dlaunch_runtime_core
  SOURCES
    runtime/rpc_protocol/call_deadlines_test.cpp
    runtime/rpc_protocol/call_message_test.cpp
    runtime/rpc_protocol/call_table_test.cpp
    runtime/rpc_protocol/message_reader_test.cpp
    runtime/rpc_protocol/number_table_test.cpp
    runtime/rpc_protocol/part_head_test.cpp
    runtime/rpc_protocol/reference_leases_test.cpp
    runtime/rpc_protocol/reference_simulation_test.cpp
    runtime/rpc_protocol/reference_table_test.cpp
    runtime/rpc_protocol/send_queue_test.cpp
    runtime/rpc_protocol/stripe_head_test.cpp
    runtime/rpc_protocol/stripe_queue_test.cpp
    runtime/rpc_protocol/stripe_reader_test.cpp
    runtime/rpc_protocol/stripe_table_test.cpp
    runtime/rpc_protocol/tensor_head_test.cpp)

dlaunch_test(NAME rpc_agent_test THREADED LABELS runtime TIMEOUT 120 LIBS dlaunch_runtime_core
  SOURCES
    runtime/base/block_memory_test.cpp
    runtime/rpc/agent_sides_test.cpp
    runtime/rpc/agent_test.cpp
    runtime/rpc/call_context_test.cpp
    runtime/rpc/device_maps_test.cpp
    runtime/rpc/function_table_test.cpp
    runtime/rpc/function_times_test.cpp
    runtime/rpc/future_test.cpp
    runtime/rpc/link_test.cpp
    runtime/rpc/looked_at_links_test.cpp
    runtime/rpc/looking_pays_test.cpp
    runtime/rpc/member_directory_test.cpp
    runtime/rpc/memory_offer_test.cpp
    runtime/rpc/polling_threads_test.cpp
    runtime/rpc/side_links_test.cpp
    runtime/rpc/stripe_threads_test.cpp
    runtime/rpc/worker_contact_test.cpp)
if(NOT DLAUNCH_SANITIZE STREQUAL "thread")  # which knows no fork
  dlaunch_test(NAME rpc_test LABELS runtime TIMEOUT 120 LIBS dlaunch_runtime_core dlaunch_store_host nlohmann_json::nlohmann_json
    SOURCES runtime/rpc/known_workers_test.cpp runtime/rpc/rpc_test.cpp runtime/rpc/rref_test.cpp)
endif()

# What it records, read as the agent reads it.
dlaunch_test(NAME recorder_test THREADED LABELS runtime LIBS dlaunch_runtime_core dlaunch_mailbox dlaunch_agent
  SOURCES
    runtime/record/call_site_test.cpp
    runtime/record/crash_recorder_test.cpp
    runtime/record/interrupted_wait_test.cpp
    runtime/record/recorder_test.cpp
    runtime/rpc/call_log_test.cpp)

# Modules as third parties would build them: public headers, C++20 and libdlaunch.so, nothing of this build's settings
# but the sanitizer.
set(test_modules ${CMAKE_BINARY_DIR}/tests/modules)
foreach(name example foreign silent)
  add_library(test_backend_${name} MODULE runtime/modules/${name}.cpp)
  target_link_libraries(test_backend_${name} PRIVATE dlaunch_runtime)
  set_target_properties(test_backend_${name} PROPERTIES
    OUTPUT_NAME backend_${name} PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${test_modules} INSTALL_RPATH ${CMAKE_BINARY_DIR}/lib)
  add_dependencies(runtime_test test_backend_${name})
endforeach()
target_compile_definitions(runtime_test PRIVATE TEST_MODULES_DIR="${test_modules}")
add_dependencies(runtime_test dlaunch_store_server_module)

# Every public header by itself.
file(GLOB public_headers RELATIVE ${PROJECT_SOURCE_DIR}/runtime/include CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/runtime/include/dlaunch/*.h)
foreach(header ${public_headers})
  string(MAKE_C_IDENTIFIER ${header} name)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp CONTENT "#include <${header}>\n")
  list(APPEND header_sources ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp)
endforeach()
if(NOT DLAUNCH_SANITIZE)
  add_library(public_headers_alone OBJECT ${header_sources})
  target_compile_options(public_headers_alone PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
  target_include_directories(public_headers_alone PRIVATE ${PROJECT_SOURCE_DIR}/runtime/include)
endif()

dlaunch_test(NAME public_api_test LABELS runtime LIBS dlaunch_runtime SOURCES runtime/api/public_api_test.cpp)
target_compile_definitions(public_api_test PRIVATE TEST_MODULES_DIR="${test_modules}"
  TEST_LIBRARY_NAME="libdlaunch.so.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
add_dependencies(public_api_test test_backend_example)

dlaunch_test(NAME key_value_store_test THREADED LABELS runtime LIBS dlaunch_runtime SOURCES runtime/rendezvous/key_value_store_test.cpp)
add_dependencies(key_value_store_test dlaunch_store_server_module)

if(TARGET dlaunch_backend_gloo)
  dlaunch_test(NAME gloo_transport_test THREADED LABELS runtime TIMEOUT 120
  SOURCES
    runtime/gloo/connection_test.cpp
    runtime/gloo/endpoint_test.cpp
    runtime/gloo/endpoints_test.cpp
    runtime/gloo/frame_test.cpp
    runtime/gloo/goodbye_message_test.cpp
    runtime/gloo/interfaces_test.cpp
    runtime/gloo/multi_rail_transport_test.cpp
    runtime/gloo/peer_key_test.cpp
    runtime/gloo/slot_matcher_test.cpp
    runtime/gloo/tcp_eager_channel_test.cpp
    runtime/gloo/tcp_messages_test.cpp
    runtime/gloo/tcp_transport_test.cpp
    runtime/gloo/wakeup_test.cpp
    runtime/point_to_point/messenger_test.cpp
    runtime/sockets/descriptor_test.cpp
    runtime/sockets/dial_test.cpp
    runtime/sockets/handshake_test.cpp
    runtime/sockets/keepalive_test.cpp
    runtime/sockets/pass_descriptor_test.cpp
    runtime/sockets/pending_connections_test.cpp
  LIBS dlaunch_gloo_transport dlaunch_runtime_core)
endif()
if(TARGET dlaunch_backend_gloo AND NOT DLAUNCH_SANITIZE STREQUAL "thread")
  # Several processes with a store server.
  dlaunch_test(NAME gloo_test APART LABELS runtime TIMEOUT 180
  SOURCES
    runtime/api/documented_test.cpp
    runtime/api/every_call_test.cpp
    runtime/api/init_test.cpp
    runtime/api/non_member_test.cpp
    runtime/gloo/ended_process_test.cpp
    runtime/gloo/gloo_groups_test.cpp
    runtime/gloo/gloo_late_test.cpp
    runtime/gloo/gloo_messages_test.cpp
    runtime/gloo/gloo_mixed_messages_test.cpp
    runtime/gloo/gloo_peer_loss_test.cpp
    runtime/gloo/gloo_process_exit_test.cpp
    runtime/gloo/gloo_robustness_test.cpp
    runtime/gloo/gloo_test.cpp
    runtime/gloo/host_memory_test.cpp
    runtime/gloo/shared_allocation_test.cpp
    runtime/gloo/shared_kill_test.cpp
    runtime/group/rank_in_call_test.cpp
    LIBS dlaunch_runtime dlaunch_store_host)
  add_dependencies(gloo_test dlaunch_backend_gloo dlaunch_backend_shm dlaunch_store_server_module)
  # The gradient reducer, over shared memory and TCP.
  dlaunch_test(NAME data_parallel_processes_test APART LABELS runtime
  SOURCES runtime/data_parallel/reducer_processes_test.cpp
  LIBS dlaunch_runtime dlaunch_store_host)
  add_dependencies(data_parallel_processes_test dlaunch_backend_gloo dlaunch_store_server_module)
  # No server and no thread in the program that is copied.
  dlaunch_test(NAME spawn_test LABELS runtime SOURCES runtime/api/spawn_test.cpp
  LIBS dlaunch_runtime)
  add_dependencies(spawn_test dlaunch_backend_gloo)
  # Its main() is called in the new processes, too.
  dlaunch_test(NAME spawn_exec_test LABELS runtime SOURCES runtime/api/spawn_exec_test.cpp
  LIBS dlaunch_runtime)
  add_dependencies(spawn_exec_test dlaunch_backend_gloo)
endif()

# For process/hang_test.py and others.
if(TARGET dlaunch_backend_gloo)
  add_executable(straggler process/straggler.cpp)
  dlaunch_settings(straggler)
  target_link_libraries(straggler PRIVATE dlaunch_runtime)
  set_target_properties(straggler PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(straggler dlaunch_backend_gloo)
endif()

# For process/trace_test.py.
add_library(clock_ahead MODULE process/clock_ahead.c)
dlaunch_settings(clock_ahead)
set_target_properties(clock_ahead PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# The C API from C, on ranks that the launcher starts.
if(TARGET dlaunch_backend_gloo)
  add_executable(c_api_test runtime/api/c_api_test.c)
  dlaunch_settings(c_api_test)
  target_link_libraries(c_api_test PRIVATE dlaunch_runtime)
  set_target_properties(c_api_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(c_api_test dlaunch dlaunch_backend_gloo)
  foreach(ranks 1 2 3 4 5 8)
    add_test(NAME c_api_test.${ranks}_ranks COMMAND dlaunch --nproc-per-node=${ranks} $<TARGET_FILE:c_api_test>)
    set_tests_properties(c_api_test.${ranks}_ranks PROPERTIES TIMEOUT 60 LABELS runtime)
  endforeach()
endif()

# Its stores, without a launcher.
if(TARGET dlaunch_backend_gloo)
  add_executable(c_stores_test runtime/api/c_stores_test.c)
  dlaunch_settings(c_stores_test)
  target_link_libraries(c_stores_test PRIVATE dlaunch_runtime)
  set_target_properties(c_stores_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(c_stores_test dlaunch_backend_gloo dlaunch_store_server_module)
  add_test(NAME c_stores_test COMMAND c_stores_test)
  set_tests_properties(c_stores_test PROPERTIES TIMEOUT 60 LABELS runtime)
endif()

# What bindings use, and PyTorch's backend where PyTorch is installed.
if(TARGET dlaunch_backend_gloo)
  add_executable(c_bindings_test runtime/api/c_bindings_test.c)
  dlaunch_settings(c_bindings_test)
  target_link_libraries(c_bindings_test PRIVATE dlaunch_runtime)
  set_target_properties(c_bindings_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(c_bindings_test dlaunch_backend_gloo)
  add_test(NAME c_bindings_test COMMAND c_bindings_test)
  set_tests_properties(c_bindings_test PROPERTIES TIMEOUT 120 LABELS runtime)
endif()

# With a sanitizer these would need it in the interpreter too: the C API below them has its own test.
if(TARGET dlaunch_backend_gloo AND NOT DLAUNCH_SANITIZE)
  dlaunch_script_tests(NAME torch SCRIPT runtime/python/torch_test.py BASE unittest.TestCase)
  dlaunch_script_tests(NAME torch_recorder SCRIPT runtime/python/torch_recorder_test.py BASE unittest.TestCase)
  dlaunch_script_tests(NAME torch_hang SCRIPT runtime/python/torch_hang_test.py BASE Hang)
  dlaunch_script_tests(NAME torch_parallel SCRIPT runtime/python/torch_parallel_test.py BASE unittest.TestCase)
  dlaunch_script_tests(NAME torch_suite SCRIPT runtime/python/torch_suite_test.py BASE unittest.TestCase)
  set_tests_properties(torch_suite.Suite.test_pytorch_each_test_of_its_suite_ends_as_with_gloo PROPERTIES TIMEOUT 4500)
  dlaunch_script_tests(NAME numpy SCRIPT runtime/python/numpy_test.py BASE unittest.TestCase)
endif()
dlaunch_script_tests(NAME python_launch SCRIPT runtime/python/launch_test.py BASE unittest.TestCase)

# The wheel, built as for the package index and installed into empty environments.
if(TARGET dlaunch_backend_gloo AND NOT DLAUNCH_SANITIZE)
  add_test(NAME wheel.build COMMAND ${PROJECT_SOURCE_DIR}/scripts/wheel ${CMAKE_BINARY_DIR}/dist)
  set_tests_properties(wheel.build PROPERTIES FIXTURES_SETUP wheel TIMEOUT 1500 LABELS process)
  dlaunch_script_tests(NAME wheel SCRIPT runtime/python/wheel_test.py BASE WheelTest BY_CLASS)
  get_directory_property(tests TESTS)
  list(FILTER tests INCLUDE REGEX "^wheel\\.[A-Z]")
  set_property(TEST ${tests} PROPERTY FIXTURES_REQUIRED wheel)
endif()

# The Debian packages, as dpkg installs and removes them.
if(TARGET dlaunch_backend_gloo AND NOT DLAUNCH_SANITIZE)
  add_test(NAME deb.build COMMAND ${PROJECT_SOURCE_DIR}/scripts/deb ${CMAKE_BINARY_DIR}/deb)
  set_tests_properties(deb.build PROPERTIES FIXTURES_SETUP deb TIMEOUT 1500 LABELS process
    ENVIRONMENT "DEBFULLNAME=A Packager;DEBEMAIL=packager@dlaunch.dev")
  dlaunch_script_tests(NAME deb SCRIPT runtime/python/deb_test.py BASE unittest.TestCase)
  get_directory_property(tests TESTS)
  list(FILTER tests INCLUDE REGEX "^deb\\.Deb")
  set_property(TEST ${tests} PROPERTY FIXTURES_REQUIRED deb)
endif()

# Our results against PyTorch's, where it is installed.
if(TARGET dlaunch_backend_gloo)
  add_executable(conformance_ranks runtime/api/conformance_ranks.cpp runtime/api/conformance_on_host.cpp)
  dlaunch_settings(conformance_ranks)
  target_link_libraries(conformance_ranks PRIVATE dlaunch_runtime)
  set_target_properties(conformance_ranks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(conformance_ranks dlaunch_backend_gloo)
  dlaunch_script_tests(NAME conformance SCRIPT runtime/api/conformance_test.py BASE unittest.TestCase)
  # The odd one and the largest will do where everything takes several times longer.
  foreach(ranks world_size_1 world_size_2 world_size_4 world_size_5 two_hosts_of_two_ranks)
    set_tests_properties(conformance.Conformance.test_${ranks} PROPERTIES LABELS "process;unsanitized")
  endforeach()
endif()

# The backend mpi, under the mpirun of each MPI that it was built with, and under dlaunch.
if(TARGET dlaunch_backend_mpi AND NOT DLAUNCH_SANITIZE)
  add_dependencies(conformance_ranks dlaunch_backend_mpi)
  add_executable(mpi_ranks runtime/backends/mpi/mpi_ranks.cpp)
  dlaunch_settings(mpi_ranks)
  target_link_libraries(mpi_ranks PRIVATE dlaunch_runtime)
  set_target_properties(mpi_ranks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(mpi_ranks dlaunch dlaunch_backend_mpi)
  dlaunch_script_tests(NAME mpi SCRIPT runtime/backends/mpi/mpi_test.py BASE unittest.TestCase)
endif()
if(TARGET dlaunch_backend_mpi)
  dlaunch_test(NAME mpi_start_test LABELS runtime LIBS dlaunch_base
  SOURCES
    runtime/backends/mpi/mpi_choice_test.cpp
    runtime/backends/mpi/mpi_host_ranks_test.cpp
    runtime/backends/mpi/mpi_scratch_test.cpp
    runtime/backends/mpi/mpi_start_test.cpp
    ${PROJECT_SOURCE_DIR}/runtime/backends/mpi/mpi_choice.cpp
    ${PROJECT_SOURCE_DIR}/runtime/backends/mpi/mpi_host_ranks.cpp
    ${PROJECT_SOURCE_DIR}/runtime/backends/mpi/mpi_scratch.cpp
    ${PROJECT_SOURCE_DIR}/runtime/backends/mpi/mpi_start.cpp)
endif()

# CUDA tensors, and the backend nccl. Their processes find the doubles of CUDA's runtime and of NCCL, which a machine without a GPU
# can run.
dlaunch_test(NAME staging_units_test LABELS unit LIBS dlaunch_runtime_core
  SOURCES
    runtime/staging/pinned_memory_test.cpp
    runtime/staging/staged_parts_test.cpp)
if(TARGET dlaunch_cuda)
  dlaunch_test(NAME cuda_units_test LABELS runtime LIBS dlaunch_cuda
  SOURCES
    runtime/cuda/cuda_device_test.cpp)
endif()
if(TARGET dlaunch_backend_nccl)
  dlaunch_test(NAME nccl_units_test THREADED LABELS runtime LIBS dlaunch_nccl_core
  SOURCES
    runtime/backends/nccl/nccl_detached_call_test.cpp
    runtime/backends/nccl/nccl_rendezvous_test.cpp
    runtime/backends/nccl/nccl_types_test.cpp
    runtime/backends/nccl/nccl_watchdog_test.cpp)
endif()
if(TARGET dlaunch_cuda AND TARGET dlaunch_backend_gloo AND NOT DLAUNCH_SANITIZE STREQUAL "thread")
  add_subdirectory(doubles)
  set(cuda_programs staging_test doubles_test conformance_device_ranks)
  dlaunch_test(NAME staging_test LABELS runtime TIMEOUT 120
  SOURCES
    runtime/staging/staged_failures_test.cpp
    runtime/staging/staged_groups_test.cpp
    runtime/staging/staged_streams_test.cpp
  LIBS dlaunch_runtime dlaunch_store_host cuda_double
  ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/doubles)
  add_dependencies(staging_test dlaunch_cuda_staging dlaunch_backend_gloo dlaunch_store_server_module driver_double)
  add_executable(conformance_device_ranks runtime/api/conformance_ranks.cpp runtime/cuda/conformance_on_device.cpp)
  dlaunch_settings(conformance_device_ranks)
  target_link_libraries(conformance_device_ranks PRIVATE dlaunch_runtime cuda_double)
  add_dependencies(conformance_device_ranks dlaunch_cuda_staging dlaunch_backend_gloo dlaunch_backend_shm driver_double)
  set_target_properties(conformance_device_ranks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  dlaunch_test(NAME doubles_test LABELS runtime SOURCES doubles/doubles_test.cpp LIBS dlaunch_runtime cuda_double)
  if(TARGET dlaunch_backend_nccl)
    list(APPEND cuda_programs nccl_test)
    dlaunch_test(NAME nccl_test APART LABELS runtime TIMEOUT 120
    SOURCES
      runtime/backends/nccl/nccl_failures_test.cpp
      runtime/backends/nccl/nccl_graphs_test.cpp
      runtime/backends/nccl/nccl_groups_test.cpp
      runtime/backends/nccl/nccl_records_test.cpp
      runtime/backends/nccl/nccl_split_test.cpp
      runtime/backends/nccl/nccl_streams_test.cpp
    LIBS dlaunch_runtime dlaunch_agent dlaunch_store_host cuda_double
    ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/doubles)
    add_dependencies(nccl_test dlaunch_backend_nccl dlaunch_backend_gloo dlaunch_store_server_module driver_double nccl_double)
    add_dependencies(conformance_device_ranks dlaunch_backend_nccl nccl_double)
    list(APPEND cuda_programs device_gradients_test)
    dlaunch_test(NAME device_gradients_test LABELS runtime TIMEOUT 120
    SOURCES
      runtime/data_parallel/device_gradients_test.cpp
    LIBS dlaunch_runtime dlaunch_store_host cuda_double
    ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/doubles)
    add_dependencies(device_gradients_test dlaunch_backend_nccl dlaunch_cuda_staging dlaunch_backend_gloo dlaunch_store_server_module
      driver_double nccl_double)
  endif()
  foreach(program ${cuda_programs})
    target_include_directories(${program} SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/doubles")
  endforeach()
  foreach(mpi OPEN_MPI MPICH)
    if(${mpi}_FOUND)
      string(TOLOWER mpi_calls_${mpi} calls)
      add_library(${calls} MODULE runtime/cuda/mpi_calls.cpp)
      dlaunch_settings(${calls})
      set_target_properties(${calls} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET default
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
      target_compile_definitions(${calls} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
      target_link_libraries(${calls} PRIVATE PkgConfig::${mpi})
      add_dependencies(conformance_device_ranks ${calls})
    endif()
  endforeach()
  dlaunch_script_tests(NAME device_conformance SCRIPT runtime/cuda/device_conformance_test.py BASE unittest.TestCase)
  get_directory_property(tests TESTS)
  list(FILTER tests INCLUDE REGEX "^device_conformance\\.")
  set(on_gpus ${tests})
  list(FILTER on_gpus INCLUDE REGEX "on_a_gpu$")
  set_property(TEST ${on_gpus} PROPERTY LABELS "process;gpu")
  if(DLAUNCH_SANITIZE)  # some of them: the others find nothing more
    list(FILTER tests EXCLUDE REGEX "(Gloo|Nccl)\\.test_world_of_[23]$")
    set_property(TEST ${tests} APPEND PROPERTY LABELS unsanitized)
  endif()
endif()
