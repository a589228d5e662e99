// What a backend and a transport do unless they override it.

#include "dlaunch/backend.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/transport.h"

namespace dlaunch::internal {
namespace {

class NoBackend final : public Backend {
 public:
  void abort(const std::string& /*reason*/) noexcept override {}
  void shutdown() noexcept override {}
};

TEST(Backend, OffersNothingByItself) {
  NoBackend backend;
  const Operation operation{1, Deadline::max(), false};
  const Tensor none;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"all_reduce", [&] { backend.all_reduce(none, {}, operation); }},
      {"broadcast", [&] { backend.broadcast(none, 0, operation); }},
      {"all_gather", [&] { backend.all_gather({}, none, operation); }},
      {"barrier", [&] { backend.barrier(operation); }},
      {"reduce", [&] { backend.reduce(none, 0, {}, operation); }},
      {"gather", [&] { backend.gather({}, none, 0, operation); }},
      {"scatter", [&] { backend.scatter(none, {}, 0, operation); }},
      {"reduce_scatter", [&] { backend.reduce_scatter(none, {}, {}, operation); }},
      {"all_to_all", [&] { backend.all_to_all({}, {}, operation); }},
      {"all_reduce_coalesced", [&] { backend.all_reduce_coalesced({}, {}, operation); }},
      {"send", [&] { backend.send(none, 0, 0, operation); }},
      {"recv", [&] { backend.recv(none, 0, 0, operation); }},
  };
  for (const auto& [name, call] : calls) {
    try {
      call();
      ADD_FAILURE() << name;
    } catch (const DistBackendError& e) {
      EXPECT_EQ(e.what(), "the backend does not offer " + name);
    }
  }
  backend.check();
  backend.leave(Deadline::min());
  EXPECT_EQ(backend.departed(), std::vector<int>{});
}

// As a third party writes it: only what it must.
class PlainTransport final : public Transport {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  std::unique_ptr<Transfer> post_send(int, std::uint64_t, std::span<const std::byte>) override { return {}; }
  std::unique_ptr<Transfer> post_recv(int, std::uint64_t, std::span<std::byte>) override { return {}; }
  EagerChannel& eager_channel() override { throw DistError("none"); }
  std::unique_ptr<AnySourceReceive> post_recv_any(std::uint64_t, std::span<std::byte>) override { return {}; }
  void check() override {}
  void abort(const std::string& reason) noexcept override { aborted = reason; }
  void shutdown(Deadline) noexcept override {}

  std::string aborted;
};

TEST(Transport, NamesTheBlamedRankInItsReason) {
  PlainTransport transport;
  transport.abort_for(3, "it is missing");
  EXPECT_EQ(transport.aborted, "because of rank 3: it is missing");
}

TEST(Transport, KnowsOfNoOtherRank) {
  PlainTransport transport;
  transport.enter(1);
  EXPECT_EQ(transport.departed(), std::vector<int>{});
  EXPECT_EQ(transport.query_progress(1).stragglers, std::vector<int>{});
  EXPECT_EQ(transport.query_progress(1).unresponsive, std::vector<int>{});
}

// A group whose transport cannot say when a message comes must listen at once.
TEST(Transport, ExpectsAMessageAtOnce) {
  PlainTransport transport;
  int calls = 0;
  transport.on_unexpected_message(1, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
  transport.on_unexpected_message(1, nullptr);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace dlaunch::internal
