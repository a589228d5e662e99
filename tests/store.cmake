# tests of store
set(store_libraries dlaunch_store_host)

dlaunch_test(NAME store_pure_test LABELS store LIBS ${store_libraries}
  SOURCES store/capture_test.cpp store/decimal_test.cpp store/server_test.cpp store/session_test.cpp
    store/stranger_test.cpp store/table_test.cpp store/wire_test.cpp)
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
dlaunch_test(NAME torch_test LABELS store LIBS ${store_libraries} TIMEOUT 300
  SOURCES store/torch_test.cpp)

if(DLAUNCH_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "DLAUNCH_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  # The store's sources once more, so that the fuzzer sees their branches.
  add_executable(fuzz_store_wire fuzz/fuzz_store_wire.cpp
    ${PROJECT_SOURCE_DIR}/store/decimal.cpp ${PROJECT_SOURCE_DIR}/store/front_door.cpp
    ${PROJECT_SOURCE_DIR}/store/server.cpp ${PROJECT_SOURCE_DIR}/store/session.cpp
    ${PROJECT_SOURCE_DIR}/store/table.cpp ${PROJECT_SOURCE_DIR}/store/wire.cpp)
  dlaunch_settings(fuzz_store_wire)
  target_compile_options(fuzz_store_wire PRIVATE -fsanitize=fuzzer,address,undefined -O1 -g1)
  target_link_options(fuzz_store_wire PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(fuzz_store_wire PRIVATE dlaunch_base)
endif()
