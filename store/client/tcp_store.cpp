#include "store/client/tcp_store.h"

#include <algorithm>
#include <initializer_list>
#include <thread>
#include <utility>

#include "store/base/random.h"
#include "store/client/error_text.h"
#include "store/protocol/key_proof.h"

namespace dlaunch::store {
namespace {

constexpr Duration answer_timeout = std::chrono::seconds(10);
constexpr Duration first_pause = std::chrono::milliseconds(5);
constexpr Duration longest_pause = std::chrono::milliseconds(500);
constexpr Duration first_poll_pause = std::chrono::milliseconds(1);
constexpr Duration longest_poll_pause = std::chrono::milliseconds(10);
constexpr Duration longest_turn = std::chrono::hours(24 * 365 * 10);
constexpr std::string_view worker_counter = "init/";  // the one key without the prefix
constexpr std::size_t receive_step = 1 << 20;         // an announced length is trusted only so far ahead

std::string on_wire(std::string_view key) { return std::string(1, '/').append(key); }

// A request about one key. It owns the name that it points to.
struct KeyRequest : Request {
  KeyRequest(RequestKind what, std::string_view about) : name(on_wire(about)) {
    kind = what;
    key = name;
  }
  KeyRequest(const KeyRequest&) = delete;
  KeyRequest& operator=(const KeyRequest&) = delete;

  const std::string name;
};

// The same about several.
struct KeysRequest : Request {
  KeysRequest(RequestKind what, std::span<const std::string> about) {
    kind = what;
    names.reserve(about.size());
    for (const std::string& one : about) names.push_back(on_wire(one));
    keys.assign(names.begin(), names.end());
  }
  KeysRequest(const KeysRequest&) = delete;
  KeysRequest& operator=(const KeysRequest&) = delete;

  std::vector<std::string> names;
};

}  // namespace

// One call's exclusive use of the connection.
class TcpStore::Call {
 public:
  // `what`: for error messages, "get of key 'x'".
  Call(TcpStore& store, Duration timeout, std::string what)
      : store_(store),
        timeout_(timeout),
        deadline_(deadline_after(steady_now(), timeout)),
        what_(std::move(what)) {
    const auto until =
        std::chrono::steady_clock::now() + std::min(std::max(timeout, answer_timeout), longest_turn);
    std::unique_lock lock(store_.mutex_);
    if (!store_.turn_over_.wait_until(lock, until, [this] { return !store_.taken_; })) {
      throw StoreError({ErrorKind::timeout, name(), "", "another thread did not finish its call in time",
                        "use a separate store for a thread that waits long"});
    }
    if (store_.lost_) throw StoreError(*store_.lost_);
    store_.taken_ = true;
  }
  ~Call() {
    const std::lock_guard lock(store_.mutex_);
    store_.taken_ = false;
    store_.turn_over_.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] TimePoint deadline() const { return deadline_; }

  void send(const Request& request) { send({&request}); }
  // All in one write.
  void send(std::initializer_list<const Request*> requests) {
    store_.out_.clear();
    for (const Request* request : requests) {
      if (!encode(store_.options_.dialect, *request, store_.out_)) {
        throw StoreError({ErrorKind::refused, name(), "",
                          "a server of this version has no " + std::string(name_of(request->kind)), ""});
      }
    }
    const auto sent = store_.socket_.send(as_byte_span(store_.out_), answer_deadline());
    if (store_.out_.capacity() > receive_step) std::string().swap(store_.out_);
    if (!sent) fail_permanently(sent.error());
  }

