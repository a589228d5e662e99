#include "runtime/backends/gloo/gloo_transport.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "runtime/backends/gloo/gloo_store.h"
#include "runtime/deadline.h"

namespace dlaunch {

namespace {

// How often waits are looked after; a lost peer is noticed after this time at the latest, a deadline too.
constexpr auto watch_period = std::chrono::milliseconds(10);
// So long without a message, and the watcher sleeps until there is one.
constexpr int quiet_periods = 20;
// A rank that gives up waits so long for its reason to arrive before it closes the connections.
constexpr auto farewell_limit = std::chrono::seconds(1);
// Given to Gloo's waits, which the watcher ends before: long, but not so long that Gloo's clock overflows.
constexpr auto never = std::chrono::hours(24 * 365);

// The half of the slots that is the transport's.
constexpr std::uint64_t own_slots = std::uint64_t{1} << 63;
constexpr std::uint64_t last_words_slot = own_slots | 1;
constexpr std::uint64_t liveness_slot = own_slots | 2;
constexpr std::uint64_t echo_slot = own_slots | 3;

// Gloo's texts begin with the place in its source.
std::string without_place(const std::string& text) {
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

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

}  // namespace

// What a rank says before it goes; as it travels. The kind comes last, since it tells that all has come.
struct GlooTransport::LastWords {
  enum Kind : std::uint32_t { none = 0, left = 1, gave_up = 2 };

  char text[508] = {};
  std::uint32_t kind = none;

  static LastWords make(Kind kind, const std::string& reason) {
    LastWords words;
    words.kind = kind;
    std::memcpy(words.text, reason.data(), std::min(reason.size(), sizeof words.text));
    return words;
  }

  // As a sentence about the rank that said it. `gloo_says`: for the case that it said nothing.
  [[nodiscard]] std::string describe(const std::string& gloo_says) const {
    if (kind == left) return "it has left the group";
    if (kind == gave_up) return "it gave up: " + std::string(text, strnlen(text, sizeof text));
    return "it died, or the connection to it was lost" +
           (gloo_says.empty() ? "" : " (" + without_place(gloo_says) + ")");
  }
};

// Memory before buffers: Gloo may use it until the buffer has gone.
struct GlooTransport::Peer {
  LastWords heard;
  LastWords told;
  char alive = 0;
  char echo_out = 0;
  char echo_in = 0;
  Buffer hear;                     // receive, posted from the beginning
  Buffer tell;                     // send, posted when this rank goes
  Buffer liveness;                 // receive that nobody answers
  Buffer echo;                     // send, posted in advance
  Buffer ask_echo;                 // receive, posted when flushing
  std::optional<LastWords> known;  // what was heard, once asked for; protected by peers_mutex_
  bool left = false;               // in order; protected by peers_mutex_
  bool asked = false;              // for its echo
};

// What the watcher sees of a message: when it is late, and how to end the wait for it.
class GlooTransport::Pending {
 public:
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // From the watcher, with the owner's mutex held: the wait, running or to come, returns without success.
  virtual void end_wait() = 0;
  // From the watcher, with the owner's mutex held: a rank has left in order.
  virtual void hear_of_departure() {}
  // Whether nobody would miss it: the watcher may sleep.
  [[nodiscard]] virtual bool is_idle() const { return false; }
  [[nodiscard]] bool is_late() const {
    return has_passed(Deadline(Deadline::duration(deadline_.load(std::memory_order_relaxed))));
  }

 protected:
  explicit Pending(GlooTransport& owner) : owner_(owner) {}
  ~Pending() = default;

