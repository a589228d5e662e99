#include "launcher/options/lifeline_terms.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(RemoteProtocol, TermsAreReadBack) {
  for (const bool out : {false, true}) {
    for (const bool colours : {false, true}) {
      const LifelineTerms terms{"k12", out, !out, colours};
      EXPECT_EQ(*parse_lifeline("--lifeline", to_text(terms)), terms);
    }
  }
  EXPECT_FALSE(parse_lifeline("--lifeline", "").ok());
  EXPECT_FALSE(parse_lifeline("--lifeline", ",out").ok());
  EXPECT_FALSE(parse_lifeline("--lifeline", "k,in").ok());
  EXPECT_FALSE(parse_lifeline("--lifeline", "a b").ok());
}

TEST(LifelineTerms, WhatIsWrongIsQuotedWithItsForm) {
  const auto wrong = parse_lifeline("--lifeline", "k,in");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message(),
            "--lifeline: 'k,in' is not KEY[,out][,err][,colours]; see dlaunch --help");
  EXPECT_FALSE(parse_lifeline("--lifeline", "k,").ok());
  EXPECT_FALSE(parse_lifeline("--lifeline", "k\n").ok()) << "a line would end";
}

}  // namespace
}  // namespace dlaunch::launcher
