// breakpoint(): one rank stops for a debugger, and the others wait until it continues.
//
// The ranks meet through the store, which finds ranks that name different ones. They are released over the
// network: a debugger stops its whole process, also the store if that rank serves it, and a store that does
// not answer for a while counts as lost. A late rank reads from the store that the others have continued
// already. The key "phase" decides once for all ranks which of the two applies.
#include <csignal>

#include <algorithm>

#include "dlaunch/error.h"
#include "runtime/api/breakpoint.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/group/argument_checks.h"
#include "runtime/group/group_impl.h"
#include "runtime/group/when_all.h"
#include "runtime/rendezvous/rendezvous.h"
#include "store/client/prefix_store.h"

namespace dlaunch::internal {

namespace {

constexpr const char* come = "come";    // how many ranks
constexpr const char* phase = "phase";  // one of these two, once it is decided
constexpr const char* all_are_here = "all";
constexpr const char* one_has_gone_on = "gone on";
constexpr const char* gone_on = "gone on";  // there when the rank that stopped has

// Short, since other threads need the store too.
bool wait_a_moment(Store& store, const std::string& key) {
  try {
    store.wait({&key, 1}, std::chrono::milliseconds(50));
    return true;
  } catch (const StoreError& e) {
    if (e.error().kind != ErrorKind::timeout) throw;
    return false;
  }
}

Tensor nothing() {
  const std::int64_t none = 0;
  return Tensor(static_cast<void*>(nullptr), DType::int8, std::span(&none, 1));
}

}  // namespace

void GroupImpl::breakpoint(int rank) {
  constexpr const char* name = "breakpoint";
  const Deadline never = deadline_after(longest_timeout);
  require_rank(description_, name, "rank", rank);
  (void)usable_backend(name, std::nullopt);
  ErrorContext context{.rank = description_.rank, .operation = name, .group = description_.name};
  if (!keys_) throw DistError("the group has no store", context);
  {
    const std::lock_guard lock(state_mutex_);
    context.sequence = ++breakpoints_;
  }
  PrefixStore keys("breakpoint/" + std::to_string(context.sequence), keys_);
  const std::string call = std::string(name) + "(" + std::to_string(rank) + ")";
  const Stop stop{rank, keys, context, [&] {
                    rendezvous(keys, {.call = name,
                                      .statement = call,
                                      .self = description_.rank,
                                      .rank = -1,
                                      .members = description_.ranks,
                                      .deadline = never});
                  }};
  const bool stops_here = rank == description_.rank;
  explain_errors(context, [&] {
    if (stops_here)
      announce_wait("rank " + std::to_string(description_.ranks[static_cast<std::size_t>(rank)]));
    compare_call(call, never, context);
    rendezvous_at(stop);
    if (!stops_here) return hold(stop);
    await_debugger(stop.agree);
    (void)std::raise(SIGTRAP);  // the debugger takes it
    release_held_ranks(stop);
  });
}

void GroupImpl::rendezvous_at(const Stop& stop) {
  stop.agree();
  if (stop.keys.add(come, 1) == description_.size) stop.keys.compare_set(phase, "", all_are_here);
}

void GroupImpl::hold(const Stop& stop) {
  while (!wait_a_moment(stop.keys, phase)) {
    throw_if_lost();
    stop.agree();
    if (std::ranges::binary_search(departed(), stop.rank) && !wait_a_moment(stop.keys, phase)) {
      throw DistNetworkError(left_the_group, {.peer = stop.rank});
    }
  }
  if (stop.keys.get(phase) == all_are_here) await_release(stop);
}

// No deadline, and --hang-timeout does not count it as waiting.
void GroupImpl::await_release(const Stop& stop) {
  const std::shared_ptr<Backend> backend = usable_backend(stop.context.operation.c_str(), std::nullopt);
  const Operation operation{stop.context.sequence, deadline_after(longest_timeout), true};
  std::optional<Work> message;
  try {
    message = backend->recv(nothing(), stop.rank,
                            tag_of(Tags::breakpoints, static_cast<std::uint32_t>(stop.context.sequence)),
                            operation);
  } catch (const DistBackendError&) {  // it has no messages
    while (!wait_a_moment(stop.keys, gone_on)) throw_if_lost();
    return;
  }
  const std::future<void> come_back = message->get_future();
  while (come_back.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) throw_if_lost();
  try {
    message->wait();
  } catch (const DistError&) {
    const std::exception_ptr error = located(std::current_exception(), stop.context);
    fail(error);
    std::rethrow_exception(error);
  }
}

void GroupImpl::release_held_ranks(const Stop& stop) {
  if (stop.keys.compare_set(phase, "", one_has_gone_on) != all_are_here) return;
  stop.keys.set(gone_on, "");
  const std::shared_ptr<Backend> backend = usable_backend(stop.context.operation.c_str(), std::nullopt);
  const Operation operation{stop.context.sequence, deadline_after(longest_timeout), true};
  std::vector<Work> messages;
  try {
    for (int peer = 0; peer < description_.size; ++peer) {
      if (peer == description_.rank) continue;
      messages.push_back(backend->send(
          nothing(), peer, tag_of(Tags::breakpoints, static_cast<std::uint32_t>(stop.context.sequence)),
          operation));
    }
    when_all(messages).wait();
  } catch (const DistBackendError&) {  // it has no messages: the others poll the store
    return;
  } catch (const DistError&) {
    const std::exception_ptr error = located(std::current_exception(), stop.context);
    fail(error);
    std::rethrow_exception(error);
  }
}

}  // namespace dlaunch::internal
