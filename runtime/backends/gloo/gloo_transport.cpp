#include "runtime/backends/gloo/gloo_transport.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "runtime/backends/gloo/last_words.h"
#include "runtime/backends/gloo/line_end.h"
#include "runtime/backends/gloo/message.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "runtime/furthest_behind.h"

namespace dlaunch {

namespace {

// How often waits are looked after; a lost peer is noticed after this time at the latest, a deadline too.
constexpr auto watch_period = std::chrono::milliseconds(10);
// So long without a message, and the watcher sleeps until there is one.
constexpr int quiet_periods = 20;
// A rank that gives up waits so long for its reason to arrive before it closes the connections.
constexpr auto farewell_limit = std::chrono::seconds(1);
// So long the others have for their answers to a roll call.
constexpr auto roll_call_limit = std::chrono::seconds(1);

// The half of the slots that is the transport's.
constexpr std::uint64_t own_slots = std::uint64_t{1} << 63;
constexpr std::uint64_t last_words_slot = own_slots | 1;
constexpr std::uint64_t liveness_slot = own_slots | 2;
constexpr std::uint64_t echo_slot = own_slots | 3;
constexpr std::uint64_t roll_slot = own_slots | 4;

// Gloo writes to its connections without MSG_NOSIGNAL: a peer that has gone would end this process.
void ignore_sigpipe() {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) != 0) return;
  if ((current.sa_flags & SA_SIGINFO) != 0 || current.sa_handler != SIG_DFL)
    return;  // the program has its own
  std::signal(SIGPIPE, SIG_IGN);
}

std::shared_ptr<::gloo::transport::Device> make_device(const std::string& address) {
  try {
    return ::gloo::transport::tcp::CreateDevice(::gloo::transport::tcp::attr(address.c_str()));
  } catch (const std::exception& e) {
    throw DistNetworkError("cannot use the local address " + address + ": " + without_place(e.what()));
  }
}

std::shared_ptr<Mesh> connect(const BackendContext& context,
                              const std::shared_ptr<::gloo::transport::Device>& device) {
  try {
    return std::make_shared<Mesh>(context, device);
  } catch (const ::gloo::Exception& e) {
    throw DistNetworkError("cannot connect with the other ranks: " + without_place(e.what()));
  }
}

}  // namespace

GlooTransport::GlooTransport(const BackendContext& context, const std::string& local_address)
    : rank_(context.rank),
      size_(context.size),
      device_(make_device(local_address)),
      context_(connect(context, device_)),
      errands_(device_),
      to_self_(context.size),
      peers_(static_cast<std::size_t>(context.size)) {
  ignore_sigpipe();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) greet(peer);
  }
  line_ = std::make_unique<LineEnd>(*this);
  watcher_ = std::thread([this] { watch(); });
}

// Posts what waits for the peer's end.
void GlooTransport::greet(int peer) {
  auto& state = peers_[static_cast<std::size_t>(peer)];
  state = std::make_unique<Peer>();
  const auto buffer = [this](auto& memory) { return context_->createUnboundBuffer(&memory, sizeof memory); };
  state->hear = buffer(state->heard);
  state->tell = buffer(state->told);
  state->liveness = buffer(state->alive);
  state->echo = buffer(state->echo_out);
  state->ask_echo = buffer(state->echo_in);
  state->answer = buffer(entered_);
  try {
    state->hear->recv(peer, last_words_slot);
    state->liveness->recv(peer, liveness_slot);
    state->echo->send(peer, echo_slot);
    state->answer->send(peer, roll_slot);
  } catch (const ::gloo::Exception& e) {
    throw DistNetworkError("it was lost at once: " + without_place(e.what()), {.peer = peer});
  }
}

GlooTransport::~GlooTransport() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  watcher_.join();
}

std::unique_ptr<Transfer> GlooTransport::post_send(int peer, std::uint64_t slot,
                                                   std::span<const std::byte> bytes) {
  if (peer == rank_) return to_self_.post_send(peer, peer, slot, bytes);
  auto message =
      std::make_unique<Message>(*this, peer, true, const_cast<std::byte*>(bytes.data()), bytes.size());
  message->post(slot);
  return message;
}

std::unique_ptr<Inbox> GlooTransport::post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) {
  return std::make_unique<AnyMessage>(*this, slot, bytes);
}

std::unique_ptr<Transfer> GlooTransport::post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) {
  if (peer == rank_) return to_self_.post_recv(peer, peer, slot, bytes);
  auto message = std::make_unique<Message>(*this, peer, false, bytes.data(), bytes.size());
  message->post(slot);
  return message;
}

