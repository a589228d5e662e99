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
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/backends/gloo/last_words.h"
#include "runtime/deadline.h"

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
  // `doors`: the others' places, by rank. Until it is destroyed nobody else uses the context's store.
  Limit(Connections& connections, const BackendContext& context, std::vector<std::string> doors)
      : connections_(connections),
        context_(context),
        doors_(std::move(doors)),
        thread_([this] { watch(); }) {}

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
    constexpr auto patience = std::chrono::milliseconds(500);
    constexpr auto pause = std::chrono::milliseconds(10);
    const Deadline end = deadline_after(patience);
    for (;;) {
      throw_if_closed(peer);
      if (const std::exception_ptr lost = loss()) std::rethrow_exception(lost);
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, pause, [this] { return closed_; })) continue;
      if (has_passed(end)) throw DistNetworkError(words, {.peer = peer});
    }
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
    changed_.notify_all();
    lock.unlock();
    for (int rank = 0; rank < connections_.size; ++rank) {
      if (rank != connections_.rank) connections_.getPair(rank)->close();
    }
  }

  // Asked by one thread after the other.
  std::exception_ptr loss() {
    const std::lock_guard lock(asking_);
    try {
      if (context_.check) context_.check();
      if (const std::optional<int> peer = first_lost())
        throw DistNetworkError("it died, or gave up, while the ranks were connecting", {.peer = *peer});
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  // Who finds a closed door tells it before it closes its own by giving up.
  std::optional<int> first_lost() {
    for (int peer = 0; peer < connections_.size; ++peer) {
      if (peer == connections_.rank || !Door::is_closed(doors_[static_cast<std::size_t>(peer)])) continue;
      if (const std::optional<int> told = told_lost()) return told;
      context_.store.set(lost_key, std::to_string(peer));
      return peer;
    }
    return std::nullopt;
  }

  std::optional<int> told_lost() {
    try {
      const int peer = std::stoi(context_.store.get(lost_key, deadline_after(std::chrono::milliseconds(1))));
      if (peer >= 0 && peer < connections_.size && peer != connections_.rank) return peer;
    } catch (const std::exception&) {  // nobody has, or what is there is no rank
    }
    return std::nullopt;
  }

  static constexpr const char* lost_key = "lost";
  Connections& connections_;
  const BackendContext& context_;
  const std::vector<std::string> doors_;
  std::mutex asking_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  bool over_ = false;
  bool closed_ = false;
  std::exception_ptr lost_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

Mesh::Mesh(const BackendContext& context, const std::shared_ptr<::gloo::transport::Device>& device,
           const std::string& local_address)
    : Context(context.rank, context.size), door_(local_address) {
  setTimeout(::gloo::kNoTimeout);
  device_ = device;
  transportContext_ = device->createContext(rank, size);
  transportContext_->setTimeout(::gloo::kNoTimeout);

  // Each connection listens at an address of its own. A rank tells all of them, which are of one length, in
  // the order of the ranks that they are for, and then its door.
  std::string addresses;
  std::size_t length = 0;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
    addresses.append(address.begin(), address.end());
    length = address.size();
  }
  addresses += door_.place();
  context.store.set(key_of(rank), addresses);

  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::vector<char>> there(ranks);
  std::vector<std::string> doors(ranks);
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::string theirs = context.store.get(key_of(peer), context.deadline);
    if (theirs.size() != addresses.size()) {
      throw DistNetworkError("it counts another number of ranks than this one's " + std::to_string(size),
                             {.peer = peer});
    }
    const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(
                                            static_cast<std::size_t>(rank - (peer < rank ? 1 : 0)) * length);
    there[static_cast<std::size_t>(peer)].assign(begin, begin + static_cast<std::ptrdiff_t>(length));
    doors[static_cast<std::size_t>(peer)] = theirs.substr(theirs.size() - Door::place_size);
  }

  std::vector<Sockets::Connection> connections;
  Limit limit(*transportContext_, context, std::move(doors));
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
