dlaunch_test(NAME agent_test
  SOURCES
    agent/control/absent_nodes_test.cpp
    agent/control/admission_test.cpp
    agent/control/cause_test.cpp
    agent/control/coordinator_contact_test.cpp
    agent/control/coordinator_end_test.cpp
    agent/control/coordinator_leadership_test.cpp
    agent/control/coordinator_members_test.cpp
    agent/control/coordinator_rounds_test.cpp
    agent/control/coordinator_stall_test.cpp
    agent/control/coordinator_test.cpp
    agent/control/coordinator_text_test.cpp
    agent/control/earlier_worlds_test.cpp
    agent/control/endpoint_search_test.cpp
    agent/control/failure_collector_test.cpp
    agent/control/fenced_hosts_test.cpp
    agent/control/fencing_test.cpp
    agent/control/handshake_test.cpp
    agent/control/hang_detector_test.cpp
    agent/control/hang_notes_test.cpp
    agent/control/health_gate_test.cpp
    agent/control/job_ending_test.cpp
    agent/control/last_call_test.cpp
    agent/control/leader_clock_test.cpp
    agent/control/leadership_test.cpp
    agent/control/lease_test.cpp
    agent/control/loss_test.cpp
    agent/control/member_rounds_test.cpp
    agent/control/member_search_test.cpp
    agent/control/member_signals_test.cpp
    agent/control/member_test.cpp
    agent/control/membership_test.cpp
    agent/control/message_io_test.cpp
    agent/control/messages_test.cpp
    agent/control/messages_wire_test.cpp
    agent/control/preempt_notice_test.cpp
    agent/control/progress_reports_test.cpp
    agent/control/ranks_reports_test.cpp
    agent/control/stall_monitor_test.cpp
    agent/control/idle_monitor_test.cpp
    agent/control/coordinator_idle_test.cpp
    agent/control/coordinator_stragglers_test.cpp
    agent/control/waiting_test.cpp
    agent/control/worker_group_test.cpp
    agent/control/worker_lease_test.cpp
    agent/election/election_test.cpp
    agent/election/etcd_election_test.cpp
    agent/election/etcd_messages_test.cpp
    agent/election/http_reply_test.cpp
    agent/model/arrival_merge_test.cpp
    agent/model/call_mismatch_test.cpp
    agent/model/collective_progress_test.cpp
    agent/model/diagnosis_devices_test.cpp
    agent/model/diagnosis_test.cpp
    agent/model/error_file_test.cpp
    agent/model/flight_files_test.cpp
    agent/model/exit_status_test.cpp
    agent/model/fencing_test.cpp
    agent/model/crash_test.cpp
    agent/model/elf_symbols_test.cpp
    agent/model/job_rules_test.cpp
    agent/model/job_status_test.cpp
    agent/model/job_test.cpp
    agent/model/job_times_test.cpp
    agent/model/json_fields_test.cpp
    agent/model/last_lines_test.cpp
    agent/model/link_state_test.cpp
    agent/model/log_options_test.cpp
    agent/model/node_arrivals_test.cpp
    agent/model/node_ranks_test.cpp
    agent/model/rank_history_test.cpp
    agent/model/rank_times_test.cpp
    agent/model/remedy_test.cpp
    agent/model/remote_calls_test.cpp
    agent/model/restart_policy_test.cpp
    agent/model/root_cause_test.cpp
    agent/model/stop_grace_test.cpp
    agent/model/straggler_simulation_test.cpp
    agent/model/stragglers_test.cpp
    agent/model/suspension_detector_test.cpp
    agent/model/worker_environment_test.cpp
    agent/model/worker_record_test.cpp
    agent/model/world_view_test.cpp
    agent/node/agent_link_test.cpp
    agent/node/endpoint_probe_test.cpp
    agent/node/node_status_test.cpp
    agent/observe/exit_remedy_test.cpp
    agent/observe/library_remedy_test.cpp
    agent/observe/memory_events_test.cpp
    agent/observe/named_path_test.cpp
    agent/observe/stderr_hints_test.cpp
    agent/observe/tcp_links_test.cpp
    agent/observe/timer_requests_test.cpp
    agent/output/dropped_test.cpp
    agent/output/line_prefix_test.cpp
    agent/process/cgroup_path_test.cpp
    agent/process/elf_machine_test.cpp
    store/base/lines_test.cpp
    store/base/number_test.cpp
    store/base/sanitize_test.cpp
    store/base/task_limits_test.cpp
    store/base/text_test.cpp
  LIBS dlaunch_agent LABELS unit)

