#include "runtime/backends/gloo/mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/backends/gloo/last_words.h"
#include "runtime/backends/gloo/told.h"
#include "runtime/deadline.h"
#include "runtime/news.h"

namespace dlaunch {

namespace {

using Connections = ::gloo::transport::Context;

sockaddr_storage socket_address(const std::vector<char>& bytes) {
  return ::gloo::transport::tcp::Address(bytes).getSockaddr();
}

std::string key_of(int rank) { return "addresses/" + std::to_string(rank); }

// Closes what has not come about by the deadline, or when a rank is known to be lost: who waits for it goes
// on then.
class Limit {
 public:
  Limit(Connections& connections, const BackendContext& context)
      : connections_(connections), context_(context), thread_([this] { watch(); }) {}

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

  // To be asked after each connection: to `peer`.
  void throw_if_closed(int peer) {
    const std::lock_guard lock(mutex_);
    if (lost_) std::rethrow_exception(lost_);
    if (closed_) throw DistNetworkError("no connection came about before the deadline", {.peer = peer});
  }

  // A connection to `peer` has failed. Often the peer has only heard before this rank that another one is
  // lost.
  [[noreturn]] void explain(int peer, const std::string& words) {
    await_news(deadline_after(time_for_news), [&] {
      throw_if_closed(peer);
      if (context_.check) context_.check();
    });
    throw DistNetworkError(words, {.peer = peer});
  }

 private:
  void watch() {
    constexpr auto turn = std::chrono::milliseconds(200);
    std::unique_lock lock(mutex_);
    while (!has_passed(context_.deadline)) {
      const Deadline next = std::min(context_.deadline, deadline_after(turn));
      if (changed_.wait_until(lock, next, [this] { return over_; })) return;
      lock.unlock();
      const std::exception_ptr lost = loss();
      lock.lock();
      if (lost) {
        lost_ = lost;
        break;
      }
    }
    closed_ = true;
    lock.unlock();
    for (int rank = 0; rank < connections_.size; ++rank) {
      if (rank != connections_.rank) connections_.getPair(rank)->close();
    }
  }

  std::exception_ptr loss() {
    try {
      if (context_.check) context_.check();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  Connections& connections_;
  const BackendContext& context_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  bool over_ = false;
  bool closed_ = false;
  std::exception_ptr lost_;
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

  std::vector<std::vector<char>> there(static_cast<std::size_t>(size));
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::string theirs = told_by(peer, key_of(peer), context);
    if (theirs.size() != addresses.size()) {
      throw DistNetworkError("it counts another number of ranks than this one's " + std::to_string(size),
                             {.peer = peer});
    }
    const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(
                                            static_cast<std::size_t>(rank - (peer < rank ? 1 : 0)) * length);
    there[static_cast<std::size_t>(peer)].assign(begin, begin + static_cast<std::ptrdiff_t>(length));
  }

  std::vector<Sockets::Connection> connections;
  Limit limit(*transportContext_, context);
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::vector<char>& address = there[static_cast<std::size_t>(peer)];
    try {
      getPair(peer)->connect(address);
    } catch (const ::gloo::Exception& e) {
      limit.explain(peer, "cannot connect with it: " + without_place(e.what()));
    }
    limit.throw_if_closed(peer);
    connections.push_back({peer, socket_address(getPair(peer)->address().bytes()), socket_address(address)});
  }
  sockets_.emplace(connections);
}

}  // namespace dlaunch
