#!/usr/bin/env python3
"""The house finds functions and their lines, whatever stands in and before them."""

import unittest

from functions import functions


class Functions(unittest.TestCase):
    def expect(self, code, *found):
        self.assertEqual(list(functions(code)), list(found))

    def test_in_namespaces_and_classes(self):
        self.expect("namespace a::b {\nnamespace {\nint f() {\n  return 1;\n}\n}\nclass X final : public Y<int()> {\n public:\n"
                    "  void g() const {\n    if (a) {\n    }\n  }\n};\n}\n", (3, 5, "f"), (9, 12, "g"))

    def test_with_templates_and_results_that_are_structs(self):
        self.expect("template <class T>\nrequires (T::ok)\nstruct R f(T t) {\n}\n", (1, 4, "f"))
        self.expect("struct rusage usage(int pid) {\n}\nextern \"C\" {\nint c(void) {\n}\n}\n", (1, 2, "usage"), (4, 5, "c"))

    def test_constructors_whose_initialisers_have_braces(self):
        self.expect("X::X(int a)\n    : a_{a}, b_(a), c_{{1}} {\n  run();\n}\nint x;\n", (1, 2, "X::X"), (1, 2, "X::X"), (1, 4, "X::X"))

    def test_braces_in_literals_comments_and_macros_do_not_count(self):
        self.expect("void f() {\n  g(\"{\", '{', R\"x({{)x\", 1'000); // {\n  /* {\n */\n#define B {\n}\n", (1, 6, "f"))

    def test_tables_are_none(self):
        self.expect("constexpr std::array<Row, 2> rows{{\n  {1},\n  {2},\n}};\nenum class E { a, b };\n")

    def test_tests_have_their_name(self):
        self.expect("TEST_F(Suite, DoesIt) {\n}\n", (1, 2, "Suite.DoesIt"))


if __name__ == "__main__":
    unittest.main()
