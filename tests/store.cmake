# tests of store
set(store_libraries dlaunch_store_host)

dlaunch_test(NAME store_pure_test LABELS store LIBS ${store_libraries}
  SOURCES store/capture_test.cpp store/decimal_test.cpp store/hmac_test.cpp store/http_access_test.cpp store/key_proof_test.cpp store/server_test.cpp store/session_test.cpp
    store/store_key_test.cpp store/stranger_test.cpp store/table_test.cpp store/wire_test.cpp)
dlaunch_test(NAME status_page_test LABELS store LIBS dlaunch_status_page nlohmann_json::nlohmann_json
  SOURCES store/status_page_test.cpp)
target_compile_definitions(status_page_test PRIVATE DLAUNCH_VERSION="${PROJECT_VERSION}")
dlaunch_test(NAME uv_loop_test LABELS store LIBS dlaunch_loop
  SOURCES store/uv_loop_test.cpp)
dlaunch_test(NAME tcp_store_test LABELS store LIBS ${store_libraries}
  SOURCES store/tcp_client_test.cpp store/tcp_store_test.cpp)
dlaunch_test(NAME stores_test LABELS store LIBS ${store_libraries}
  SOURCES store/stores_test.cpp)
dlaunch_test(NAME hosted_store_test LABELS store LIBS ${store_libraries}
  SOURCES store/hosted_store_test.cpp)
dlaunch_test(NAME file_store_test LABELS store LIBS dlaunch_tcp_store
  SOURCES store/file_store_test.cpp)
dlaunch_test(NAME torch_test LABELS pytorch LIBS ${store_libraries} TIMEOUT 300
  SOURCES store/torch_test.cpp)
if(OpenSSL_FOUND)
  dlaunch_test(NAME tls_test LABELS store LIBS dlaunch_store_server dlaunch_tls SOURCES store/tls_test.cpp)
endif()
