// Streams of the program's own, for tests of the order between them and operations.
#pragma once

#include <dlaunch/stream.h>

#include <condition_variable>
#include <mutex>
#include <string>

#include "tests/runtime/cuda/device_ranks.h"

namespace dlaunch::test {

// Holds a stream up, as a slow kernel does, until it is opened.
class Gate {
 public:
  void hold(cudaStream_t stream) {
    require(cudaLaunchHostFunc(
                stream, [](void* self) { static_cast<Gate*>(self)->pass(); }, this),
            "cudaLaunchHostFunc");
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

inline cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
  return stream;
}

inline void copy(cudaStream_t stream, const Floats& to, const Floats& from) {
  require(cudaMemcpyAsync(to.data(), from.data(), to.tensor().nbytes(), cudaMemcpyDefault, stream),
          "cudaMemcpyAsync");
}

inline OperationOptions async() {
  OperationOptions options;
  options.async_op = true;
  return options;
}

// As often as it takes for an order that happens by chance to go wrong.
constexpr int repeats = 30;

// What a reduction between two copies of the program's own stream gives; `reduce` makes one.
template <class Reduce>
std::string between_copies(int rank, const std::string& backend, const Reduce& reduce) {
  init(rank, std::chrono::seconds(30), backend);
  const cudaStream_t mine = make_stream();
  const StreamGuard guard({mine}, device_of(rank));
  const Floats source({1.0F});
  const Floats values(std::vector<float>(1));
  const Floats result(std::vector<float>(1));
  for (int i = 0; i < repeats; ++i) {
    values.set({-1.0F});
    result.set({-2.0F});
    copy(mine, values, source);
    reduce(values.tensor());
    copy(mine, result, values);
    require(cudaStreamSynchronize(mine), "cudaStreamSynchronize");
    if (text_of(result.get()) != "2") return "round " + std::to_string(i) + ": " + text_of(result.get());
  }
  return "ordered";
}

}  // namespace dlaunch::test
