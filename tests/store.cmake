# tests of store
set(store_libraries dlaunch_store_host)

dlaunch_test(NAME store_pure_test LABELS store LIBS ${store_libraries} dlaunch_log
  SOURCES
    store/base/address_test.cpp
    store/base/base64_test.cpp
    store/base/bytes_test.cpp
    store/base/cgroup_test.cpp
    store/base/header_text_test.cpp
    store/base/hex_test.cpp
    store/base/hmac_test.cpp
    store/base/locked_dir_test.cpp
    store/base/log_test.cpp
    store/base/out_queue_test.cpp
    store/base/process_stat_test.cpp
    store/base/random_test.cpp
    store/base/result_test.cpp
    store/base/shared_bytes_test.cpp
    store/base/small_file_test.cpp
    store/base/time_test.cpp
    store/contract/worker_page_test.cpp
    store/protocol/capture_test.cpp
    store/protocol/decimal_test.cpp
    store/protocol/key_proof_test.cpp
    store/protocol/wire_test.cpp
    store/server/http_access_test.cpp
    store/server/protocol_mux_limits_test.cpp
    store/server/protocol_mux_test.cpp
    store/server/random_bytes_test.cpp
    store/server/secure_network_test.cpp
    store/server/server_test.cpp
    store/server/session_test.cpp
    store/server/store_access_test.cpp
    store/server/store_key_test.cpp
    store/server/table_test.cpp
    store/server/table_waits_test.cpp)
dlaunch_test(NAME status_page_test LABELS store LIBS dlaunch_status_page nlohmann_json::nlohmann_json
  SOURCES store/server/status_page_test.cpp)
target_compile_definitions(status_page_test PRIVATE DLAUNCH_VERSION="${PROJECT_VERSION}")
dlaunch_test(NAME uv_loop_test THREADED LABELS store LIBS dlaunch_loop
  SOURCES
    store/loop/uv_addresses_test.cpp
    store/loop/uv_connections_test.cpp
    store/loop/uv_listeners_test.cpp
    store/loop/uv_loop_test.cpp
    store/loop/uv_poller_test.cpp)
dlaunch_test(NAME tcp_store_test THREADED LABELS store LIBS ${store_libraries}
  SOURCES
    store/client/blocking_socket_test.cpp
    store/client/tcp_client_test.cpp
    store/client/tcp_store_test.cpp)
dlaunch_test(NAME stores_test THREADED LABELS store LIBS ${store_libraries}
  SOURCES
    store/client/error_text_test.cpp
    store/client/hash_store_test.cpp
    store/client/prefix_store_test.cpp
    store/client/store_test.cpp
    store/client/stores_test.cpp)
dlaunch_test(NAME hosted_store_test THREADED LABELS store LIBS ${store_libraries}
  SOURCES
    store/server/hosted_store_test.cpp
    store/server/store_host_test.cpp)
dlaunch_test(NAME file_store_test THREADED LABELS store LIBS dlaunch_tcp_store
  SOURCES
    store/client/file_record_test.cpp
    store/client/file_store_test.cpp
    store/client/file_watch_test.cpp
    store/client/job_key_test.cpp
    store/client/locked_file_test.cpp
    store/client/steady_time_test.cpp)
dlaunch_test(NAME torch_test APART LABELS pytorch LIBS ${store_libraries} TIMEOUT 300
  SOURCES store/client/torch_test.cpp)
if(OpenSSL_FOUND)
  dlaunch_test(NAME tls_test LABELS store LIBS dlaunch_store_server dlaunch_tls SOURCES
    store/tls/tls_session_test.cpp
    store/tls/tls_test.cpp)
endif()

# Where a library of NVIDIA may be: libdlaunch loads it from there, dlaunch doctor looks there.
dlaunch_test(NAME library_places_test LABELS unit LIBS dlaunch_base
  SOURCES
    store/base/library_places_test.cpp
    store/base/wheel_folders_test.cpp)
