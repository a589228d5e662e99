// libFuzzer: an object as another rank might send it. The first byte selects its type; the signature, which
// an attacker knows, precedes the rest. A decoded object must encode to the same bytes.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "dlaunch/any.h"
#include "dlaunch/codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace app {

struct Tree {
  std::variant<std::monostate, int, std::string> value;
  std::vector<Tree> children;
  std::optional<std::pair<bool, float>> mark;
};
template <class Archive>
void serialize(Archive& archive, Tree& tree) {
  archive(tree.value, tree.children, tree.mark);
}

}  // namespace app

namespace {

template <class T>
void read_as(std::string_view payload) {
  const std::uint64_t signature = dlaunch::codec::signature_of<T>();
  std::string bytes(reinterpret_cast<const char*>(&signature), sizeof signature);
  bytes += payload;
  T object;
  try {
    object = dlaunch::from_bytes<T>(bytes);
  } catch (const dlaunch::DistError&) {
    return;
  }
  // Only sorted containers may have another order.
  require(dlaunch::to_bytes(object).size() == bytes.size());
}

void read_any(std::string_view payload) {
  const std::uint64_t signature = dlaunch::codec::signature_of<dlaunch::Any>();
  std::string bytes(reinterpret_cast<const char*>(&signature), sizeof signature);
  bytes += payload;
  try {
    const auto any = dlaunch::from_bytes<dlaunch::Any>(bytes);
    require(dlaunch::from_bytes<dlaunch::Any>(dlaunch::to_bytes(any)) == any);
    (void)to_string(any);
  } catch (const dlaunch::DistError&) {  // as expected
  }
}

void fuzz(FuzzInput input) {
  const unsigned type = input.choice() % 4U;
  const std::string_view payload = input.text();
  switch (type) {
    case 0:
      read_any(payload);
      break;
    case 1:
      read_as<app::Tree>(payload);
      break;
    case 2:
      read_as<std::tuple<std::set<std::string>, std::unordered_set<int>, std::vector<std::monostate>>>(
          payload);
      break;
    default:
      read_as<std::map<int, std::unordered_map<std::string, std::variant<bool, std::set<int>>>>>(payload);
      break;
  }
}

}  // namespace
