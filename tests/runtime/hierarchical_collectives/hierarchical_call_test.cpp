// The collectives of groups on several hosts. The hosts are made of threads: those of one host share memory,
// and messages between hosts go through a mailbox.
#include "runtime/hierarchical_collectives/hierarchical_call.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/runtime/collectives/any_call.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace dlaunch::internal {
namespace {

using namespace test;

using Placement = std::vector<int>;  // by rank: its host

// What the ranks of a group have, each for itself and its host.
class Hosts {
 public:
  explicit Hosts(const Placement& placement) : map_(HostMap::of(std::span<const int>(placement))) {
    std::vector<std::shared_ptr<Segment>> segments;
    for (std::size_t host = 0; host < map_.hosts(); ++host) segments.push_back(new_segment(size()));
    for (int rank = 0; rank < size(); ++rank) {
      const std::size_t host = map_.host_of(rank);
      memories_.emplace_back();
      if (map_.ranks_of(host).size() == 1) continue;
      memories_.back() =
          std::make_unique<GroupMemory>(segments[host], map_.ranks_of(host), map_.place_of(rank), [](int) {});
      memories_.back()->set_on_mismatch(throw_other_call);
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(map_.ranks()); }
  [[nodiscard]] const HostMap& map() const { return map_; }

  // Makes the calls on a thread for each rank. `calls_of(rank)`: mostly the same for all.
  template <class CallsOf>
  std::vector<std::exception_ptr> run(const CallsOf& calls_of, Results& results, Deadline deadline = soon()) {
    results.assign(map_.ranks(), {});
    return on_ranks(size(), [&](std::unique_ptr<Transport> transport) {
      const int rank = transport->rank();
      Workspace workspace;
      ReductionOrders orders;
      const HierarchicalGroup group{map_, *transport, memories_[static_cast<std::size_t>(rank)].get(),
                                    workspace, orders};
      std::uint64_t number = 0;
      for (const Call& call : calls_of(rank)) {
        const CollectiveFingerprint fingerprint = fingerprint_of(call);
        HierarchicalCall hierarchical(group, fingerprint, ++number, deadline);
        const std::vector<std::byte> result = make_call(hierarchical, call, rank, size());
        auto& all = results[static_cast<std::size_t>(rank)];
        all.insert(all.end(), result.begin(), result.end());
      }
    });
  }

 private:
  const HostMap map_;
  std::vector<std::unique_ptr<GroupMemory>> memories_;  // by rank; null: it is alone on its host
};

Results on_hosts(const std::vector<Call>& calls, const Placement& placement) {
  Hosts hosts(placement);
  Results results;
  expect_success(hosts.run([&](int) { return calls; }, results));
  return results;
}

void expect_results_of_messages(const std::vector<Call>& calls, const Placement& placement) {
  expect_same_bits(on_hosts(calls, placement), over_messages(calls, static_cast<int>(placement.size())));
}

class AtPlacement : public testing::TestWithParam<Placement> {};
std::string name_of(const testing::TestParamInfo<Placement>& its) {
  std::string name;
  for (const int host : its.param) name += static_cast<char>('a' + host);
  return name;
}
#if defined(__SANITIZE_THREAD__)  // which makes each wait and each wake many times slower
INSTANTIATE_TEST_SUITE_P(HierarchicalCollectives, AtPlacement,
                         testing::Values(Placement{0, 0, 1}, Placement{0, 1, 1, 0}), name_of);
#else
INSTANTIATE_TEST_SUITE_P(HierarchicalCollectives, AtPlacement,
                         testing::Values(Placement{0, 0, 1}, Placement{0, 1, 1, 0}, Placement{0, 1, 1, 2, 1},
                                         Placement{0, 0, 1, 1, 2, 2, 3, 3}),
                         name_of);
#endif

TEST_P(AtPlacement, ResultsAreThoseOverMessages) {
  std::vector<Call> calls;
  const int size = static_cast<int>(GetParam().size());
  for (const CollectiveKind kind : all_kinds) {
    for (const std::size_t count : {0U, 1U, 24U, 1000U, 2048U, 8193U, 40000U}) {
      calls.push_back({.kind = kind, .count = count, .root = static_cast<int>(count) % size, .exact = true});
    }
  }
  expect_results_of_messages(calls, GetParam());
}

TEST_P(AtPlacement, EveryReductionIsThatOverMessages) {
  std::vector<Call> calls;
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce, CollectiveKind::reduce_scatter}) {
    for (const ReduceOp op : test::all_ops) {
      const bool is_exact = !why_not_allowed(DType::float32, op) &&
                            (op != ReduceOp::avg || GetParam().size() == 4 || GetParam().size() == 8);
      for (const std::size_t count : {std::size_t{5}, std::size_t{9001}}) {
        if (is_exact) calls.push_back({kind, count, DType::float32, op, 1, true});
        if (!why_not_allowed(DType::int32, op)) calls.push_back({kind, count, DType::int32, op, 1});
        if (!why_not_allowed(DType::int64, op)) calls.push_back({kind, count, DType::int64, op, 0});
      }
    }
  }
  expect_results_of_messages(calls, GetParam());
}

