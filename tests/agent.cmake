dlaunch_test(NAME agent_test
  SOURCES agent/absent_nodes_test.cpp agent/cause_test.cpp agent/cgroup_path_test.cpp agent/coordinator_test.cpp agent/diagnosis_test.cpp agent/election_test.cpp agent/elf_machine_test.cpp agent/etcd_messages_test.cpp agent/fencing_test.cpp agent/handshake_test.cpp agent/hang_test.cpp agent/http_reply_test.cpp agent/error_file_test.cpp agent/job_ending_test.cpp agent/lines_test.cpp agent/member_test.cpp
          agent/memory_events_test.cpp agent/messages_test.cpp agent/printable_test.cpp agent/restart_policy_test.cpp agent/last_words_test.cpp agent/root_cause_test.cpp agent/task_limits_test.cpp agent/timer_requests_test.cpp
          agent/values_test.cpp agent/worker_group_test.cpp agent/worker_record_test.cpp agent/world_view_test.cpp
  LIBS dlaunch_agent_core LABELS unit)

dlaunch_test(NAME sim_test SOURCES sim/elastic_test.cpp sim/hang_test.cpp sim/swarm_test.cpp sim/world.cpp LIBS dlaunch_agent_runner
  LABELS sim TIMEOUT 900 OPTIMISED)
target_compile_definitions(agent_test PRIVATE DLAUNCH_VERSION="${PROJECT_VERSION}")

dlaunch_test(NAME spawner_test SOURCES agent/spawner_test.cpp LIBS dlaunch_agent_edge LABELS unit)
dlaunch_test(NAME log_file_test SOURCES agent/console_test.cpp agent/log_file_test.cpp agent/oom_watch_test.cpp LIBS dlaunch_agent_edge LABELS unit)