Line& GlooTransport::line() { return *line_; }

void GlooTransport::give_up(const std::string& reason, int blamed) noexcept {
  end(reason, blamed);
  if (gone_.exchange(true)) return;
  // Here and not on the watcher's thread: the program may end before that comes to it. If something had ended
  // it before, that is what the others are to hear.
  LastWords words;
  {
    const std::lock_guard lock(mutex_);
    words = LastWords::giving_up(*ended_, blamed_);
  }
  errands_.stop();
  say_goodbye(words);
  const std::lock_guard lock(mutex_);
  gave_up_ = true;
  changed_.notify_all();
}

void GlooTransport::shutdown(Deadline deadline) noexcept {
  if (gone_.exchange(true)) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return !gave_up_; });
    return;
  }
  errands_.flush(deadline);
  errands_.stop();
  LastWords words = LastWords::leaving();
  {
    const std::lock_guard lock(mutex_);
    if (ended_) words = LastWords::giving_up(*ended_, blamed_);
  }
  say_goodbye(words);
  await_echoes(deadline);
}

// Everything that waits returns, and says this reason or an earlier one.
void GlooTransport::end(const std::string& reason, int blamed) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = reason;
    blamed_ = blamed;
    for (Pending* const message : under_way_) message->end_wait();
  }
  to_self_.abort(rank_, reason, blamed);
}

// Because of a peer that is gone, or of the rank because of which that one gave up.
void GlooTransport::end_for(const LastWords& words, int peer, const std::string& gloo_says) {
  const bool names_another = words.kind == LastWords::gave_up && words.blamed >= 0 && words.blamed < size_ &&
                             words.blamed != peer && words.blamed != rank_;
  if (names_another) return end(words.reason(), words.blamed);
  end(words.describe(gloo_says), peer);
}

// Tells the others, without waiting, and asks them for the sign that they
// have heard it and everything before it.
void GlooTransport::say_goodbye(const LastWords& words) {
  for (int rank = 0; rank < size_; ++rank) {
    Peer* const peer = peers_[static_cast<std::size_t>(rank)].get();
    if (!peer) continue;
    peer->told = words;
    try {
      peer->tell->send(rank, last_words_slot);
      peer->ask_echo->recv(rank, echo_slot);
      peer->asked = true;
    } catch (const ::gloo::Exception&) {  // NOLINT(bugprone-empty-catch): lost peers need no goodbye
    }
  }
}

void GlooTransport::await_echoes(Deadline deadline) {
  for (const auto& peer : peers_) {
    if (!peer || !peer->asked) continue;
    try {
      // 0 would mean at once even if the answer is here. A wait that times out
      // closes all connections, which is what comes next anyway.
      peer->ask_echo->waitRecv(std::max(time_left(deadline), std::chrono::milliseconds(1)));
    } catch (const ::gloo::Exception&) {  // NOLINT(bugprone-empty-catch): lost, or too slow for the deadline
    }
  }
}

void GlooTransport::watch() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  int quiet = 0;
  for (;;) {
    const auto urgent = [&] { return closing_ || gave_up_; };
    if (quiet < quiet_periods) {
      changed_.wait_for(lock, watch_period, urgent);
    } else {
      watcher_sleeps_ = true;
      changed_.wait(lock, [&] { return urgent() || posted_ != seen; });
      watcher_sleeps_ = false;
    }
    if (gave_up_) {
      lock.unlock();
      await_echoes(deadline_after(farewell_limit));
      context_->closeConnections();
      lock.lock();
      gave_up_ = false;
      changed_.notify_all();
    }
    if (closing_) return;
    const bool idle = std::ranges::all_of(under_way_, [](const Pending* entry) { return entry->is_idle(); });
    quiet = idle && posted_ == seen ? quiet + 1 : 0;
    seen = posted_;
    if (idle || ended_) continue;
    for (Pending* const message : under_way_) {
      if (message->is_late()) message->end_wait();
    }
    lock.unlock();
    look_for_losses();
    look_for_silence();
    lock.lock();
  }
}

void GlooTransport::look_for_losses() {
  for (int rank = 0; rank < size_; ++rank) {
    Peer* const peer = peers_[static_cast<std::size_t>(rank)].get();
    const std::lock_guard lock(peers_mutex_);
    if (!peer || peer->left) continue;
    const std::optional<std::string> why = why_gone(*peer);
    if (!why) continue;
    const LastWords words = last_words(*peer);
    // Who left in order had completed its part in everything that was started. Those who still want something
    // from it are told by Gloo; the others must not be disturbed.
    peer->left = words.kind == LastWords::left;
    if (!peer->left) return end_for(words, rank, *why);
    const std::lock_guard list_lock(mutex_);
    left_.push_back(rank);
    for (Pending* const message : under_way_) message->hear_of_departure();
  }
}