  template <class T>
  T integer() {
    T value{};
    receive(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }

  std::string text() {
    auto left = integer<std::uint64_t>();
    std::string value;
    while (left != 0) {
      const auto step =
          static_cast<std::size_t>(std::min<std::uint64_t>(left, std::max(receive_step, value.size())));
      const std::size_t before = value.size();
      value.resize(before + step);
      receive(value.data() + before, step);
      left -= step;
    }
    return value;
  }

  // The answer to ADD. If the server is dlaunch's, a rejected addition is an error of this call only.
  std::int64_t sum(const std::string& of_what) {
    const std::uint8_t refused = store_.server_is_ours_ ? integer<std::uint8_t>() : answer_ready;
    if (refused == answer_ready) return integer<std::int64_t>();
    const bool is_full = refused == answer_store_full;
    throw StoreError(
        {is_full ? ErrorKind::limit : ErrorKind::invalid, name(), "",
         "cannot add to " + of_what + ": " + (is_full ? "the store is full" : "its value is not a number"),
         ""});
  }

  // Sends a request that the server answers later (WAIT, BARRIER); throws a timeout if that takes too long.
  void await(const Request& request, std::string_view for_what) {
    send(request);
    char stop = 0;
    const auto answered = store_.socket_.receive(&stop, 1, deadline_);
    if (answered) return;
    if (answered.error().kind != ErrorKind::timeout) fail_permanently(answered.error());
    give_up_waiting();
    timed_out(for_what);
  }

  // With a timeout that allows no wait, only checks the keys.
  void await_keys(std::span<const std::string> keys) {
    if (keys.empty()) return;
    if (timeout_ > Duration::zero()) return await(KeysRequest(RequestKind::wait, keys), describe_keys(keys));
    send(KeysRequest(RequestKind::check, keys));
    if (integer<std::uint8_t>() != answer_ready) timed_out(describe_keys(keys));
  }

  [[noreturn]] void timed_out(std::string_view for_what) const {
    throw StoreError(timeout_error(name(), timeout_, for_what));
  }

 private:
  [[nodiscard]] std::string name() const { return "store " + to_string(store_.options_.server); }

  [[nodiscard]] TimePoint answer_deadline() const {
    return deadline_after(steady_now(), std::max(timeout_, answer_timeout));
  }

  void receive(char* into, std::size_t size) {
    if (const auto received = store_.socket_.receive(into, size, answer_deadline()); !received)
      fail_permanently(received.error());
  }

  // The connection is unusable now, and every later call gets this error.
  [[noreturn]] void fail_permanently(const Error& reason) {
    store_.socket_.close();
    store_.lost_ = Error{reason.kind, name(), "", "lost during " + what_ + ": " + reason.why, ""};
    throw StoreError(*store_.lost_);
  }

  void give_up_waiting() {
    Request cancel;
    cancel.kind = RequestKind::cancel_wait;
    if (type_byte(store_.options_.dialect, cancel.kind)) {
      send(cancel);
      // The wait's own answer may have crossed; the cancellation's answer comes in any case.
      if (integer<std::uint8_t>() == answer_stop_waiting) integer<std::uint8_t>();
      return;
    }
    // 1.13 has no cancelling, and would answer the wait later in the middle of another exchange.
    store_.socket_.close();
    try {
      store_.connect(answer_deadline());
    } catch (const StoreError& failure) {
      store_.lost_ = failure.error();
      throw;
    }
  }

  TcpStore& store_;
  const Duration timeout_;
  const TimePoint deadline_;
  const std::string what_;
};

TcpStore::TcpStore(TcpStoreOptions options) : options_(std::move(options)), timeout_(options_.timeout) {
  connect(deadline_after(steady_now(), options_.timeout));
  if (options_.world_size) count_workers(1);
}

std::int64_t TcpStore::count_workers(std::int64_t more) {
  Call call(*this, timeout(), "counting the workers");
  Request request;
  request.kind = RequestKind::add;
  request.key = worker_counter;
  request.number = more;
  call.send(request);
  return call.sum("the workers' counter");
}

// No request waits for a number, so it is read again and again.
void TcpStore::await_workers(std::int64_t world_size, TimePoint deadline) {
  for (Duration pause = first_poll_pause;; pause = std::min(pause * 2, longest_poll_pause)) {
    const std::int64_t came = count_workers(0);
    if (came >= world_size) return;
    const TimePoint now = steady_now();
    if (now >= deadline) {
      throw StoreError({ErrorKind::timeout, "store " + to_string(server()), "",
                        "waited " + to_words(options_.timeout) + " for the workers, " + std::to_string(came) +
                            " of " + std::to_string(world_size) + " came",
                        ""});
    }
    std::this_thread::sleep_for(std::min(pause, deadline - now));
  }
}

// Connecting and greeting are repeated together until they work: a full backlog resets a connection only
// after it was made.
void TcpStore::connect(TimePoint deadline) {
  const TimePoint start = steady_now();
  for (Duration pause = first_pause;; pause = std::min(pause * 2, longest_pause)) {
    auto done = socket_.connect(options_.server, deadline);
    const TimePoint soon = std::min(deadline, deadline_after(steady_now(), answer_timeout));
    if (done) done = prove(soon);
    if (done) {
      done = greet(soon);
      if (done) return;
      greet_with_ping_ = !greet_with_ping_;
    }
    socket_.close();
    if (done.error().kind == ErrorKind::refused) {
      throw StoreError({ErrorKind::refused, "cannot connect to store", to_string(options_.server),
                        done.error().why, done.error().hint});
    }
    const TimePoint now = steady_now();
    if (now >= deadline) {
      throw StoreError({ErrorKind::timeout, "cannot connect to store", to_string(options_.server),
                        done.error().why + " (tried for " + to_words(now - start) + ")", ""});
    }
    std::this_thread::sleep_for(std::min(pause, deadline - now));
  }
}

Result<void> TcpStore::prove(TimePoint deadline) {
  if (options_.make_session) {
    auto session = options_.make_session();
    if (!session) return std::move(session).error();
    return socket_.secure(std::move(*session), deadline);
  }
  if (options_.key.empty()) return {};
  const KeyClient client(options_.key, random_bytes(key_nonce_size));
  if (auto sent = socket_.send(as_byte_span(client.opening()), deadline); !sent) return sent;
  std::string challenge(key_challenge_size, '\0');
  if (auto received = socket_.receive(challenge.data(), challenge.size(), deadline); !received) {
    return Error{received.error().kind, "", "",
                 received.error().why + " while the secret was proved (its store may have none)", ""};
  }
  auto proof = client.answer(challenge);
  if (!proof) return std::move(proof).error();
  return socket_.send(as_byte_span(*proof), deadline);
}

// Only 2.2 and later get a greeting, in one write: some servers want the greeting whole. A PING follows,
// which shows that the server is alive, and whether it is dlaunch's. 2.2 to 2.4 close the connection on PING:
// then a CHECK serves. The numbers are such that a 1.13 server, which reads all this as a SET with a key of
// so many bytes, fails at once instead of allocating.
Result<void> TcpStore::greet(TimePoint deadline) {
  if (options_.dialect != Dialect::v2_2) return {};
  Request hello;
  hello.kind = RequestKind::validate;
  hello.number = validate_magic;
  Request question;
  question.kind = greet_with_ping_ ? RequestKind::ping : RequestKind::check;
  question.number = ping_of_dlaunch;
  question.keys = {worker_counter};
  out_.clear();
  encode(options_.dialect, hello, out_);
  encode(options_.dialect, question, out_);
  if (auto sent = socket_.send(as_byte_span(out_), deadline); !sent) return sent;

  std::uint32_t answer = 0;
  const std::size_t size = greet_with_ping_ ? sizeof answer : 1;
  if (auto received = socket_.receive(reinterpret_cast<char*>(&answer), size, deadline); !received)
    return received;
  server_is_ours_ = greet_with_ping_ && answer == pong_of_dlaunch;
  if (greet_with_ping_ && !server_is_ours_ && answer != ping_of_dlaunch) {
    return Error{ErrorKind::network, "", "", "unexpected answer to the greeting", ""};
  }
  return {};
}

void TcpStore::set(std::string_view key, std::string_view value) {
  Call call(*this, timeout(), "set of key " + quoted(key));
  KeyRequest request(RequestKind::set, key);
  request.value = value;
  call.send(request);
}

std::string TcpStore::get(std::string_view key) {
  Call call(*this, timeout(), "get of key " + quoted(key));
  KeyRequest request(RequestKind::get, key);
  // Mostly the key exists: one exchange instead of two. Not with other servers, some of which close the
  // connection on a GET of an absent key.
  if (server_is_ours_) {
    Request check;
    check.kind = RequestKind::check;
    check.keys = {request.name};
    call.send({&check, &request});
    const bool there = call.integer<std::uint8_t>() == answer_ready;
    std::string value = call.text();
    if (there) return value;
  }
  const std::string plain(key);
  call.await_keys({&plain, 1});
  call.send(request);
  return call.text();
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t amount) {
  Call call(*this, timeout(), "add to key " + quoted(key));
  KeyRequest request(RequestKind::add, key);
  request.number = amount;
  call.send(request);
  return call.sum("key " + quoted(key));
}

std::string TcpStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  Call call(*this, timeout(), "compare_set of key " + quoted(key));
  KeyRequest request(RequestKind::compare_set, key);
  request.expected = expected;
  request.value = desired;
  call.send(request);
  return call.text();
}

void TcpStore::wait(std::span<const std::string> keys, Duration timeout) {
  Call call(*this, timeout, "wait for " + describe_keys(keys));
  call.await_keys(keys);
}

bool TcpStore::check(std::span<const std::string> keys) {
  Call call(*this, timeout(), "check of " + describe_keys(keys));
  KeysRequest request(RequestKind::check, keys);
  call.send(request);
  return call.integer<std::uint8_t>() == answer_ready;
}

std::int64_t TcpStore::num_keys() {
  Call call(*this, timeout(), "num_keys");
  Request request;
  request.kind = RequestKind::num_keys;
  call.send(request);
  return call.integer<std::int64_t>();
}

bool TcpStore::delete_key(std::string_view key) {
  Call call(*this, timeout(), "delete of key " + quoted(key));
  KeyRequest request(RequestKind::delete_key, key);
  call.send(request);
  return call.integer<std::int64_t>() > 0;
}

void TcpStore::set_timeout(Duration timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

Duration TcpStore::timeout() const {
  const std::lock_guard lock(mutex_);
  return timeout_;
}

std::vector<std::string> TcpStore::multi_get(std::span<const std::string> keys) {
  if (!type_byte(options_.dialect, RequestKind::multi_get)) return Store::multi_get(keys);
  if (keys.empty()) return {};  // PyTorch's servers differ on an empty list
  Call call(*this, timeout(), "multi_get of " + describe_keys(keys));
  call.await_keys(keys);
  KeysRequest request(RequestKind::multi_get, keys);
  call.send(request);
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) values.push_back(call.text());
  return values;
}

void TcpStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  if (!type_byte(options_.dialect, RequestKind::multi_set)) return Store::multi_set(keys, values);
  Call call(*this, timeout(), "multi_set of " + describe_keys(keys));
  KeysRequest request(RequestKind::multi_set, keys);
  request.values.assign(values.begin(), values.end());
  call.send(request);
}

