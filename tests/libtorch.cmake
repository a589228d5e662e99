# libdlaunch_torch.
if(TARGET dlaunch_torch)
  set(torch_tests
    runtime/torch/data_parallel_errors_test.cpp
    runtime/torch/data_parallel_test.cpp
    runtime/torch/distributed_test.cpp
    runtime/torch/fully_sharded_errors_test.cpp
    runtime/torch/fully_sharded_join_test.cpp
    runtime/torch/fully_sharded_test.cpp
    runtime/torch/join_test.cpp
    runtime/torch/power_sgd_test.cpp
    runtime/torch/sampler_test.cpp
    runtime/torch/tensor_test.cpp
    runtime/torch/zero_redundancy_test.cpp)
  dlaunch_test(NAME libtorch_test LABELS runtime OPTIMISED TOGETHER SOURCES ${torch_tests} LIBS dlaunch_torch dlaunch_libtorch)
  target_compile_options(libtorch_test PRIVATE ${test_options})
  dlaunch_precompile_libtorch(libtorch_test libtorch_test)
  # Workers are processes of their own.
  if(TARGET dlaunch_store_host AND NOT DLAUNCH_SANITIZE STREQUAL "thread")  # which knows no fork
    dlaunch_test(NAME libtorch_rpc_test LABELS runtime TIMEOUT 120 OPTIMISED
    SOURCES
      runtime/torch/bucket_memory_test.cpp
      runtime/torch/dist_autograd_errors_test.cpp
      runtime/torch/dist_autograd_test.cpp
      runtime/torch/distributed_optimizer_test.cpp
      runtime/torch/remote_module_test.cpp
      runtime/torch/rpc_tensors_test.cpp
    LIBS dlaunch_torch dlaunch_libtorch dlaunch_store_host)
    target_compile_options(libtorch_rpc_test PRIVATE ${test_options})
    dlaunch_precompile_libtorch(libtorch_rpc_test libtorch_test)
  endif()
  # Modules on GPUs: with Debian's LibTorch, which has no part that computes there, on a double of that part; with one that has it,
  # on the machine's GPUs, when DLAUNCH_TEST_GPUS has their number and LD_LIBRARY_PATH the folders of LibTorch's libraries.
  get_target_property(version dlaunch_libtorch DLAUNCH_VERSION)
  if(TARGET nccl_double AND (version VERSION_LESS 2 OR TARGET dlaunch_libtorch_cuda))
    if(version VERSION_LESS 2)
      set(computing doubles/torch_cuda.cpp)
    else()
      set(computing runtime/torch/torch_on_gpus.cpp)
    endif()
    dlaunch_test(NAME device_modules_test LABELS runtime TIMEOUT 120 OPTIMISED
    SOURCES
      ${computing}
      runtime/torch/device_hooks_test.cpp
      runtime/torch/device_maps_test.cpp
      runtime/torch/device_modules_test.cpp
      runtime/torch/device_sharded_test.cpp
    LIBS dlaunch_torch dlaunch_libtorch dlaunch_store_host cuda_double
    ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/doubles)
    target_compile_options(device_modules_test PRIVATE ${test_options})
    dlaunch_precompile_libtorch(device_modules_test libtorch_test)
    target_include_directories(device_modules_test SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
    # LibTorch's CUDA needs more of CUDA's runtime than the double has; the real one is there when it runs.
    target_link_options(device_modules_test PRIVATE LINKER:--allow-shlib-undefined)
    set_target_properties(device_modules_test PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/doubles")
    add_dependencies(device_modules_test dlaunch_backend_nccl dlaunch_cuda_staging dlaunch_backend_gloo dlaunch_store_server_module
      driver_double nccl_double)
  endif()
  # Python cannot be compared with under sanitizers, which slow one side down only and find nothing new here.
  if(NOT DLAUNCH_SANITIZE)
    add_executable(train_small_net runtime/torch/train_small_net.cpp)
    dlaunch_settings(train_small_net)
    target_link_libraries(train_small_net PRIVATE dlaunch_torch dlaunch_libtorch)
    set_target_properties(train_small_net PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    dlaunch_script_tests(NAME libtorch SCRIPT runtime/torch/against_python_test.py BASE unittest.TestCase)
  endif()
endif()
