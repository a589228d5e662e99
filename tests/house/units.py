#!/usr/bin/env python3
"""Each unit (a source and its header) has a test file of its name in the folder of tests/ that mirrors its room:
agent/process/keeper.cpp is tested by tests/agent/process/keeper_test.cpp. A unit without decisions of its own, or one that
only a whole process can show, stands in a table below with the test that covers it.

    units.py REPOSITORY
"""

import os
import sys

ROOT = sys.argv[1]
FOLDERS = ("agent", "launcher", "runtime", "store")
SOURCE = (".cpp", ".h", ".c")
TESTS = ("_test.cpp", "_test.c", "_test.py")
# A public header is compiled by itself (tests/runtime.cmake). What it declares is tested where it is defined.
PUBLIC_HEADERS = ("runtime/include/", "runtime/torch/include/")
# Rooms whose tests are in a folder of another name.
TESTS_OF_ROOM = {"runtime/backends/gloo": "runtime/gloo"}

# Unit: the test file that covers it.
COVERED_BY = {
    # Values, names and interfaces, without code of their own.
    "agent/control/one_of": "agent/control/messages_wire_test.cpp",
    "agent/model/arrivals": "agent/model/node_arrivals_test.cpp",
    "agent/model/event": "launcher/report/event_log_test.cpp",
    "agent/model/field_list": "agent/control/messages_test.cpp",
    "agent/model/log_message": "agent/control/coordinator_test.cpp",
    "agent/model/elf_sections": "agent/model/elf_symbols_test.cpp",
    "agent/model/page_reading": "agent/model/worker_record_test.cpp",
    "agent/model/rank_words": "agent/model/diagnosis_test.cpp",
    "agent/model/pmi_entry": "agent/control/pmi_barrier_test.cpp",
    "agent/model/pmi_wire": "agent/node/pmi_service_test.cpp",
    "agent/pmi/mpi_server": "agent/pmi/pmix_server_test.cpp",
    "agent/pmix/agent_connection": "process/mpi_test.py",
    "agent/pmix/main": "process/mpi_test.py",
    "agent/pmix/pmix_host": "process/mpi_test.py",
    "agent/pmix/worker_start": "process/mpi_test.py",
    "agent/process/pmix_process": "agent/process/pmi_sockets_test.cpp",
    "agent/model/spawner": "sim/swarm_test.cpp",
    "agent/model/worker_exit": "agent/model/exit_status_test.cpp",
    "agent/model/time_sums": "agent/model/job_times_test.cpp",
    "agent/model/shared_clock": "agent/control/leader_clock_test.cpp",
    "agent/model/worker_usage": "agent/control/idle_monitor_test.cpp",
    "launcher/node/inspector": "process/idle_test.py",
    "agent/model/worker_records": "agent/model/diagnosis_test.cpp",
    "agent/observe/straggler_watch": "process/stragglers_test.py",
    "agent/observe/worker_looks": "process/page_test.py",
    "agent/model/worker_look": "agent/model/rank_times_test.cpp",
    "launcher/node/rank_watch": "process/page_test.py",
    "agent/observe/crash_report": "runtime/record/crash_recorder_test.cpp",
    "agent/node/reporter": "agent/node/runner_test.cpp",
    "launcher/remote/host_processes": "launcher/remote/host_tree_test.cpp",
    "launcher/remote/relay": "launcher/remote/host_tree_test.cpp",
    "launcher/build_commit": "process/write_commit_test.py",
    "runtime/sockets/host_socket": "runtime/gloo/host_memory_test.cpp",
    "runtime/sockets/attempt": "runtime/gloo/host_memory_test.cpp",
    "runtime/backends/gloo/make_backend": "runtime/gloo/host_memory_test.cpp",
    "runtime/backends/gloo/memory_handover": "runtime/gloo/host_memory_test.cpp",
    "runtime/python/dlaunch/torch/native/arguments": "runtime/python/torch_test.py",
    "runtime/python/dlaunch/torch/native/backend": "runtime/python/torch_test.py",
    "runtime/python/dlaunch/torch/native/extension": "runtime/python/torch_test.py",
    "runtime/python/dlaunch/torch/native/group": "runtime/python/torch_test.py",
    "runtime/python/dlaunch/torch/native/tensors": "runtime/python/torch_test.py",
    "runtime/python/dlaunch/torch/native/work": "runtime/python/torch_test.py",
    "runtime/api/c_api_memory": "runtime/api/c_api_test.c",
    "runtime/backends/shm/module": "runtime/gloo/host_memory_test.cpp",
    "runtime/group/shared_allocation": "runtime/gloo/shared_allocation_test.cpp",
    "runtime/hierarchical_collectives/data_movement": "runtime/hierarchical_collectives/hierarchical_call_test.cpp",
    "runtime/hierarchical_collectives/reductions": "runtime/hierarchical_collectives/hierarchical_call_test.cpp",
    "runtime/shared_collectives/all_to_all": "runtime/shared_collectives/shared_call_test.cpp",
    "runtime/shared_collectives/call_functions": "runtime/shared_collectives/shared_call_test.cpp",
    "runtime/shared_collectives/data_movement": "runtime/shared_collectives/shared_call_test.cpp",
    "runtime/shared_collectives/reductions": "runtime/shared_collectives/shared_call_test.cpp",
    "runtime/shared_collectives/rounds": "runtime/shared_collectives/shared_call_test.cpp",
    "runtime/point_to_point/message_errors": "runtime/point_to_point/memory_protocol_test.cpp",
    "runtime/shared_memory/futex": "runtime/shared_memory/message_rings_test.cpp",
    "runtime/shared_memory/layout": "runtime/shared_memory/group_memory_test.cpp",
    "store/base/io": "store/loop/uv_loop_test.cpp",
    "store/base/namespaces": "agent/control/coordinator_test.cpp",
    "store/base/overloaded": "agent/control/coordinator_test.cpp",
    "store/contract/calls_page": "agent/model/remote_calls_test.cpp",
    "store/contract/crash_page": "agent/model/crash_test.cpp",
    "store/contract/worker_env": "agent/model/worker_environment_test.cpp",
    "store/protocol/limits": "store/protocol/wire_test.cpp",
    "store/server/port_limits": "store/server/protocol_mux_limits_test.cpp",
    "store/tls/secure_session": "store/tls/tls_test.cpp",
    "store/tls/tls_client": "store/tls/tls_test.cpp",
    # Parts of a class whose tests are in the files of its other parts.
    "agent/node/runner_workers": "agent/node/runner_test.cpp",
    "store/loop/uv_loop_impl": "store/loop/uv_loop_test.cpp",
    "store/loop/uv_sockets": "store/loop/uv_connections_test.cpp",
    # Programs, commands, a terminal, ssh: only a whole process shows them.
    "launcher/commands/completion_command": "process/commands_test.py",
    "launcher/commands/completion_templates": "process/commands_test.py",
    "launcher/commands/doctor_command": "process/commands_test.py",
    "launcher/doctor/gpu_facts": "launcher/doctor/gpu_verdict_test.cpp",
    "launcher/doctor/link": "launcher/doctor/link_text_test.cpp",
    "launcher/doctor/machine_checks": "process/commands_test.py",
    "launcher/doctor/peer_check": "process/doctor_test.py",
    "launcher/doctor/probe_process": "process/doctor_test.py",
    "launcher/doctor/probe_server": "launcher/doctor/link_probe_test.cpp",
    "launcher/doctor/probe_socket": "launcher/doctor/link_probe_test.cpp",
    "launcher/commands/dump_command": "process/commands_test.py",
    "launcher/commands/job_records": "process/hang_test.py",
    "launcher/commands/interruption": "process/logs_test.py",
    "launcher/commands/logs_command": "process/logs_test.py",
    "launcher/commands/status_command": "process/commands_test.py",
    "launcher/commands/stop_command": "process/commands_test.py",
    "launcher/commands/store_command": "process/store_test.py",
    "launcher/commands/top_command": "process/commands_test.py",
    "launcher/commands/trace_command": "process/trace_test.py",
    "launcher/console/terminal_suspend": "process/terminal_test.py",
    "launcher/main": "process/launch_test.py",
    "launcher/remote/remote_run": "process/hosts_test.py",
    "launcher/startup/static_names": "process/names_test.py",
}
# The same for runtime/.
RUNTIME_COVERED_BY = {
    "runtime/rpc/agent_calls": "runtime/rpc/agent_test.cpp",
    "runtime/rpc/agent_connections": "runtime/rpc/agent_test.cpp",
    "runtime/rpc/device_hooks": "runtime/torch/device_maps_test.cpp",
    "runtime/api/c_api_bindings": "runtime/api/c_bindings_test.c",
    "runtime/api/c_api_groups": "runtime/api/c_api_test.c",
    "runtime/api/c_api_stores": "runtime/api/c_stores_test.c",
    "runtime/api/c_api_watch": "runtime/api/c_api_test.c",
    "runtime/api/distributed": "runtime/api/init_test.cpp",
    "runtime/api/free_calls": "runtime/api/every_call_test.cpp",
    "runtime/api/group_breakpoint": "runtime/api/debug_test.cpp",
    "runtime/api/spawned_rank": "runtime/api/spawn_test.cpp",
    "runtime/backends/gloo/connect": "runtime/gloo/interfaces_test.cpp",
    "runtime/backends/gloo/module": "runtime/gloo/gloo_test.cpp",
    "runtime/backends/gloo/reachability": "runtime/gloo/interfaces_test.cpp",
    "runtime/backends/gloo/tcp_wait": "runtime/gloo/tcp_transport_test.cpp",
    "runtime/backends/mpi/module": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_backend": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_collectives": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_devices": "runtime/cuda/device_conformance_test.py",
    "runtime/backends/mpi/mpi_error": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_group": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_messages": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_module": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_pairwise_collectives": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_process": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_short_collectives": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_types": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/mpi/mpi_world": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/nccl/module": "runtime/backends/nccl/nccl_groups_test.cpp",
    "runtime/backends/nccl/nccl_backend": "runtime/backends/nccl/nccl_groups_test.cpp",
    "runtime/backends/nccl/nccl_backend_end": "runtime/backends/nccl/nccl_failures_test.cpp",
    "runtime/backends/nccl/nccl_calls": "runtime/cuda/device_conformance_test.py",
    "runtime/backends/nccl/nccl_communicator": "runtime/backends/nccl/nccl_failures_test.cpp",
    "runtime/backends/nccl/nccl_functions": "runtime/backends/nccl/nccl_groups_test.cpp",
    "runtime/backends/nccl/nccl_library": "runtime/backends/nccl/nccl_groups_test.cpp",
    "runtime/api/stream": "runtime/backends/nccl/nccl_streams_test.cpp",
    "runtime/staging/carried_memory": "runtime/cuda/device_conformance_test.py",
    "runtime/base/group_end": "runtime/backends/nccl/nccl_watchdog_test.cpp",
    "runtime/cuda/cuda_copies": "runtime/staging/staged_streams_test.cpp",
    "runtime/cuda/cuda_events": "runtime/backends/nccl/nccl_streams_test.cpp",
    "runtime/cuda/cuda_functions": "runtime/backends/nccl/nccl_groups_test.cpp",
    "runtime/cuda/cuda_library": "runtime/staging/staged_groups_test.cpp",
    "runtime/cuda/module": "runtime/staging/staged_groups_test.cpp",
    "runtime/cuda/shared_library": "runtime/backends/nccl/nccl_groups_test.cpp",
    "runtime/staging/device_copies": "runtime/staging/staged_streams_test.cpp",
    "runtime/staging/staged_backend": "runtime/staging/staged_groups_test.cpp",
    "runtime/staging/staged_call": "runtime/staging/staged_streams_test.cpp",
    "runtime/staging/staging_thread": "runtime/staging/staged_failures_test.cpp",
    "runtime/group/together": "runtime/group/group_test.cpp",
    "runtime/base/ended_receives": "runtime/point_to_point/memory_messenger_test.cpp",
    "runtime/record/message_wait": "runtime/backends/mpi/mpi_test.py",
    "runtime/group/backend_world": "runtime/backends/mpi/mpi_test.py",
    "runtime/backends/threads/module": "runtime/api/threads_test.cpp",
    "runtime/backends/threads/thread_transport": "runtime/backend/mailbox_test.cpp",
    "runtime/base/host_name": "runtime/rendezvous/rendezvous_test.cpp",
    "runtime/base/log": "runtime/api/debug_test.cpp",
    "runtime/torch/autograd_context": "runtime/torch/dist_autograd_test.cpp",
    "runtime/torch/autograd_graph": "runtime/torch/data_parallel_test.cpp",
    "runtime/torch/backward_pass": "runtime/torch/dist_autograd_errors_test.cpp",
    "runtime/torch/graph_run": "runtime/torch/dist_autograd_test.cpp",
    "runtime/torch/data_parallel_impl": "runtime/torch/data_parallel_test.cpp",
    "runtime/torch/data_parallel_join": "runtime/torch/join_test.cpp",
    "runtime/torch/guarded_model": "runtime/torch/join_test.cpp",
    "runtime/torch/join_count": "runtime/torch/join_test.cpp",
    "runtime/torch/fully_sharded_impl": "runtime/torch/fully_sharded_errors_test.cpp",
    "runtime/torch/fully_sharded_steps": "runtime/torch/fully_sharded_test.cpp",
    "runtime/torch/sharded_unit": "runtime/torch/fully_sharded_test.cpp",
    "runtime/torch/power_sgd_state": "runtime/torch/power_sgd_test.cpp",
    "runtime/torch/module_tensors": "runtime/torch/data_parallel_errors_test.cpp",
    "runtime/torch/operands": "runtime/torch/distributed_test.cpp",
    "runtime/torch/comm_hooks": "runtime/torch/device_hooks_test.cpp",
    "runtime/torch/cuda_streams": "runtime/torch/device_modules_test.cpp",
    "runtime/torch/devices": "runtime/torch/device_modules_test.cpp",
    "runtime/torch/node_streams": "runtime/torch/device_maps_test.cpp",
    "runtime/torch/rpc_devices": "runtime/torch/device_maps_test.cpp",
    "runtime/data_parallel/gradient_device": "runtime/data_parallel/device_gradients_test.cpp",
    "runtime/data_parallel/reducer_impl": "runtime/data_parallel/gradient_reducer_test.cpp",
    "runtime/data_parallel/reducer_reports": "runtime/data_parallel/reducer_errors_test.cpp",
    "runtime/group/coordinated_call": "runtime/group/rank_in_call_test.cpp",
    "runtime/group/default_group": "runtime/group/world_test.cpp",
    "runtime/group/group_description": "runtime/group/new_group_test.cpp",
    "runtime/group/group_impl": "runtime/group/group_test.cpp",
    "runtime/group/group_messages": "runtime/group/point_to_point_test.cpp",
    "runtime/group/group_operations": "runtime/group/group_collectives_test.cpp",
    "runtime/group/group_unseen": "runtime/backends/nccl/nccl_records_test.cpp",
    "runtime/group/process_group": "runtime/group/group_test.cpp",
    "runtime/group/separate_group": "runtime/api/c_bindings_test.c",
    "runtime/rendezvous/job_store": "runtime/group/world_test.cpp",
    "runtime/base/demangled": "runtime/record/crash_recorder_test.cpp",
    "runtime/record/page_words": "runtime/record/recorder_test.cpp",
    "runtime/record/unix_clock": "runtime/record/recorder_test.cpp",
    "runtime/collectives/copy_block": "runtime/collectives/gather_test.cpp",
    "runtime/rpc_protocol/cut": "runtime/rpc_protocol/send_queue_test.cpp",
    "runtime/rpc/outgoing_call": "runtime/rpc/rref_test.cpp",
    "runtime/rpc/references": "runtime/rpc/rref_test.cpp",
    "runtime/rpc/reply": "runtime/rpc/rref_test.cpp",
    "runtime/rpc/rref_calls": "runtime/rpc/rref_test.cpp",
    "runtime/rpc/peer": "runtime/rpc/agent_test.cpp",
    "runtime/rpc/peer_table": "runtime/rpc/agent_test.cpp",
    "runtime/rpc/request": "runtime/rpc/agent_test.cpp",
    "runtime/rpc/rpc_calls": "runtime/rpc/rpc_test.cpp",
    "runtime/rpc/rpc_world": "runtime/rpc/rpc_test.cpp",
    "runtime/rpc/serve": "runtime/rpc/rpc_test.cpp",
    "runtime/rpc/worker_set": "runtime/rpc/rpc_test.cpp",
    "runtime/store_server/module": "runtime/rendezvous/served_store_test.cpp",
    "runtime/store_server/store_server": "runtime/rendezvous/served_store_test.cpp",
    "runtime/tls/module": "process/secret_test.py",
}


