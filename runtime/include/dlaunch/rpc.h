// Calls of functions in other workers of the job: torch.distributed.rpc's with its names and meanings.
//
//   int add(int a, int b) { return a + b; }
//   DLAUNCH_RPC(add);
//
//   int main() {
//     dlaunch::rpc::init_rpc("worker" + std::string(std::getenv("RANK")));
//     dlaunch::rpc::rpc_sync("worker1", add, 2, 3);               // 5
//     dlaunch::Future<int> sum = dlaunch::rpc::rpc_async({"worker1", std::chrono::seconds(5)}, add, 2, 3);
//     sum.wait();
//     dlaunch::rpc::shutdown();
//   }
//
// A function is called by the name with which both programs have registered it. The types of its arguments
// and of its result must be the same on both sides, which is checked when a call arrives. They are those of
// codec.h, and std::string_view and std::span<const T> as arguments. Large arguments and results are sent in
// parts, and do not delay other calls.
//
// Long vectors and strings of numbers and characters are sent without a copy: by rpc_sync from the caller's
// memory, by rpc_async if they are moved into the call (else it copies them once), results always. A function
// that takes a std::span or std::string_view reads them where they have arrived.
//
// A call is sent at most once. If there is no answer, the error reports whether it was sent: then it may have
// run. Each call ends by its timeout; if its worker dies, at once. Two workers of one host talk through
// memory that they share, or a Unix socket if they cannot; others over TCP. The connection is made by the
// first call. All calls here may be made from several threads at once, and from functions that run for
// another worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlaunch/codec.h"
#include "dlaunch/error.h"
#include "dlaunch/export.h"
#include "dlaunch/future.h"
#include "dlaunch/rpc_arguments.h"
#include "dlaunch/rpc_devices.h"
#include "dlaunch/store.h"

