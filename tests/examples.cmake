# tests of examples
dlaunch_test(NAME train_mnist_test
  SOURCES
    examples/checkpoint_test.cpp
    examples/idx_test.cpp
    examples/network_test.cpp
    examples/options_test.cpp
    examples/shard_test.cpp
  LIBS train_mnist_parts)

# The programs themselves, under dlaunch.
dlaunch_script_tests(NAME examples SCRIPT examples/examples_test.py BASE Example)
# Others' programs are built without sanitizers, and cannot load a library with them.
set_tests_properties(examples.OutOfTree.test_a_backend_of_somebody_else examples.OutOfTree.test_a_c_program_through_pkg_config
  PROPERTIES LABELS "process;unsanitized")
# CUDA's libraries are built without sanitizers, too.
set_tests_properties(examples.TrainMnist.test_cuda_without_a_gpu PROPERTIES LABELS "process;unsanitized")
# Others train there on a little of the data.
set_tests_properties(examples.TrainMnist.test_one_worker_learns examples.TrainMnist.test_two_workers_learn
  examples.TrainMnist.test_four_workers_learn PROPERTIES LABELS "process;unsanitized")

# LibTorch is built without sanitizers.
if(TARGET dlaunch_torch AND NOT DLAUNCH_SANITIZE)
  dlaunch_script_tests(NAME libtorch_examples SCRIPT examples/libtorch_examples_test.py BASE Training)
endif()

# On the machine's GPUs, skipped if there are none.
if(NOT DLAUNCH_SANITIZE)
  dlaunch_script_tests(NAME train_mnist_gpu SCRIPT examples/train_mnist_gpu_test.py BASE Training)
  get_directory_property(tests TESTS)
  list(FILTER tests INCLUDE REGEX "^train_mnist_gpu\\.")
  set_property(TEST ${tests} PROPERTY LABELS "process;gpu")
endif()