// A host that has vanished ends no connection.
void GlooTransport::look_for_silence() {
  const std::optional<int> peer = context_->sockets().silent_peer();
  if (peer) end("its host has answered nothing for " + std::to_string(Silence::limit.count()) + " s", *peer);
}

void GlooTransport::check() {
  look_for_losses();
  throw_if_ended();
}

std::vector<int> GlooTransport::departed() {
  look_for_losses();
  const std::lock_guard lock(mutex_);
  return left_;
}

Transport::RollCall GlooTransport::call_roll(std::uint64_t number) {
  RollCall roll;
  if (roll_called_.exchange(true)) return roll;  // each rank has one answer ready
  const Deadline limit = deadline_after(roll_call_limit);
  const std::vector<int> present = present_peers();
  answers_.resize(static_cast<std::size_t>(size_));
  for (const int peer : present) {
    std::uint64_t& answer = answers_[static_cast<std::size_t>(peer)];
    questions_.push_back(post_recv(peer, roll_slot, std::as_writable_bytes(std::span(&answer, 1))));
  }
  std::vector<Progress> others;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const int peer = present[i];
    try {
      questions_[i]->wait(limit);
      others.push_back({peer, answers_[static_cast<std::size_t>(peer)]});
    } catch (const DistNetworkError&) {
      throw_if_ended();
      if (!has_left(peer)) roll.silent.push_back(peer);
    }
  }
  roll.missing = furthest_behind(others, number);
  return roll;
}

void GlooTransport::throw_if_ended() {
  const std::lock_guard lock(mutex_);
  if (ended_) throw DistNetworkError(*ended_, {.peer = blamed_});
}

bool GlooTransport::has_ended() {
  const std::lock_guard lock(mutex_);
  return ended_.has_value();
}

// Whether the peer is known to have left in order.
bool GlooTransport::has_left(int peer) {
  const std::lock_guard lock(peers_mutex_);
  const auto& known = peers_[static_cast<std::size_t>(peer)]->known;
  return known && known->kind == LastWords::left;
}

std::vector<int> GlooTransport::present_peers() {
  const std::lock_guard lock(peers_mutex_);
  std::vector<int> present;
  for (int rank = 0; rank < size_; ++rank) {
    const Peer* const peer = peers_[static_cast<std::size_t>(rank)].get();
    if (peer && !peer->left) present.push_back(rank);
  }
  return present;
}

// What Gloo says if the connection is lost, nothing but not null if the
// peer has said goodbye. With peers_mutex_ held.
std::optional<std::string> GlooTransport::why_gone(Peer& peer) {
  // Gloo cannot be asked whether a receive has completed. Its last bytes can:
  // last_words() then waits as it should.
  if (std::atomic_ref(peer.heard.kind).load(std::memory_order_relaxed) != LastWords::none) return "";
  try {
    peer.liveness->abortWaitRecv();
    peer.liveness->waitRecv(never);  // returns at once
    return std::nullopt;
  } catch (const ::gloo::Exception& e) {
    return e.what();
  }
}

// With peers_mutex_ held. REQUIRES: the connection to the peer is lost, or it has said goodbye.
GlooTransport::LastWords GlooTransport::last_words(Peer& peer) {
  // Long enough for Gloo to report to this receive what it has reported to another.
  constexpr auto limit = std::chrono::milliseconds(100);
  if (!peer.known) {
    try {
      const bool heard = peer.hear->waitRecv(limit);
      peer.known = heard ? peer.heard : LastWords();
    } catch (const ::gloo::Exception&) {
      peer.known = LastWords();
    }
  }
  return *peer.known;
}

void GlooTransport::explain(int peer, const std::string& gloo_says) {
  {
    const std::lock_guard lock(peers_mutex_);
    const LastWords words = last_words(*peers_[static_cast<std::size_t>(peer)]);
    if (words.kind == LastWords::left) throw DistNetworkError(left_the_group, {.peer = peer});
    end_for(words, peer, gloo_says);
  }
  const std::lock_guard lock(mutex_);
  throw DistNetworkError(*ended_, {.peer = blamed_});
}

}  // namespace dlaunch
