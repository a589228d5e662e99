# tests of examples
