#include "launcher/scheduler/host_list.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Names = std::vector<std::string>;

TEST(HostList, IsSpelledOutAsSlurmDoes) {
  const std::vector<std::pair<std::string, Names>> cases{
      {"a", {"a"}},
      {"a,b.c,d-e", {"a", "b.c", "d-e"}},
      {"c[1-3]", {"c1", "c2", "c3"}},
      {"c[08-11]", {"c08", "c09", "c10", "c11"}},
      {"c[098-101]", {"c098", "c099", "c100", "c101"}},
      {"c[9-10]", {"c9", "c10"}},
      {"c[1,3,5-6]-ib", {"c1-ib", "c3-ib", "c5-ib", "c6-ib"}},
      {"login,r[1-2]n[01-02]", {"login", "r1n01", "r1n02", "r2n01", "r2n02"}},
      {"c[7]", {"c7"}},
      {"[1-2]", {"1", "2"}},
      {"a[b[1-2],c]d", {"ab1d", "ab2d", "acd"}},
      {"c[1-1]", {"c1"}},
      {"c[a-b]", {"ca-b"}},
      {"x[1-2],y[3]", {"x1", "x2", "y3"}},
  };
  for (const auto& [list, names] : cases) {
    auto got = expand_hosts(list);
    ASSERT_TRUE(got.ok()) << list << ": " << got.error().message();
    EXPECT_EQ(*got, names) << list;
  }
}

TEST(HostList, MalformedListIsReported) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "a name is missing"},
      {"a,,b", "a name is missing"},
      {"a,", "a name is missing"},
      {"c[]", "a name is missing"},
      {"c[1,]", "a name is missing"},
      {"c[1-3", "not closed"},
      {"c1-3]", "not opened"},
      {"c[1-3]]", "not opened"},
      {"c[[1-3]", "not closed"},
      {"c[5-3]", "runs backwards"},
      {"c[1-99999999999999999999]", "too large a number"},
      {"c[[[[[[[[[[[1]]]]]]]]]]]", "too many brackets"},
      {std::string(300, 'a'), "too long a name"},
  };
  for (const auto& [list, why] : cases) {
    auto got = expand_hosts(list);
    ASSERT_FALSE(got.ok()) << list;
    EXPECT_EQ(got.error().kind, ErrorKind::invalid) << list;
    EXPECT_NE(got.error().message().find(why), std::string::npos) << got.error().message();
  }
}

// None of these may take memory or time for what they pretend to be.
TEST(HostList, AHugeListIsRefusedBeforeItIsSpelledOut) {
  for (const std::string& list : {std::string("c[0-1000000000]"), std::string("c[0-65536]"),
                                  std::string("a[1-999]b[1-999]c[1-999]d[1-999]"),
                                  std::string("[[0-65535],[0-65535]]"), std::string((1U << 20U) + 1, 'a')}) {
    auto got = expand_hosts(list);
    ASSERT_FALSE(got.ok()) << list.substr(0, 40);
    EXPECT_EQ(got.error().kind, ErrorKind::limit) << list.substr(0, 40);
  }
  EXPECT_EQ(expand_hosts("c[0-65535]")->size(), 65'536U);
  EXPECT_TRUE(expand_hosts("c[1-2]", 2).ok());
  EXPECT_FALSE(expand_hosts("c[1-3]", 2).ok());
}

}  // namespace
}  // namespace dlaunch::launcher