void TcpStore::append(std::string_view key, std::string_view value) {
  Call call(*this, timeout(), "append to key " + quoted(key));
  KeyRequest request(RequestKind::append, key);
  request.value = value;
  call.send(request);
}

void TcpStore::queue_push(std::string_view key, std::string_view value) {
  Call call(*this, timeout(), "push to queue " + quoted(key));
  KeyRequest request(RequestKind::queue_push, key);
  request.value = value;
  call.send(request);
}

std::optional<std::string> TcpStore::queue_pop(std::string_view key, bool block) {
  Call call(*this, timeout(), "pop from queue " + quoted(key));
  const std::string plain(key);
  KeyRequest request(RequestKind::queue_pop, key);
  while (true) {
    if (block) call.await_keys({&plain, 1});
    call.send(request);
    if (call.integer<std::int64_t>() > 0) return call.text();
    if (!block) return std::nullopt;
    if (steady_now() >= call.deadline())
      call.timed_out("queue " + quoted(key));  // other clients were quicker each time
  }
}

std::int64_t TcpStore::queue_len(std::string_view key) {
  Call call(*this, timeout(), "length of queue " + quoted(key));
  KeyRequest request(RequestKind::queue_len, key);
  call.send(request);
  return call.integer<std::int64_t>();
}

std::vector<std::string> TcpStore::list_keys() {
  Call call(*this, timeout(), "list_keys");
  Request request;
  request.kind = RequestKind::list_keys;
  call.send(request);
  std::vector<std::string> keys;
  for (auto left = call.integer<std::int64_t>(); left > 0; --left) {
    const std::string name = call.text();
    if (name.starts_with('/')) keys.push_back(name.substr(1));
  }
  return keys;
}

void TcpStore::barrier(std::string_view key, std::int64_t world_size) {
  if (!type_byte(options_.dialect, RequestKind::barrier)) return Store::barrier(key, world_size);
  Call call(*this, timeout(), "barrier " + quoted(key));
  KeyRequest request(RequestKind::barrier, key);
  request.number = world_size;
  call.await(request, "all " + std::to_string(world_size) + " at barrier " + quoted(key));
}

}  // namespace dlaunch::store
