// libFuzzer: what a worker sends to its agent over PMI, in any pieces and from two ranks. Each answer is one
// line that its client can read, a rank that was dropped gets none, and the node arrives at a barrier once.

#include <algorithm>
#include <set>
#include <string_view>
#include <variant>

#include "agent/pmi/pmi_server.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::agent;

class Node {
 public:
  void take(int local_rank, std::string_view piece) {
    for (const PmiAction& action : server_.on_bytes(local_rank, piece)) look(action);
    if (!arrived_) return;
    arrived_ = false;
    for (const PmiAction& action : server_.on_released(server_.barrier(), {{"other", "value"}}, true))
      look(action);
  }

 private:
  void look(const PmiAction& action) {
    if (const auto* reply = std::get_if<PmiReply>(&action)) {
      require(!dropped_.contains(reply->local_rank));
      require(reply->bytes.starts_with("cmd=") && reply->bytes.find('\n') == reply->bytes.size() - 1);
      constexpr std::size_t longest = longest_pmi_value + longest_pmi_key + 128;
      require(reply->bytes.size() <= longest);
    } else if (const auto* drop = std::get_if<PmiDrop>(&action)) {
      require(dropped_.insert(drop->local_rank).second);
    } else if (const auto* arrived = std::get_if<PmiArrived>(&action)) {
      require(!arrived_ && arrived->barrier == server_.barrier() && dropped_.empty());
      arrived_ = true;
    }
  }

  PmiServer server_{{"kvs", 2, 2, "(vector,(0,1,2))"}};
  std::set<int> dropped_;
  bool arrived_ = false;
};

void fuzz(FuzzInput input) {
  Node node;
  const std::size_t piece = std::size_t{1} + input.choice();
  const std::string_view all = input.text();
  for (std::size_t at = 0; at < all.size(); at += piece) node.take(0, all.substr(at, piece));
  Node both;  // line by line, one rank after the other
  int rank = 0;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size() - 1) + 1;
    both.take(rank, all.substr(at, end - at));
    rank = 1 - rank;
    at = end;
  }
}

}  // namespace
