// Recordings of real PyTorch clients and servers (captures/README.md), replayed to dlaunch's server: it must
// answer as PyTorch's did, byte for byte.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "store/server/server.h"
#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace test;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

class Captures : public testing::TestWithParam<std::string> {
 protected:
  void play(std::size_t piece) {
    FakeNetwork network;
    StoreServer server(network, network, network, {});
    ASSERT_TRUE(server.listen({"127.0.0.1", 29500}));
    const ConnId own = network.arrive();
    network.give(own, greeting);

    struct Side {
      ConnId conn;
      std::string got;
      std::string wanted;
      std::string labels;
    };
    std::map<int, Side> sides;
    std::string label;
    std::ifstream file(DLAUNCH_SOURCE_DIR "/tests/store/captures/" + GetParam());
    ASSERT_TRUE(file);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string first;
      std::string second;
      std::string third;
      words >> first >> second >> third;
      if (first == "#") {
        label = line;
      } else if (first == "*") {
        std::string value;
        words >> value;
        network.give(own, encoded(request(second == "set" ? RequestKind::set : RequestKind::queue_push, third,
                                          value)));
      } else {
        const int number = std::stoi(first);
        if (!sides.contains(number)) sides[number].conn = network.arrive();
        Side& side = sides[number];
        const std::string bytes = from_hex(third);
        if (second == ">") {
          for (std::size_t at = 0; at < bytes.size(); at += piece)
            network.give(side.conn, bytes.substr(at, piece));
        } else if (second == "<") {
          side.wanted += bytes;
          network.pass(std::chrono::seconds(1));  // for 1.13's DELETE_KEY
        } else {
          EXPECT_TRUE(network.closed(side.conn)) << label;
        }
        side.got += network.take(side.conn);
        const std::string& shorter = side.got.size() < side.wanted.size() ? side.got : side.wanted;
        ASSERT_TRUE(side.got.starts_with(shorter) && side.wanted.starts_with(shorter))
            << "connection " << number << ", " << label;
      }
    }
    for (auto& [number, side] : sides) {
      side.got += network.take(side.conn);
      EXPECT_EQ(side.got, side.wanted) << "connection " << number;
    }
  }
};

TEST_P(Captures, AreAnsweredAlike) { play(1 << 20); }
TEST_P(Captures, AreAnsweredAlikeByteByByte) { play(1); }

INSTANTIATE_TEST_SUITE_P(PyTorch, Captures,
                         testing::Values("all-ops-1.13.txt", "all-ops-2.6.txt", "all-ops-2.9.txt",
                                         "gloo-1.13-W2.txt", "gloo-2.9-W2.txt", "gloo-2.9-W4.txt",
                                         "gloo-2.9-W4-v2api.txt"),
                         [](const auto& one) {
                           std::string name = one.param.substr(0, one.param.size() - 4);
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace dlaunch::store
