// Operations that were started, as PyTorch's Work.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "tensors.h"

namespace dlaunch::torch {

// 0, the group's timeout, for PyTorch's `unset`, which is negative.
inline int64_t milliseconds(std::chrono::milliseconds given) { return std::max<int64_t>(0, given.count()); }

// The error of the calling thread's latest call, which has returned `status`.
inline std::exception_ptr error_of(int status) {
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  const std::string text = dlaunch_last_error();
  switch (status) {
    case DLAUNCH_ERROR_BACKEND:
      return std::make_exception_ptr(c10::DistBackendError(here, text));
    case DLAUNCH_ERROR_NETWORK:
      return std::make_exception_ptr(c10::DistNetworkError(here, text));
    case DLAUNCH_ERROR_STORE:
      return std::make_exception_ptr(c10::DistStoreError(here, text));
    default:
      return std::make_exception_ptr(c10::DistError(here, text));
  }
}

// What happens at the ends of operations for which no thread waits. One thread of the process waits for them
// in the library; it begins with the first action and never ends.
class Completions {
 public:
  static Completions& instance() {
    static auto* const one = new Completions;  // its thread may outlive the destructors of static objects
    return *one;
  }
  void when_ended(const dlaunch_work* work, std::function<void()> action) {
    uint64_t token = 0;
    {
      const std::lock_guard lock(mutex_);
      token = ++last_token_;
      actions_.emplace(token, std::move(action));
    }
    if (const int status = dlaunch_work_notify(work, queue_, token)) {
      const std::lock_guard lock(mutex_);
      actions_.erase(token);
      std::rethrow_exception(error_of(status));
    }
  }

 private:
  Completions() {
    if (const int status = dlaunch_completions_make(&queue_)) std::rethrow_exception(error_of(status));
    std::thread([this] { run(); }).detach();
  }
  void run() {
    constexpr std::size_t capacity = 64;
    std::array<uint64_t, capacity> tokens{};
    std::size_t count = 0;
    while (dlaunch_completions_next(queue_, 0, tokens.data(), capacity, &count) == DLAUNCH_OK) {
      for (std::size_t i = 0; i < count; ++i) take(tokens[i])();
    }
  }
  std::function<void()> take(uint64_t token) {
    const std::lock_guard lock(mutex_);
    return std::move(actions_.extract(token).mapped());
  }

  dlaunch_completions* queue_ = nullptr;
  std::mutex mutex_;
  uint64_t last_token_ = 0;
  std::map<uint64_t, std::function<void()>> actions_;
};

class Work final : public c10d::Work {
 public:
  // Owns `handle`. `ranks`: of the group, for the source of a message.
  Work(dlaunch_work* handle, c10d::OpType type, Prepared prepared, std::vector<at::Tensor> outputs,
       uint64_t sequence, std::shared_ptr<const std::vector<int>> ranks)
      : c10d::Work(-1, type),
        handle_(handle),
        prepared_(std::move(prepared)),
        outputs_(std::move(outputs)),
        sequence_(sequence),
        ranks_(std::move(ranks)) {}
  ~Work() override {
    if (ended_ || dlaunch_work_is_completed(handle_)) {
      dlaunch_work_free(handle_);
      return;
    }
    // The operation uses the tensors until its end.
    Completions::instance().when_ended(
        handle_, [handle = handle_, kept = prepared_.take_kept()] { dlaunch_work_free(handle); });
  }

  // To be called once, after it is owned: an output with gaps is complete when a thread learns of the end.
  void begin() {
    if (prepared_.copies_back())
      Completions::instance().when_ended(handle_, [self = owner()] { self->settle(0); });
  }

  bool isCompleted() override {
    if (has_ended()) return true;
    if (!dlaunch_work_is_completed(handle_)) return false;
    settle(0);
    return true;
  }
  // The two are questions, though the first one may learn of the end.
  bool isSuccess() const override { return const_cast<Work*>(this)->isCompleted() && error_ == nullptr; }
  std::exception_ptr exception() const override {
    return const_cast<Work*>(this)->isCompleted() ? error_ : nullptr;
  }
  int sourceRank() const override {
    const int rank = dlaunch_work_source_rank(handle_);
    const auto found = std::find(ranks_->begin(), ranks_->end(), rank);
    return found == ranks_->end() ? -1 : static_cast<int>(found - ranks_->begin());
  }
  std::vector<at::Tensor> result() override {
    wait();
    return outputs_;
  }
  void synchronize() override { wait(); }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    if (const std::exception_ptr error = settle(milliseconds(timeout))) std::rethrow_exception(error);
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    Completions::instance().when_ended(handle_, [self = owner(), future = future_] {
      if (const std::exception_ptr error = self->settle(0)) {
        future->setError(error);
      } else {
        future->markCompleted(c10::IValue(self->outputs_));
      }
    });
    return future_;
  }
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  c10::intrusive_ptr<Work> owner() { return c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this); }
  [[nodiscard]] bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  // Waits. nullptr, or the error: an operation that has failed returns it in each call, a passed timeout is
  // the call's own.
  std::exception_ptr settle(int64_t timeout_ms) {
    if (has_ended()) return error_;
    const int status = dlaunch_work_wait(handle_, timeout_ms);
    const std::exception_ptr error = status ? error_of(status) : nullptr;
    if (error && !dlaunch_work_is_completed(handle_)) return error;
    const std::lock_guard lock(mutex_);
    if (ended_) return error_;
    if (!error) prepared_.copy_back();
    error_ = error;
    ended_ = true;
    prepared_.take_kept();
    return error_;
  }

  dlaunch_work* const handle_;
  Prepared prepared_;
  const std::vector<at::Tensor> outputs_;
  const uint64_t sequence_;
  const std::shared_ptr<const std::vector<int>> ranks_;
  bool ended_ = false;  // with error_, under mutex_; neither changes afterwards
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Several operations as one; none: an operation that has succeeded.
class Together final : public c10d::Work {
 public:
  explicit Together(std::vector<c10::intrusive_ptr<c10d::Work>> works, std::vector<at::Tensor> outputs = {})
      : c10d::Work(-1, c10d::OpType::COALESCED), works_(std::move(works)), outputs_(std::move(outputs)) {}

  bool isCompleted() override {
    return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
  }
  std::exception_ptr exception() const override {
    for (const auto& work : works_) {
      if (const std::exception_ptr error = work->exception()) return error;
    }
    return nullptr;
  }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all = outputs_;
    for (const auto& work : works_) {
      const std::vector<at::Tensor> some = work->result();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  void synchronize() override { wait(); }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override {
    for (const auto& work : works_) work->wait(timeout);
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const auto type = c10::ListType::create(c10::TensorType::get());
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(c10::FutureType::create(type));
    for (const auto& work : works_) futures.push_back(work->getFuture());
    const auto self = c10::intrusive_ptr<Together>::unsafe_reclaim_from_nonowning(this);
    return c10::collectAll(futures)->then(
        [self](c10::ivalue::Future& all) -> c10::IValue {
          if (all.hasError()) std::rethrow_exception(all.exception_ptr());
          return self->result();
        },
        type);
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  std::vector<at::Tensor> outputs_;
};

}  // namespace dlaunch::torch
