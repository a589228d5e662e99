# tests of examples
dlaunch_test(NAME train_mnist_test
  SOURCES examples/checkpoint_test.cpp examples/idx_test.cpp examples/network_test.cpp examples/options_test.cpp
    examples/shard_test.cpp
  LIBS train_mnist_parts)

# The programs themselves, under dlaunch. Only Python's standard library is needed to drive them. Each test method of
# the script is a CTest of its own; the script is the only list of them.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(script ${CMAKE_CURRENT_SOURCE_DIR}/examples/examples_test.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
file(STRINGS ${script} lines REGEX "^class [A-Za-z]+\\(Example\\)|^    def test_")
foreach(line IN LISTS lines)
  if(line MATCHES "^class ([A-Za-z]+)")
    set(class ${CMAKE_MATCH_1})
  elseif(line MATCHES "def (test_[a-z_0-9]+)")
    set(name examples.${class}.${CMAKE_MATCH_1})
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${script} ${class}.${CMAKE_MATCH_1})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "DLAUNCH_BIN_DIR=${CMAKE_BINARY_DIR}/bin"
      SKIP_RETURN_CODE 77 TIMEOUT 180 LABELS "process")
  endif()
endforeach()
