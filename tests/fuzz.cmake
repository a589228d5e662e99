# libFuzzer targets, one for each parser of bytes from outside: part of the build with AddressSanitizer.
#
#   cmake --preset asan && cmake --build build-asan -t fuzz_agent_messages
#   build-asan/fuzz/fuzz_agent_messages my-corpus tests/fuzz/corpus/fuzz_agent_messages
if(NOT DLAUNCH_SANITIZE STREQUAL "address" OR NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # which has libFuzzer
  return()
endif()

# dlaunch_fuzz_target(NAME name SOURCE file.cpp LIBS lib ... [DEFINES definition ...] [RUNS n])
# Its CTest runs over the kept corpus (tests/fuzz/corpus/name) and then RUNS seeded inputs more, or 20 s on a slow machine.
function(dlaunch_fuzz_target)
  cmake_parse_arguments(T "" "NAME;SOURCE;RUNS" "LIBS;DEFINES" ${ARGN})
  add_executable(${T_NAME} ${T_SOURCE})
  dlaunch_settings(${T_NAME})
  target_compile_definitions(${T_NAME} PRIVATE ${T_DEFINES})
  target_compile_options(${T_NAME} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS})
  target_link_options(${T_NAME} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  set(scratch ${CMAKE_BINARY_DIR}/fuzz/found/${T_NAME})
  file(MAKE_DIRECTORY ${scratch})
  # What it finds goes to the scratch folder, which comes first; the kept corpus is only read.
  add_test(NAME fuzz.${T_NAME} COMMAND ${T_NAME} -seed=1 -runs=${T_RUNS} -max_total_time=20 -max_len=4096 -timeout=10
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix=${scratch}/ ${scratch} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${T_NAME})
  set_tests_properties(fuzz.${T_NAME} PROPERTIES TIMEOUT 300 LABELS fuzz)
endfunction()

dlaunch_fuzz_target(NAME fuzz_store_server SOURCE fuzz/fuzz_store_server.cpp LIBS dlaunch_store_server RUNS 10000)
dlaunch_fuzz_target(NAME fuzz_store_key SOURCE fuzz/fuzz_store_key.cpp LIBS dlaunch_store_server RUNS 20000)
dlaunch_fuzz_target(NAME fuzz_store_v1_13 SOURCE fuzz/fuzz_store_requests.cpp LIBS dlaunch_store_server
  DEFINES GENERATION=v1_13 RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_store_v2_1 SOURCE fuzz/fuzz_store_requests.cpp LIBS dlaunch_store_server
  DEFINES GENERATION=v2_1 RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_store_v2_2 SOURCE fuzz/fuzz_store_requests.cpp LIBS dlaunch_store_server
  DEFINES GENERATION=v2_2 RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_mesh SOURCE fuzz/fuzz_mesh.cpp LIBS dlaunch_gloo_transport dlaunch_runtime_core RUNS 50000)
dlaunch_fuzz_target(NAME fuzz_agent_messages SOURCE fuzz/fuzz_agent_messages.cpp LIBS dlaunch_agent RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_etcd SOURCE fuzz/fuzz_etcd.cpp LIBS dlaunch_agent RUNS 40000)
dlaunch_fuzz_target(NAME fuzz_stderr_hints SOURCE fuzz/fuzz_stderr_hints.cpp LIBS dlaunch_agent RUNS 80000)
dlaunch_fuzz_target(NAME fuzz_timer_requests SOURCE fuzz/fuzz_timer_requests.cpp LIBS dlaunch_agent RUNS 20000)
# Sources that are compiled as one need what each of them needs: those of the launcher what each program adds itself.
dlaunch_fuzz_target(NAME fuzz_worker_page SOURCE fuzz/fuzz_worker_page.cpp LIBS dlaunch_launcher launcher_test_tls RUNS 8000)
dlaunch_fuzz_target(NAME fuzz_job_trace SOURCE fuzz/fuzz_job_trace.cpp LIBS dlaunch_launcher_commands launcher_test_tls nlohmann_json::nlohmann_json
  RUNS 20000)
dlaunch_fuzz_target(NAME fuzz_torch_flight SOURCE fuzz/fuzz_torch_flight.cpp LIBS dlaunch_launcher_commands launcher_test_tls nlohmann_json::nlohmann_json
  RUNS 20000)
dlaunch_fuzz_target(NAME fuzz_doctor SOURCE fuzz/fuzz_doctor.cpp LIBS dlaunch_launcher_doctor RUNS 40000)
dlaunch_fuzz_target(NAME fuzz_nvidia SOURCE fuzz/fuzz_nvidia.cpp LIBS dlaunch_launcher_doctor RUNS 20000)
dlaunch_fuzz_target(NAME fuzz_elf_symbols SOURCE fuzz/fuzz_elf_symbols.cpp LIBS dlaunch_agent RUNS 80000)
dlaunch_fuzz_target(NAME fuzz_pmi SOURCE fuzz/fuzz_pmi.cpp LIBS dlaunch_agent RUNS 80000)
dlaunch_fuzz_target(NAME fuzz_settings SOURCE fuzz/fuzz_settings.cpp LIBS dlaunch_launcher RUNS 40000)
dlaunch_fuzz_target(NAME fuzz_slurm_node SOURCE fuzz/fuzz_slurm_node.cpp LIBS dlaunch_launcher_scheduler RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_relay SOURCE fuzz/fuzz_relay.cpp LIBS dlaunch_launcher_remote RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_init_method SOURCE fuzz/fuzz_init_method.cpp LIBS dlaunch_runtime_core RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_envelopes SOURCE fuzz/fuzz_envelopes.cpp LIBS dlaunch_runtime_core RUNS 500000)
dlaunch_fuzz_target(NAME fuzz_rpc SOURCE fuzz/fuzz_rpc.cpp LIBS dlaunch_runtime_core RUNS 50000)
dlaunch_fuzz_target(NAME fuzz_rpc_stripes SOURCE fuzz/fuzz_rpc_stripes.cpp LIBS dlaunch_runtime_core RUNS 50000)
dlaunch_fuzz_target(NAME fuzz_rpc_tensors SOURCE fuzz/fuzz_rpc_tensors.cpp LIBS dlaunch_runtime_core RUNS 80000)
dlaunch_fuzz_target(NAME fuzz_byte_rings SOURCE fuzz/fuzz_byte_rings.cpp LIBS dlaunch_shared_memory dlaunch_runtime_core RUNS 5000)
dlaunch_fuzz_target(NAME fuzz_shared_memory SOURCE fuzz/fuzz_shared_memory.cpp
  LIBS dlaunch_runtime_core dlaunch_mailbox RUNS 300)
dlaunch_fuzz_target(NAME fuzz_message_rings SOURCE fuzz/fuzz_message_rings.cpp
  LIBS dlaunch_runtime_core dlaunch_mailbox RUNS 20000)
dlaunch_fuzz_target(NAME fuzz_object SOURCE fuzz/fuzz_object.cpp LIBS dlaunch_runtime_core RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_idx SOURCE fuzz/fuzz_idx.cpp LIBS train_mnist_parts RUNS 10000)
dlaunch_fuzz_target(NAME fuzz_checkpoint SOURCE fuzz/fuzz_checkpoint.cpp LIBS train_mnist_parts RUNS 200000)
dlaunch_fuzz_target(NAME fuzz_file_record SOURCE fuzz/fuzz_file_record.cpp LIBS dlaunch_tcp_store RUNS 200000)
