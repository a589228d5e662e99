#include "runtime/backends/gloo/mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dlaunch {

namespace {

using Connections = ::gloo::transport::Context;

sockaddr_storage socket_address(const std::vector<char>& bytes) {
  return ::gloo::transport::tcp::Address(bytes).getSockaddr();
}

std::string key_of(int rank) { return "addresses/" + std::to_string(rank); }

// Closes what has not come about by the deadline: who waits for it goes on then.
class Limit {
 public:
  Limit(Connections& connections, Deadline deadline)
      : connections_(connections), thread_([this, deadline] { watch(deadline); }) {}

  ~Limit() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

  [[nodiscard]] bool has_closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  void watch(Deadline deadline) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_until(lock, deadline, [this] { return over_; })) return;
      closed_ = true;
    }
    for (int rank = 0; rank < connections_.size; ++rank) {
      if (rank != connections_.rank) connections_.getPair(rank)->close();
    }
  }

  Connections& connections_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  bool over_ = false;
  bool closed_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

Mesh::Mesh(const BackendContext& context, const std::shared_ptr<::gloo::transport::Device>& device)
    : Context(context.rank, context.size) {
  setTimeout(::gloo::kNoTimeout);
  device_ = device;
  transportContext_ = device->createContext(rank, size);
  transportContext_->setTimeout(::gloo::kNoTimeout);

  // Each connection listens at an address of its own. A rank tells all of them, which are of one length, in
  // the order of the ranks that they are for.
  std::string addresses;
  std::size_t length = 0;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
    addresses.append(address.begin(), address.end());
    length = address.size();
  }
  context.store.set(key_of(rank), addresses);

  std::vector<Sockets::Connection> connections;
  Limit limit(*transportContext_, context.deadline);
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::string theirs = context.store.get(key_of(peer), context.deadline);
    if (theirs.size() != addresses.size()) {
      throw DistNetworkError("it counts another number of ranks than this one's " + std::to_string(size),
                             {.peer = peer});
    }
    const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(
                                            static_cast<std::size_t>(rank - (peer < rank ? 1 : 0)) * length);
    const std::vector<char> there(begin, begin + static_cast<std::ptrdiff_t>(length));
    getPair(peer)->connect(there);
    if (limit.has_closed())
      throw DistNetworkError("no connection came about before the deadline", {.peer = peer});
    connections.push_back({peer, socket_address(getPair(peer)->address().bytes()), socket_address(there)});
  }
  sockets_.emplace(connections);
}

}  // namespace dlaunch
