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
# Four of them train there as well, and take long enough.
set_tests_properties(examples.TrainMnist.test_one_worker_learns examples.TrainMnist.test_two_workers_learn
  PROPERTIES LABELS "process;unsanitized")
