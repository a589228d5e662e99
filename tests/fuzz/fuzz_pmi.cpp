// libFuzzer: what a worker, or the process that serves PMIx, sends to its agent, in any pieces and from two
// clients. Each answer is lines that its client can read, a client that was dropped gets none, and the node
// arrives at a barrier once.

#include <algorithm>
#include <set>
#include <string_view>
#include <type_traits>
#include <variant>

#include "agent/pmi/pmi_server.h"
#include "agent/pmi/pmix_server.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch::agent;

template <class Server>
class Node {
 public:
  // Its clients are numbered 0 and 1; of PMIx 1 is the process that serves it.
  static constexpr int slots = std::is_same_v<Server, PmixServer> ? 1 : 2;

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
      require(!dropped_.contains(reply->client));
      require(reply->bytes.starts_with("cmd=") && reply->bytes.ends_with('\n'));
      constexpr bool is_pmix = std::is_same_v<Server, PmixServer>;
      require(is_pmix || reply->bytes.find('\n') == reply->bytes.size() - 1);
      constexpr std::size_t longest = longest_pmi_value + longest_pmi_key + 128;
      require(reply->bytes.size() <= (is_pmix ? most_pmix_variables + longest_pmi_line + 128 : longest));
    } else if (const auto* drop = std::get_if<PmiDrop>(&action)) {
      require(dropped_.insert(drop->client).second);
    } else if (const auto* arrived = std::get_if<PmiArrived>(&action)) {
      require(!arrived_ && arrived->barrier == server_.barrier());
      require(std::is_same_v<Server, PmixServer> || dropped_.empty());
      arrived_ = true;
    }
  }

  Server server_{{"kvs", slots, 0, slots, "(vector,(0,1,2))"}};
  std::set<int> dropped_;
  bool arrived_ = false;
};

template <class Server>
void send_all(std::size_t piece, std::string_view all) {
  Node<Server> node;
  for (std::size_t at = 0; at < all.size(); at += piece)
    node.take(2 - Node<Server>::slots, all.substr(at, piece));
  Node<Server> both;  // line by line, one rank after the other
  int rank = 0;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size() - 1) + 1;
    both.take(rank, all.substr(at, end - at));
    rank = 1 - rank;
    at = end;
  }
}

void fuzz(FuzzInput input) {
  const std::size_t piece = std::size_t{1} + input.choice();
  const std::string_view all = input.text();
  send_all<PmiServer>(piece, all);
  send_all<PmixServer>(piece, all);
}

}  // namespace