# MPI programs under dlaunch.
dlaunch_test(NAME pmi_test
  SOURCES
    agent/control/paced_looks_test.cpp
    agent/control/pmi_barrier_test.cpp
    agent/control/worker_abort_test.cpp
    agent/model/elf_libraries_test.cpp
    agent/node/pmi_service_test.cpp
    agent/pmi/pmi_request_test.cpp
    agent/pmi/pmi_server_test.cpp
    agent/pmi/pmix_server_test.cpp
    agent/pmi/process_mapping_test.cpp
    agent/process/pmi_sockets_test.cpp
  LIBS dlaunch_agent LABELS unit)

if(TARGET dlaunch_pmix)
  dlaunch_test(NAME pmix_test SOURCES agent/pmix/job_data_test.cpp ${PROJECT_SOURCE_DIR}/agent/pmix/job_data.cpp
    LIBS dlaunch_agent_pmi PkgConfig::PMIX LABELS unit)
endif()

dlaunch_test(NAME sim_test
  SOURCES
    agent/node/runner_test.cpp
    sim/elastic_swarm_test.cpp
    sim/elastic_test.cpp
    sim/failover_test.cpp
    sim/hang_test.cpp
    sim/health_test.cpp
    sim/swarm_test.cpp
    sim/world.cpp
  LIBS dlaunch_agent_node
  LABELS sim TIMEOUT 900 OPTIMISED)
target_compile_definitions(agent_test PRIVATE DLAUNCH_VERSION="${PROJECT_VERSION}")

# Units that touch files, processes and terminals.
dlaunch_test(NAME agent_process_test
  SOURCES
    agent/platform/reaper_test.cpp
    agent/platform/status_socket_test.cpp
    agent/process/clone_into_cgroup_test.cpp
    agent/process/guard_process_test.cpp
    agent/process/guard_test.cpp
    agent/process/helper_process_test.cpp
    agent/process/job_cgroup_test.cpp
    agent/process/job_mark_test.cpp
    agent/process/job_resources_test.cpp
    agent/process/keeper_process_test.cpp
    agent/process/keeper_spawner_test.cpp
    agent/process/keeper_test.cpp
    agent/process/leader_mark_test.cpp
    agent/process/passed_descriptors_test.cpp
    agent/process/pending_execs_test.cpp
    agent/process/raw_syscall_test.cpp
    agent/process/scratch_dir_test.cpp
    agent/process/timer_fifo_test.cpp
    agent/process/worker_session_test.cpp
    agent/process/worker_start_test.cpp
  LIBS dlaunch_agent LABELS unit)
dlaunch_test(NAME agent_output_test
  SOURCES
    agent/observe/exit_facts_test.cpp
    agent/observe/kept_rounds_test.cpp
    agent/observe/oom_watch_test.cpp
    agent/observe/plain_file_test.cpp
    agent/observe/postmortem_test.cpp
    agent/observe/cpu_time_test.cpp
    agent/observe/process_condition_test.cpp
    agent/observe/timer_watch_test.cpp
    agent/observe/worker_pages_test.cpp
    agent/output/console_test.cpp
    agent/output/log_dir_test.cpp
    agent/output/log_file_test.cpp
    agent/output/output_test.cpp
    agent/output/pseudo_terminal_test.cpp
    agent/output/rank_links_test.cpp
    agent/output/relay_test.cpp
  LIBS dlaunch_agent LABELS unit)
