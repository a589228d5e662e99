#include "agent/model/flight_files.h"

#include <gtest/gtest.h>
#include <sys/un.h>

namespace dlaunch::agent {
namespace {

TEST(FlightFiles, EachWorkerOfARoundHasItsOwn) {
  EXPECT_EQ(worker_server_path("/scratch", 3, 1), "/scratch/3_1.worker");
  EXPECT_EQ(torch_socket_path("/scratch", 3, 1), "/scratch/3_1.torch");
  EXPECT_EQ(flight_file_prefix("/scratch", 3), "/scratch/3_flight_rank_") << "PyTorch appends the rank";
}

TEST(FlightFiles, AFileSaysWhoseItIs) {
  EXPECT_EQ(parse_flight_file("3_flight_rank_12"), (FlightFile{3, 12}));
  for (const char* other :
       {"", "3_12.torch", "_flight_rank_1", "3_flight_rank_", "3_flight_rank_-1", "x_flight_rank_1"})
    EXPECT_EQ(parse_flight_file(other), std::nullopt) << other;
}

TEST(FlightFiles, APathThatIsTooLongForASocketIsNone) {
  const std::size_t longest = sizeof(sockaddr_un::sun_path) - 1;
  const std::string rest = "/3_1.torch";
  const std::string folder(longest - rest.size(), 'x');
  EXPECT_EQ(torch_socket_path(folder, 3, 1).size(), longest);
  EXPECT_EQ(torch_socket_path(folder + "x", 3, 1), "");
  EXPECT_EQ(worker_server_path(folder, 3, 1), "");
}

}  // namespace
}  // namespace dlaunch::agent
