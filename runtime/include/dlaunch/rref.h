// References to values that live in other workers: torch.distributed.rpc's RRef.
//
//   struct Counter { int add(int n) { return value += n; } int value = 0; };
//   std::shared_ptr<Counter> make_counter() { return std::make_shared<Counter>(); }
//   DLAUNCH_RPC(make_counter);
//   DLAUNCH_RPC(&Counter::add);
//
//   const auto counter = dlaunch::rpc::remote("ps", make_counter);  // an RRef<Counter>
//   counter.rpc_sync(&Counter::add, 3);                             // 3
//
// The value lives at its owner as long as a worker has an RRef to it: all RRefs of all workers count, also
// those that are on their way. A worker that dies holds none.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "dlaunch/rpc.h"

namespace dlaunch {
namespace internal {
class ReferenceHandle;
}
inline namespace v1 {
namespace rpc {

namespace rpc_detail {

using Handle = internal::ReferenceHandle;
DLAUNCH_EXPORT std::shared_ptr<Handle> own_value(Value value);
DLAUNCH_EXPORT std::shared_ptr<Handle> create_value(const Destination& to, std::string_view name,
                                                    codec::Bytes request);
DLAUNCH_EXPORT std::shared_ptr<void> local_object(const std::shared_ptr<Handle>& handle);
DLAUNCH_EXPORT void fetch_value(const std::shared_ptr<Handle>& handle, Destination::Timeout timeout,
                                std::shared_ptr<Receiver> receiver);
DLAUNCH_EXPORT void call_member(const std::shared_ptr<Handle>& handle, Destination::Timeout timeout,
                                std::string_view name, codec::Bytes request,
                                std::shared_ptr<Receiver> receiver);
DLAUNCH_EXPORT WorkerInfo owner_of(const std::shared_ptr<Handle>& handle);
DLAUNCH_EXPORT bool is_confirmed(const std::shared_ptr<Handle>& handle);
// While a message is written, and while one is read.
DLAUNCH_EXPORT HandleId write_handle(const std::shared_ptr<Handle>& handle);
DLAUNCH_EXPORT std::shared_ptr<Handle> read_handle(const HandleId& id);
DLAUNCH_EXPORT HandleId id_of(const std::shared_ptr<Handle>& handle);

template <class R>
struct Kept {
  using type = R;
};
template <class T>
struct Kept<std::shared_ptr<T>> {
  using type = T;
};

}  // namespace rpc_detail

// A handle; copies refer to the same value. May be an argument and a result of remote calls, alone or in a
// container: the other worker then has one, too. A default-constructed one refers to none, and may be
// assigned to, and sent. Any thread.
template <class T>
class RRef {
 public:
  using Timeout = Destination::Timeout;

  RRef() = default;
  // A value of this worker, which can be sent.
  explicit RRef(T value)
      : handle_(rpc_detail::own_value({std::make_shared<T>(std::move(value)),
                                       [](const void* object, const codec::ReceiverDevices& receiver) {
                                         return rpc_detail::result_bytes(*static_cast<const T*>(object),
                                                                         receiver);
                                       }})) {}
  // The same, but others only call its members.
  explicit RRef(std::shared_ptr<T> value) : handle_(rpc_detail::own_value({std::move(value), nullptr})) {}

  [[nodiscard]] bool is_owner() const { return owner() == get_worker_info(); }
  [[nodiscard]] WorkerInfo owner() const { return rpc_detail::owner_of(handle_); }
  [[nodiscard]] std::string owner_name() const { return owner().name; }
  // Whether the owner knows of this worker's reference; at the owner always.
  [[nodiscard]] bool confirmed_by_owner() const { return rpc_detail::is_confirmed(handle_); }

  // A copy of the value; waits until it is there. Throws what the function that makes it has thrown, as
  // RemoteError; DistNetworkError if the owner is lost or does not answer; DistError if the value cannot be
  // sent.
  [[nodiscard]] T to_here(Timeout timeout = {}) const {
    const auto receiver = std::make_shared<rpc_detail::PromiseReceiver<T>>();
    rpc_detail::fetch_value(handle_, timeout, receiver);
    return rpc_detail::PromiseReceiver<T>::future_of(receiver).wait();
  }
  // The value itself; waits until it is there. Throws DistError in another worker than the owner.
  [[nodiscard]] T& local_value() const { return *static_cast<T*>(rpc_detail::local_object(handle_).get()); }

  // Calls a registered member function of the value, or a registered function of a T&, at the value's owner.
  // Several may run at a time.
  template <class Member, class... U>
  auto rpc_async(Member member, U&&... arguments) const {
    return call(codec::Writer::LongData::copied, member, std::forward<U>(arguments)...);
  }
  template <class Member, class... U>
  auto rpc_sync(Member member, U&&... arguments) const {
    return call(codec::Writer::LongData::referred, member, std::forward<U>(arguments)...).wait();
  }

 private:
  template <class Archive>
  friend void serialize(Archive& archive, RRef& reference) {
    rpc_detail::HandleId id;
    if constexpr (std::is_same_v<Archive, codec::Write>) {
      if (reference.handle_) id = rpc_detail::write_handle(reference.handle_);
    }
    archive(id);
    if constexpr (std::is_same_v<Archive, codec::Read>) {
      reference.handle_ = id.number == 0 ? nullptr : rpc_detail::read_handle(id);
    }
  }
  template <class R, class... A, class... U>
  friend RRef<typename rpc_detail::Kept<rpc_detail::ResultOf<R>>::type> remote(const Destination& to,
                                                                               R (*function)(A...),
                                                                               U&&... arguments);
  template <class U>
  friend class RRef;

  template <class C, class R, class... A, class... U>
  auto call(codec::Writer::LongData how, R (C::*member)(A...), U&&... arguments) const {
    return call_member<R, A...>(how, rpc_detail::bytes_of(member), std::forward<U>(arguments)...);
  }
  template <class C, class R, class... A, class... U>
  auto call(codec::Writer::LongData how, R (C::*member)(A...) const, U&&... arguments) const {
    return call_member<R, A...>(how, rpc_detail::bytes_of(member), std::forward<U>(arguments)...);
  }
  template <class R, class... A, class... U>
  auto call(codec::Writer::LongData how, R (*function)(T&, A...), U&&... arguments) const {
    return call_member<R, A...>(how, rpc_detail::bytes_of(function), std::forward<U>(arguments)...);
  }
  template <class R, class... A, class... U>
  Future<rpc_detail::ResultOf<R>> call_member(codec::Writer::LongData how, std::string_view member,
                                              U&&... arguments) const {
    using Answer = rpc_detail::PromiseReceiver<rpc_detail::ResultOf<R>>;
    const std::string_view name = rpc_detail::name_of_function(member);
    const rpc_detail::CalleeDevices devices([this] { return owner_name(); });
    codec::Bytes request = rpc_detail::request_of<R, rpc_detail::HandleId, A...>(
        how, devices, name, rpc_detail::id_of(handle_), std::forward<U>(arguments)...);
    const auto receiver = std::make_shared<Answer>();
    rpc_detail::call_member(handle_, {}, name, std::move(request), receiver);
    return Answer::future_of(receiver);
  }

  std::shared_ptr<rpc_detail::Handle> handle_;
};

// Calls the function in another worker, or in this one, and keeps its result there. Returns at once. The
// function returns the value, a std::shared_ptr to it (then only its members are called), or a Future of one
// of these.
template <class R, class... A, class... U>
RRef<typename rpc_detail::Kept<rpc_detail::ResultOf<R>>::type> remote(const Destination& to,
                                                                      R (*function)(A...), U&&... arguments) {
  const std::string_view name = rpc_detail::name_of_function(rpc_detail::bytes_of(function));
  RRef<typename rpc_detail::Kept<rpc_detail::ResultOf<R>>::type> reference;
  const rpc_detail::CalleeDevices devices([&to] { return rpc_detail::name_of_worker(to); });
  reference.handle_ =
      rpc_detail::create_value(to, name,
                               rpc_detail::request_of<R, A...>(codec::Writer::LongData::copied, devices, name,
                                                               std::forward<U>(arguments)...));
  return reference;
}

}  // namespace rpc
}  // namespace v1
}  // namespace dlaunch