def units():
    """The paths of all units, without their suffixes."""
    found = set()
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            room = os.path.relpath(place, ROOT)
            found.update(f"{room}/{name.rpartition('.')[0]}" for name in names if name.endswith(SOURCE))
    return {unit for unit in found if not unit.startswith(PUBLIC_HEADERS)}


def own_test(unit):
    """The test file of the unit's name, as a path below tests/; None if there is none."""
    room, _, name = unit.rpartition("/")
    for ending in TESTS:
        path = f"{TESTS_OF_ROOM.get(room, room)}/{name}{ending}"
        if os.path.exists(os.path.join(ROOT, "tests", path)):
            return path
    return None


def complaints(found, covered):
    for unit in sorted(found):
        if not own_test(unit) and unit not in covered:
            yield f"{unit}: it has no test file of its name, and no line in tests/house/units.py"
    for unit, test in sorted(covered.items()):
        if unit not in found:
            yield f"tests/house/units.py: {unit} does not exist"
        elif own := own_test(unit):
            yield f"tests/house/units.py: {unit} has a test of its name, tests/{own}"
        if not test.endswith(TESTS) or not os.path.exists(os.path.join(ROOT, "tests", test)):
            yield f"tests/house/units.py: {unit} is covered by tests/{test}, which is no test file"


def main():
    found = units()
    covered = COVERED_BY | RUNTIME_COVERED_BY
    lines = list(complaints(found, covered))
    for line in lines:
        print(line)
    print(f"{len(found)} units, {len(covered)} covered by the test of another name, {len(lines)} complaints")
    return 1 if lines or len(found) < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
