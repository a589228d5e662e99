// Random and mutated bytes through the server: a short run of the fuzzer.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/key_fuzz_client.h"
#include "tests/fuzz/store_fuzz_client.h"

namespace dlaunch::store {
namespace {

using namespace test;

class RandomBytes : public testing::Test {
 protected:
  std::size_t below(std::size_t limit) { return random() % limit; }
  std::string noise(std::size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  // A real client's requests.
  std::string conversation() {
    const Dialect dialect = std::array{Dialect::v1_13, Dialect::v2_1, Dialect::v2_2}[below(3)];
    const std::vector<Request> all = one_of_each(dialect);
    std::string bytes;
    if (dialect == Dialect::v2_2) bytes = greeting;
    for (std::size_t count = below(20); count > 0; --count) bytes += encoded(all[below(all.size())], dialect);
    return bytes;
  }
  // Flips, cuts, doubles, inserts; lengths break parsers, so some become large.
  void damage(std::string& bytes) {
    for (std::size_t count = below(4); count > 0 && !bytes.empty(); --count) {
      const std::size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + below(8));
          break;
        case 2:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(30)));
          break;
        case 3:
          bytes.insert(at, noise(below(10)));
          break;
        default:
          bytes.replace(at, std::min<std::size_t>(8, bytes.size() - at), std::string(1 + below(8), '\xff'));
          break;
      }
    }
  }

  std::mt19937_64 random{20240229};
};

TEST_F(RandomBytes, SendsNoise) {
  for (int i = 0; i < 1'000; ++i) send_random_requests(noise(16), noise(below(300)));
}

TEST_F(RandomBytes, SendsAlmostWhatAClientWould) {
  for (int i = 0; i < 4'000; ++i) {
    std::string bytes = conversation() + conversation();
    damage(bytes);
    send_random_requests(noise(16), bytes);
  }
}

TEST_F(RandomBytes, SendsNoiseToAStoreWithAKey) {
  for (int i = 0; i < 1'000; ++i) {
    std::string bytes = std::string(key_greeting) + noise(key_nonce_size + mac_size) + conversation();
    damage(bytes);
    send_random_proofs(noise(8), i % 2 == 0 ? bytes : noise(below(300)));
  }
}

TEST_F(RandomBytes, FillsTheStore) {
  std::string bytes = greeting;
  for (int i = 0; i < 120; ++i)  // more than the store may hold
    bytes += encoded(request(RequestKind::set, "key" + std::to_string(i), noise(10'000)));
  send_random_requests(std::string(1, '\0'), bytes);
  send_random_requests(noise(16), bytes);
}

}  // namespace
}  // namespace dlaunch::store
