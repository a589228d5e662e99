#include "store/base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace dlaunch::store {
namespace {

TEST(Random, GivesAsManyBytesAsRequested) {
  EXPECT_EQ(random_bytes(0), "");
  EXPECT_EQ(random_bytes(1).size(), 1U);
  // More than the kernel gives in one call that a signal may interrupt.
  const std::string much = random_bytes(100'000);
  EXPECT_EQ(much.size(), 100'000U);
  EXPECT_EQ(std::set<char>(much.begin(), much.end()).size(), 256U) << "and none is left as it was";
  EXPECT_EQ(much.find(std::string(16, '\0')), std::string::npos);
}

TEST(Random, NoTwoAreTheSame) {
  std::set<std::uint64_t> numbers;
  std::set<std::string> nonces;
  for (int i = 0; i < 1000; ++i) {
    numbers.insert(random_u64());
    nonces.insert(random_bytes(16));
  }
  EXPECT_EQ(numbers.size(), 1000U);
  EXPECT_EQ(nonces.size(), 1000U);
}

}  // namespace
}  // namespace dlaunch::store