  // While enrolled the watcher looks after it. Throws if the transport has ended.
  void enrol() {
    const std::lock_guard lock(owner_.mutex_);
    if (owner_.ended_) throw DistNetworkError(*owner_.ended_, {.peer = owner_.blamed_});
    place_ = owner_.under_way_.size();
    owner_.under_way_.push_back(this);
    ++owner_.posted_;
    if (owner_.watcher_sleeps_) owner_.changed_.notify_all();
  }
  void resign() {
    const std::lock_guard lock(owner_.mutex_);
    Pending* const last = owner_.under_way_.back();
    owner_.under_way_[place_] = last;
    last->place_ = place_;
    owner_.under_way_.pop_back();
  }
  void set_deadline(Deadline deadline) {
    deadline_.store(deadline.time_since_epoch().count(), std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_deadline() const {
    return deadline_.load(std::memory_order_relaxed) != Deadline::max().time_since_epoch().count();
  }

  GlooTransport& owner_;

 private:
  std::atomic<Deadline::rep> deadline_{Deadline::max().time_since_epoch().count()};
  std::size_t place_ = 0;  // in owner_.under_way_; protected by its mutex
};

class GlooTransport::Message final : public Transfer, private Pending {
 public:
  Message(GlooTransport& owner, int peer, bool is_send, std::byte* data, std::size_t size)
      : Pending(owner),
        peer_(peer),
        is_send_(is_send),
        buffer_(owner.context_->createUnboundBuffer(data, size)) {
    enrol();
  }

  ~Message() override { resign(); }

  void post(std::uint64_t slot) {
    try {
      if (is_send_) {
        buffer_->send(peer_, slot);
      } else {
        buffer_->recv(peer_, slot);
      }
    } catch (const ::gloo::Exception& e) {
      owner_.explain(peer_, is_send_, e.what());
    }
  }

  void wait(Deadline deadline) override {
    set_deadline(deadline);
    std::string gloo_says;
    try {
      if (is_send_ ? buffer_->waitSend(never) : buffer_->waitRecv(never)) return;
    } catch (const ::gloo::Exception& e) {
      gloo_says = e.what();
    }
    owner_.explain(peer_, is_send_, gloo_says);
  }

  void end_wait() override {
    if (is_send_) {
      buffer_->abortWaitSend();
    } else {
      buffer_->abortWaitRecv();
    }
  }

 private:
  const int peer_;
  const bool is_send_;
  Buffer buffer_;
};

class GlooTransport::AnyMessage final : public Inbox, private Pending {
 public:
  AnyMessage(GlooTransport& owner, std::uint64_t slot, std::span<std::byte> bytes)
      : Pending(owner), slot_(slot), bytes_(bytes) {
    post();
  }

  Arrival wait(Deadline deadline) override {
    set_deadline(deadline);
    enrol();
    // Only now: from here on a departure ends the wait.
    if (departure()) buffer_->abortWaitRecv();
    bool spoilt = false;
    const Arrival arrival = wait_enrolled(spoilt);
    resign();
    if (arrival.event == Event::message) return arrival;
    owner_.check();
    if (spoilt) post();
    const std::optional<int> gone = departure();
    if (!gone) return {};
    ++told_;
    return {Event::left, *gone};
  }

  void wake() noexcept override {
    const std::lock_guard lock(owner_.mutex_);
    buffer_->abortWaitRecv();
  }
  void end_wait() override { buffer_->abortWaitRecv(); }
  void hear_of_departure() override { buffer_->abortWaitRecv(); }
  [[nodiscard]] bool is_idle() const override { return !has_deadline(); }

 private:
  // Gloo refuses when a connection is lost, a moment before it tells so to those who wait on it: that moment
  // is waited for, since they know why.
  void post() {
    const Deadline limit = deadline_after(std::chrono::seconds(1));
    for (;;) {
      owner_.check();
      const std::vector<int> others = owner_.present_peers();
      Buffer fresh = owner_.context_->createUnboundBuffer(bytes_.data(), bytes_.size());
      bytes_.front() = std::byte{0};
      std::unique_lock lock(owner_.mutex_, std::defer_lock);
      try {
        if (!others.empty()) fresh->recv(others, slot_);
        lock.lock();  // for wake()
        buffer_.swap(fresh);
        return;
      } catch (const ::gloo::Exception& e) {
        if (has_passed(limit)) {
          throw DistNetworkError("no message can be received: " + without_place(e.what()));
        }
      }
      lock.lock();
      owner_.changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
  }

  // A message, or nothing when the wait was ended. `spoilt`: nothing will come into this buffer any more,
  // since who was to fill it has gone.
  Arrival wait_enrolled(bool& spoilt) {
    int sender = -1;
    try {
      // Gloo looks at the order to end first, and cannot be asked whether a message is there. Its first byte
      // can: what has begun to come ends soon, and what a departed rank has sent is here.
      while (!buffer_->waitRecv(&sender, never)) {
        if (std::atomic_ref(bytes_.front()).load(std::memory_order_relaxed) == std::byte{0}) return {};
        if (owner_.has_ended()) return {};
      }
    } catch (const ::gloo::Exception&) {
      spoilt = true;  // why, the owner knows
      return {};
    }
    return {Event::message, sender};
  }

  std::optional<int> departure() {
    const std::lock_guard lock(owner_.mutex_);
    if (told_ == owner_.left_.size()) return std::nullopt;
    return owner_.left_[told_];
  }

  const std::uint64_t slot_;
  const std::span<std::byte> bytes_;
  Buffer buffer_;         // replaced under owner_.mutex_
  std::size_t told_ = 0;  // of owner_.left_
};

GlooTransport::GlooTransport(const BackendContext& context, const std::string& local_address)
    : rank_(context.rank),
      size_(context.size),
      device_(make_device(local_address)),
      context_(std::make_shared<::gloo::rendezvous::Context>(context.rank, context.size)),
      to_self_(context.size),
      peers_(static_cast<std::size_t>(context.size)) {
  ignore_sigpipe();
  // 0 would mean at once.
  context_->setTimeout(std::max(time_left(context.deadline), std::chrono::milliseconds(1)));
  GlooStore store(context.store, context.deadline);
  try {
    context_->connectFullMesh(store, device_);
  } catch (const ::gloo::Exception& e) {
    throw DistNetworkError("cannot connect with the other ranks: " + without_place(e.what()));
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) greet(peer);
  }
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
  try {
    state->hear->recv(peer, last_words_slot);
    state->liveness->recv(peer, liveness_slot);
    state->echo->send(peer, echo_slot);
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

void GlooTransport::abort(const std::string& reason) noexcept {
  end(reason, -1);
  if (gone_.exchange(true)) return;
  // Here and not on the watcher's thread: the program may end before that comes to it. If another rank was
  // the cause, the others are to hear of that one.
  std::string cause = reason;
  {
    const std::lock_guard lock(mutex_);
    if (blamed_ >= 0) cause = "rank " + std::to_string(blamed_) + ": " + *ended_;
  }
  say_goodbye(LastWords::make(LastWords::gave_up, cause));
  const std::lock_guard lock(mutex_);
  gave_up_ = true;
  changed_.notify_all();
}

void GlooTransport::shutdown(Deadline deadline) noexcept {
  if (gone_.exchange(true)) return;
  say_goodbye(LastWords::make(LastWords::left, ""));
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
  to_self_.abort(rank_, reason);
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
      gave_up_ = false;
      lock.unlock();
      await_echoes(deadline_after(farewell_limit));
      context_->closeConnections();
      lock.lock();
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
    if (!peer->left) return end(words.describe(*why), rank);
    const std::lock_guard list_lock(mutex_);
    left_.push_back(rank);
    for (Pending* const message : under_way_) message->hear_of_departure();
  }
}

void GlooTransport::check() {
  look_for_losses();
  const std::lock_guard lock(mutex_);
  if (ended_) throw DistNetworkError(*ended_, {.peer = blamed_});
}

bool GlooTransport::has_ended() {
  const std::lock_guard lock(mutex_);
  return ended_.has_value();
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

void GlooTransport::explain(int peer, bool is_send, const std::string& gloo_says) {
  if (!gloo_says.empty()) {
    const std::lock_guard lock(peers_mutex_);
    const LastWords words = last_words(*peers_[static_cast<std::size_t>(peer)]);
    const std::string reason = words.describe(gloo_says);
    if (words.kind == LastWords::left) throw DistNetworkError(reason, {.peer = peer});
    end(reason, peer);
  }
  {
    const std::lock_guard lock(mutex_);
    if (ended_) throw DistNetworkError(*ended_, {.peer = blamed_});
  }
  // What else ends a wait is the watcher, when the deadline has passed.
  throw DistNetworkError(is_send ? "it did not take a message before the deadline"
                                 : "it did not send a message before the deadline",
                         {.peer = peer});
}

}  // namespace dlaunch
