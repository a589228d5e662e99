#include "runtime/backends/gloo/make_backend.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/collective_backend.h"
#include "dlaunch/error.h"
#include "dlaunch/tensor.h"
#include "runtime/backends/gloo/connect.h"
#include "runtime/backends/gloo/tcp_transport.h"

namespace dlaunch::internal {

namespace {

using Offer = TcpTransport::MemoryOffer;

std::vector<Offer> exchange_offers(Backend& backend, const Offer& own, const BackendContext& context) {
  std::vector<Offer> offers(static_cast<std::size_t>(context.size));
  std::vector<Tensor> places;
  places.reserve(offers.size());
  for (Offer& offer : offers) {
    places.push_back(Tensor::of(std::span(reinterpret_cast<std::uint8_t*>(&offer), sizeof offer)));
  }
  constexpr std::uint64_t before_all_others = 0;
  backend.all_gather(places, Tensor::of(std::span(reinterpret_cast<const std::uint8_t*>(&own), sizeof own)),
                     {before_all_others, context.deadline, false});
  return offers;
}

// A rank that does not share rank 0's memory; -1: all do.
int odd_one(std::span<const Offer> offers) {
  if (offers[0].maker < 0) return 0;
  const auto found = std::ranges::find_if(offers, [&](const Offer& offer) {
    return offer.maker != offers[0].maker || offer.identity != offers[0].identity;
  });
  return found == offers.end() ? -1 : static_cast<int>(found - offers.begin());
}

std::string describe(int odd, const Offer& offer) {
  const std::string why = offer.why;
  return "rank " + std::to_string(odd) +
         (odd == 0 ? " shares no memory: " : " shares no memory with rank 0: ") +
         (why.empty() ? "it is on another host, or in another network namespace" : why);
}

}  // namespace

std::unique_ptr<Backend> make_backend(const BackendContext& context, SharedMemoryUse use) {
  GlooConnections connections = connect_over_gloo(context);
  TcpTransport& first = *connections.first;
  auto backend = std::make_unique<CollectiveBackend>(std::move(connections.transport));
  if (context.size == 1) return backend;
  // This rank is connected to all, but perhaps not all ranks are. If this rank returned now and left at once,
  // the ranks that still connect would take it for lost. So all exchange which memory they found.
  std::vector<Offer> offers = exchange_offers(*backend, first.find_memory(context), context);
  for (Offer& offer : offers) offer.why[sizeof offer.why - 1] = '\0';
  const int odd = odd_one(offers);
  if (odd >= 0) {
    const std::string why = describe(odd, offers[static_cast<std::size_t>(odd)]);
    if (use == SharedMemoryUse::required) {
      backend->shutdown();  // in order: the others still receive the offers, and find the same reason
      throw DistBackendError(why + "; use the backend gloo, which needs no shared memory", {.peer = odd});
    }
    first.share_memory(offers);
    static std::atomic_flag is_logged;
    if (context.log && !is_logged.test_and_set()) {
      const HostMap* const hosts = first.hosts();
      context.log("the ranks of group " + context.group +
                  (hosts == nullptr ? " exchange data over TCP"
                                    : " share memory on " + std::to_string(hosts->hosts()) +
                                          " hosts and exchange data over TCP between them") +
                  ", since " + why);
    }
    return backend;
  }
  first.share_memory(offers);
  return backend;
}

}  // namespace dlaunch::internal