namespace dlaunch {
namespace internal {
struct ReplyState;
}
inline namespace v1 {

// A function in another worker has thrown, or the worker has rejected the call: it does not know the
// function, knows it with another signature, or the arguments do not decode.
class DLAUNCH_EXPORT RemoteError : public DistError {
 public:
  RemoteError(const std::string& reason, std::string worker, std::string type, std::string text);
  RemoteError(const RemoteError&) = default;
  RemoteError& operator=(const RemoteError&) = default;
  ~RemoteError() override;

  [[nodiscard]] const std::string& worker() const noexcept { return worker_; }
  // Of the exception, "std::out_of_range"; empty: the call was rejected, or what was thrown is no
  // std::exception.
  [[nodiscard]] const std::string& type() const noexcept { return type_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }  // its what()

 private:
  std::string worker_;
  std::string type_;
  std::string text_;
};

namespace rpc {

struct RpcOptions {
  // -1: from the environment (RANK, WORLD_SIZE), or of the program that has started this rank. Without a
  // world size from anywhere the workers come and go (init_rpc); without a rank such a worker gets a free
  // one.
  int rank = -1;
  int world_size = -1;
  // How the workers find each other: as for init_process_group.
  std::string init_method = {};
  std::shared_ptr<KeyValueStore> store = {};
  // For the workers to come together.
  std::chrono::milliseconds init_timeout = std::chrono::minutes(30);
  // Of each call that has no timeout of its own. 0: none.
  std::chrono::milliseconds rpc_timeout = std::chrono::seconds(60);
  // At most so many functions run here for other workers at a time.
  int num_worker_threads = 16;
  // Workers that refer to each other's values and cannot reach each other for so long are dead to each other:
  // the references of one are broken, and the other destroys values that no other worker refers to. The same
  // on all workers. 0: never.
  std::chrono::milliseconds reference_lease = std::chrono::minutes(10);
  // For tensors on CUDA devices (dlaunch/torch/rpc_tensors.h): {callee's name: {own device: the callee's}}.
  // Results come back by the inverse of the map, which is one to one.
  std::map<std::string, std::map<int, int>> device_maps = {};
  // All devices of this worker in its maps and in those of others for it. Empty: any that it has.
  std::vector<int> devices = {};

  // Adds to the map for worker `to`. Throws DistError if a device has another one there already.
  DLAUNCH_EXPORT void set_device_map(const std::string& to, const std::map<int, int>& map);
};

// Joins the workers; returns when all have come. Independent of init_process_group. `name`: of letters,
// digits,
// "_", "-", ":" and "."; no other worker of the job has it. Throws DistError if remote calls have begun
// already or an argument is wrong, on all workers if a device map is, and DistNetworkError that names the
// workers that have not come.
//
// Without a world size it returns at once: workers join at any time, and find each other when they call each
// other. Each has a rank and a name that no other worker of the group has: otherwise DistError that names
// that worker. Rank and name of a worker that has left or died are free again.
DLAUNCH_EXPORT void init_rpc(const std::string& name, const RpcOptions& options = {});

// Ends remote calls. Graceful: waits until all workers have called this and no call is under way; an error
// names those that do not come, and those that are lost at once. Otherwise: now, and calls under way fail.
// Without a world size, graceful: waits for the calls of this worker and then for the functions that run
// here; the others go on. `timeout` 0: none. Remote calls have ended in any case when it returns or throws.
DLAUNCH_EXPORT void shutdown(bool graceful = true, std::chrono::milliseconds timeout = {});

struct WorkerInfo {
  std::string name;
  int id = -1;  // its rank

  bool operator==(const WorkerInfo&) const = default;
};
DLAUNCH_EXPORT WorkerInfo get_worker_info();  // this worker
// Throws DistError if there is none of that name, or it has left. Without a world size it may ask the store.
DLAUNCH_EXPORT WorkerInfo get_worker_info(std::string_view name);
// All workers, by id. Without a world size: those that have joined, have not left, and are not known to have
// died; it asks the store, and then looks at each of them (milliseconds for each host that does not answer).
DLAUNCH_EXPORT std::vector<WorkerInfo> get_worker_infos();

// Which worker is called, by its name or its id, and for how long the caller waits. {"ps",
// std::chrono::seconds(5)}
class Destination {
 public:
  using Timeout = std::optional<std::chrono::milliseconds>;

  Destination(std::string_view name, Timeout timeout = {}) : name_(name), timeout_(timeout) {}    // NOLINT
  Destination(const char* name, Timeout timeout = {}) : name_(name), timeout_(timeout) {}         // NOLINT
  Destination(const std::string& name, Timeout timeout = {}) : name_(name), timeout_(timeout) {}  // NOLINT
  Destination(int id, Timeout timeout = {}) : id_(id), timeout_(timeout) {}                       // NOLINT
  Destination(const WorkerInfo& worker, Timeout timeout = {})                                     // NOLINT
      : id_(worker.id), timeout_(timeout) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int id() const { return id_; }  // -1: by name
  [[nodiscard]] Timeout timeout() const { return timeout_; }

 private:
  std::string name_;
  int id_ = -1;
  Timeout timeout_;
};

namespace rpc_detail {

// A value that a worker keeps for remote references to it (rref.h).
struct Value {
  std::shared_ptr<void> object;
  // Null: it cannot be sent.
  codec::Bytes (*to_bytes)(const void* object, const codec::ReceiverDevices& receiver) = nullptr;
};

// The caller's side of the answer. One of these is called, once.
class DLAUNCH_EXPORT Receiver {
 public:
  Receiver() = default;
  virtual ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  virtual void on_result(codec::Reader bytes) = 0;
  virtual void on_error(std::exception_ptr error) = 0;
  // Who can bring the answer about on the thread that waits for it. Before the call is sent.
  virtual void set_helper(std::shared_ptr<future_detail::Helper> helper);
};

struct HandleId;

// The callee's side: the way back. Copies refer to the same call. Any thread.
class DLAUNCH_EXPORT Reply final : public codec::ReceiverDevices {
 public:
  explicit Reply(std::shared_ptr<internal::ReplyState> state) : state_(std::move(state)) {}
  // Whether the result is kept here, and not sent.
  [[nodiscard]] bool keeps() const;
  void keep(Value value) const;
  void result(codec::Bytes bytes) const;
  void error(std::exception_ptr error) const;
  void bad_arguments(const std::string& why) const;
  // The arguments are read: the function runs. If the result is kept, its creation is acknowledged.
  void begin() const;
  // Calls `use` with a value of this worker when it is there; replies with an error if there is none, or
  // `use` throws.
  void with_value(const HandleId& id, std::function<void(const Value& value)> use) const;
  // The caller's devices, by the inverse of its map.
  [[nodiscard]] std::optional<int> find(int own) const override;
  [[nodiscard]] std::string why_none(int own) const override;

 private:
  std::shared_ptr<internal::ReplyState> state_;
};

// Decodes the arguments, calls the function, and replies.
using Handler = std::function<void(codec::Reader arguments, const Reply& reply)>;
// `pointer`: to the function; its bytes.
DLAUNCH_EXPORT void add_function(std::string_view name, std::uint64_t signature, std::string_view pointer,
                                 Handler handler);
// The result lives until the process ends. Throws DistError if the function is not registered.
DLAUNCH_EXPORT std::string_view name_of_function(std::string_view pointer);
DLAUNCH_EXPORT std::string name_of_worker(const Destination& to);
// What a request begins with.
DLAUNCH_EXPORT std::string begin_request(std::string_view name, std::uint64_t signature);
// `name`: as name_of_function() has returned it.
DLAUNCH_EXPORT void call(const Destination& to, std::string_view name, codec::Bytes request,
                         std::shared_ptr<Receiver> receiver);
// Runs it on a worker thread.
DLAUNCH_EXPORT void run_callback(std::function<void()> callback);

template <class R>
using ResultOf = typename future_detail::Unwrap<std::remove_cvref_t<R>>::type;

template <class T>
struct IsPointer : std::false_type {};
template <class T>
struct IsPointer<std::shared_ptr<T>> : std::true_type {};

// As what a result counts in the signature: a pointer is never sent.
template <class R>
using SignedResult =
    std::conditional_t<IsPointer<ResultOf<R>>::value, std::monostate, future_detail::Stored<ResultOf<R>>>;

template <class R, class... A>
std::uint64_t signature_of_function() {
  static const std::uint64_t signature = [] {
    codec::Signature all;
    codec::Sign sign(all);
    std::tuple<SignedResult<R>, SentAs<A>...> values{};
    sign(values);
    return all.hash();
  }();
  return signature;
}

template <class F>
std::string_view bytes_of(const F& function) {
  return {reinterpret_cast<const char*>(&function), sizeof function};
}

// The state of a future, which is completed by the answer.
template <class R>
class PromiseReceiver final : public Receiver {
 public:
  static Future<R> future_of(const std::shared_ptr<PromiseReceiver>& receiver) {
    return future_detail::Access::future_of(
        std::shared_ptr<future_detail::ValueState<R>>(receiver, &receiver->state_));
  }

  void on_result(codec::Reader reader) override {
    state_.set_result_of([&]() -> R {
      const CallerStreams streams = std::move(streams_);
      const auto scope = streams.enter();
      codec::Read read(reader);
      future_detail::Stored<R> value{};
      read(value);
      if (!reader.at_end())
        throw DistError("the result of a remote call is followed by bytes that belong to nothing");
      if constexpr (!std::is_void_v<R>) return value;
    });
  }
  void on_error(std::exception_ptr error) override { state_.set_exception(std::move(error)); }
  void set_helper(std::shared_ptr<future_detail::Helper> helper) override {
    state_.set_helper(std::move(helper));
  }

 private:
  future_detail::ValueState<R> state_{run_callback};
  CallerStreams streams_;
};

// The result of a function, sent or kept.
template <class R>
void reply_with_value(const Reply& reply, R value) {
  if constexpr (IsPointer<R>::value) {
    if (!reply.keeps())
      throw DistError("the function returns a pointer, which is not sent: call it with remote()");
    reply.keep({std::move(value), nullptr});
  } else if (reply.keeps()) {
    reply.keep({std::make_shared<R>(std::move(value)),
                [](const void* object, const codec::ReceiverDevices& receiver) {
                  return result_bytes(*static_cast<const R*>(object), receiver);
                }});
  } else {
    reply.result(bytes_with<R>(std::move(value), reply));
  }
}

// Replies with what the function returns, now or later.
template <class R, class Call>
void reply_with(const Reply& reply, const Call& call) {
  try {
    if constexpr (future_detail::IsFuture<R>::value) {
      const R later = call();
      later.then([reply](const R& done) {
        reply_with<typename R::Value>(reply, [&]() -> decltype(auto) { return done.wait(); });
      });
    } else if constexpr (std::is_void_v<R>) {
      call();
      reply_with_value<std::monostate>(reply, {});
    } else {
      reply_with_value<R>(reply, call());
    }
  } catch (...) {
    reply.error(std::current_exception());
  }
}

// The arguments; none: they do not decode, and the reply is given.
template <class Tuple>
std::optional<Tuple> read_arguments(codec::Reader reader, const Reply& reply) {
  try {
    Tuple arguments;
    codec::Read read(reader);
    read(arguments);
    if (!reader.at_end()) throw DistError("they are followed by bytes that belong to nothing");
    reply.begin();
    return arguments;
  } catch (const DistError& e) {
    reply.bad_arguments(e.reason());
    return std::nullopt;
  }
}

template <class R, class... A>
Handler handler_of(R (*function)(A...)) {
  return [function](codec::Reader bytes, const Reply& reply) {
    auto arguments = read_arguments<std::tuple<ReceivedAs<A>...>>(std::move(bytes), reply);
    if (!arguments) return;
    reply_with<std::remove_cvref_t<R>>(reply, [&]() -> R {
      return std::apply(
          [&](auto&... each) -> R {
            return function(static_cast<A&&>(Received<std::remove_cvref_t<A>>::get(each))...);
          },
          *arguments);
    });
  };
}

}  // namespace rpc_detail

namespace rpc_detail {

// Which value a reference refers to, as it is sent.
struct HandleId {
  std::uint32_t owner = 0;
  std::uint32_t creator = 0;
  std::uint64_t number = 0;

  template <class Archive>
  friend void serialize(Archive& archive, HandleId& id) {
    archive(id.owner, id.creator, id.number);
  }
};
template <class C>
concept NotConst = !std::is_const_v<C>;
// `Member`: a member function of C, or a function of C&.
template <class C, class Member, class R, class... A>
Handler handler_of_member(Member member) {
  return [member](codec::Reader bytes, const Reply& reply) {
    auto read = read_arguments<std::tuple<HandleId, ReceivedAs<A>...>>(std::move(bytes), reply);
    if (!read) return;
    const HandleId id = std::get<0>(*read);
    const auto arguments = std::make_shared<std::tuple<HandleId, ReceivedAs<A>...>>(*std::move(read));
    reply.with_value(id, [member, reply, arguments](const Value& value) {
      reply_with<std::remove_cvref_t<R>>(reply, [&]() -> R {
        return std::apply(
            [&](HandleId&, auto&... each) -> R {
              return std::invoke(member, *static_cast<C*>(value.object.get()),
                                 static_cast<A&&>(Received<std::remove_cvref_t<A>>::get(each))...);
            },
            *arguments);
      });
    });
  };
}

// The bytes of a call. Long data of arguments that the caller keeps are copied, or referred to: then they
// must not change until the call has ended.
template <class R, class... A, class... U>
codec::Bytes request_of(codec::Writer::LongData how, const CalleeDevices& callee, std::string_view name,
                        U&&... arguments) {
  static_assert(sizeof...(A) == sizeof...(U), "the function takes another number of arguments");
  codec::Writer writer(how, &callee, begin_request(name, signature_of_function<R, A...>()));
  codec::Write write(writer);
  (write_argument<A>(writer, write, std::forward<U>(arguments)), ...);
  return writer.take_bytes();
}

template <class R, class... A, class... U>
Future<ResultOf<R>> begin_call(codec::Writer::LongData how, const Destination& to, R (*function)(A...),
                               U&&... arguments) {
  using Answer = PromiseReceiver<ResultOf<R>>;
  const std::string_view name = name_of_function(bytes_of(function));
  const CalleeDevices devices([&to] { return name_of_worker(to); });
  codec::Bytes request = request_of<R, A...>(how, devices, name, std::forward<U>(arguments)...);
  const auto receiver = std::make_shared<Answer>();
  call(to, name, std::move(request), receiver);
  return Answer::future_of(receiver);
}

}  // namespace rpc_detail

// What DLAUNCH_RPC makes. A name that is registered for two functions is an error of init_rpc.
class Registration {
 public:
  template <class R, class... A>
  Registration(std::string_view name, R (*function)(A...)) {
    rpc_detail::add_function(name, rpc_detail::signature_of_function<R, A...>(),
                             rpc_detail::bytes_of(function), rpc_detail::handler_of(function));
  }
  // Of a value that an RRef refers to: RRef<C>::rpc_sync() calls it there.
  template <class R, rpc_detail::NotConst C, class... A>
  Registration(std::string_view name, R (*function)(C&, A...)) {
    add_member<C, R, A...>(name, function);
  }
  template <class C, class R, class... A>
  Registration(std::string_view name, R (C::*member)(A...)) {
    add_member<C, R, A...>(name, member);
  }
  template <class C, class R, class... A>
  Registration(std::string_view name, R (C::*member)(A...) const) {
    add_member<C, R, A...>(name, member);
  }

 private:
  template <class C, class R, class... A, class Member>
  static void add_member(std::string_view name, Member member) {
    rpc_detail::add_function(name, rpc_detail::signature_of_function<R, rpc_detail::HandleId, A...>(),
                             rpc_detail::bytes_of(member),
                             rpc_detail::handler_of_member<C, Member, R, A...>(member));
  }
};

// Calls the function in another worker. Returns its result; throws RemoteError if it throws, DistNetworkError
// if there is no answer, and DistError if the function is not registered here or there is no such worker.
//
// If the function returns a Future, the answer is sent when that is done, and no thread waits for it; the
// caller gets the value.
template <class R, class... A, class... U>
Future<rpc_detail::ResultOf<R>> rpc_async(const Destination& to, R (*function)(A...), U&&... arguments) {
  return rpc_detail::begin_call<R, A...>(codec::Writer::LongData::copied, to, function,
                                         std::forward<U>(arguments)...);
}
template <class R, class... A, class... U>
rpc_detail::ResultOf<R> rpc_sync(const Destination& to, R (*function)(A...), U&&... arguments) {
  return rpc_detail::begin_call<R, A...>(codec::Writer::LongData::referred, to, function,
                                         std::forward<U>(arguments)...)
      .wait();
}

}  // namespace rpc
}  // namespace v1
}  // namespace dlaunch

#define DLAUNCH_RPC_JOINED_(a, b) a##b
#define DLAUNCH_RPC_NAMED_(a, b) DLAUNCH_RPC_JOINED_(a, b)
// Registers a function, or a member function (&Class::member), by its name in the source, before main() or
// when its library is loaded. At namespace scope. A function whose first parameter is a T& is for values that
// an RRef<T> refers to.
#define DLAUNCH_RPC(function)                                                    \
  [[maybe_unused]] static const ::dlaunch::rpc::Registration DLAUNCH_RPC_NAMED_( \
      dlaunch_rpc_registration_, __COUNTER__)(#function, function)
