// A call that ranks of the default group make together, and that meets through the store: new_group and the
// like.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/group/group_impl.h"
#include "runtime/record/recorder.h"
#include "runtime/rendezvous/rendezvous.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// Its errors name the call, and reach the other ranks if they must not wait for this one.
class CoordinatedCall {
 public:
  // `all`: the default group. `sequence`: the number of the call among its kind, the same on all ranks.
  CoordinatedCall(std::shared_ptr<GroupImpl> all, std::string operation, std::uint64_t sequence,
                  std::string group_name);

  [[nodiscard]] GroupImpl& all() const { return *all_; }
  [[nodiscard]] const ErrorContext& context() const { return context_; }
  // In the default group.
  [[nodiscard]] int self() const { return context_.rank; }

  // What `work` returns. If it throws DistError, the ranks that wait for this one at `keys` get the reason.
  template <class F>
  auto or_reject(Store& keys, const F& work) const {
    try {
      return work();
    } catch (const DistError& e) {
      reject(keys, e);
      throw;
    }
  }

  // What `work` returns. Its errors are explained (GroupImpl::explain) and name the call.
  template <class F>
  auto run(const F& work) const {
    try {
      return work();
    } catch (const StoreError& e) {
      all_->explain(e, context_);
    } catch (...) {
      std::rethrow_exception(in_context(std::current_exception(), context_));
    }
  }

 private:
  void reject(Store& keys, const DistError& error) const;

  const std::shared_ptr<GroupImpl> all_;
  const ErrorContext context_;
};

// Under DebugLevel::detail: returns when all ranks of `all` make this call. It comes before anything is
// numbered or waited for, so that nothing has happened if another rank makes another call.
void compare_with_all(GroupImpl& all, const std::string& operation, std::uint64_t sequence,
                      std::optional<std::chrono::milliseconds> timeout);

// As long as it lives the flight recorder shows that this rank is in the call and waits for others.
class CallRecord {
 public:
  CallRecord(const CoordinatedCall& call, std::size_t ranks, std::uint64_t sequence, const Timeout& limit);

  void succeed() { recorder_.end(recording_.hand_over(), true); }

 private:
  const WaitRecord waiting_;
  const GroupRecorder& recorder_;
  Recording recording_;
};

}  // namespace dlaunch::internal