// Sums of any floats: in which order is not promised, but it is one for all ranks and every time.
TEST_P(AtPlacement, SumsHaveTheSameBitsOnAllRanksEachTime) {
  std::vector<Call> calls;
  for (const std::size_t count : {5U, 3000U, 20000U})
    calls.push_back({.kind = CollectiveKind::all_reduce, .count = count});
  const Results once = on_hosts(calls, GetParam());
  EXPECT_EQ(once, on_hosts(calls, GetParam()));
  // What make_call returns of an all_reduce begins with its result.
  const auto result_of_first = [&](std::size_t rank) {
    return std::vector<std::byte>(once[rank].begin(), once[rank].begin() + 5 * sizeof(float));
  };
  for (std::size_t rank = 1; rank < once.size(); ++rank) EXPECT_EQ(result_of_first(rank), result_of_first(0));
}

TEST_P(AtPlacement, CallsInAnyOrderFollowEachOther) {
  std::mt19937 random(static_cast<unsigned>(GetParam().size()));
  std::vector<Call> calls;
  for (int i = 0; i < 150; ++i) {
    calls.push_back({.kind = all_kinds[random() % std::size(all_kinds)],
                     .count = random() % 3 == 0 ? random() % 40000 : random() % 300,
                     .root = static_cast<int>(random() % GetParam().size()),
                     .exact = true});
  }
  expect_results_of_messages(calls, GetParam());
}

// --- Failures

// All ranks of one host make another call than those of the other, or with another root.
TEST(HierarchicalCollectives, DifferentCallsOfTwoHostsAreAnErrorThatShowsBoth) {
  const Call all_reduce{.kind = CollectiveKind::all_reduce, .count = 10};
  const Call other_size{.kind = CollectiveKind::all_reduce, .count = 100000};
  const Call from_3{.kind = CollectiveKind::broadcast, .count = 10, .root = 3};
  for (const Call& other : {other_size, from_3}) {
    Hosts hosts({0, 0, 1, 1});
    Results results;
    const auto texts =
        messages(hosts.run([&](int rank) { return std::vector{rank < 2 ? all_reduce : other}; }, results,
                           deadline_after(std::chrono::seconds(1))));
    // One of the two delegates. A backend would abort the transport then; here the others wait in vain.
    const std::string& text =
        texts[0].find("different operations") != std::string::npos ? texts[0] : texts[2];
    EXPECT_NE(text.find("the ranks call different operations"), std::string::npos) << texts[0] << texts[2];
    EXPECT_NE(text.find("all_reduce(10 x float32, sum)"), std::string::npos) << text;
  }
}

TEST(HierarchicalCollectives, AWaitForAnotherHostEndsAtItsDeadline) {
  for (const CollectiveKind kind : all_kinds) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100000}}) {
      Hosts hosts({0, 0, 1, 1});
      // The ranks of the second host do not come; those of the first wait in all calls.
      const bool reads = kind != CollectiveKind::broadcast && kind != CollectiveKind::scatter;
      const Call call{.kind = kind, .count = count, .root = reads ? 0 : 3};
      Results results;
      const auto texts =
          messages(hosts.run([&](int rank) { return rank < 2 ? std::vector{call} : std::vector<Call>(); },
                             results, deadline_after(std::chrono::milliseconds(50))));
      // The one of the two that is later may find that the other one has given up.
      const bool is_late = texts[0].find("before the deadline") != std::string::npos ||
                           texts[1].find("before the deadline") != std::string::npos;
      EXPECT_TRUE(is_late) << texts[0] << "; " << texts[1];
      EXPECT_NE(texts[0], "") << "rank 0 waits in all calls";
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
