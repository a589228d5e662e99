// An expectation on error texts.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace dlaunch::torch {

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
#define EXPECT_HAS(text, part) EXPECT_PRED2(has, text, part)

}  // namespace dlaunch::torch
