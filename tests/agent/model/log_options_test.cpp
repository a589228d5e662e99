#include "agent/model/log_options.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(LogOptions, FilesAreMadeOnlyIfOutputGoesIntoThem) {
  LogOptions options;
  EXPECT_FALSE(wants_log_files(options));
  options.dir = "/somewhere";
  EXPECT_FALSE(wants_log_files(options));
  options.tee.all = Streams::out;
  EXPECT_TRUE(wants_log_files(options));
  options.dir = "/dev/null";
  EXPECT_FALSE(wants_log_files(options));
}

}  // namespace
}  // namespace dlaunch::agent
