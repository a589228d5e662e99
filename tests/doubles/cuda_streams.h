// The streams of the double of the CUDA runtime: queues whose operations one thread carries out, late and in
// an order between the streams that a seed decides (CUDA_DOUBLE_SEED). Only what a program has ordered, by
// one stream or by events, is in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace doubles {

class Stream;
using StreamPointer = std::shared_ptr<Stream>;

// A place in a stream: reached when as many of its operations have been carried out.
struct Place {
  StreamPointer stream;
  std::uint64_t number = 0;
};

// Carries an operation out, or a part of it; true: it is done. Must not block, but may be called again.
using Step = std::function<bool()>;

class Stream {
 public:
  Stream(int of_device, bool waits_for_default) : device(of_device), is_blocking(waits_for_default) {}

  const int device;
  const bool is_blocking;  // ordered with the default stream
  // protected by the mutex of Streams
  struct Entry {
    Step step;
    std::vector<Place> after;
    std::chrono::steady_clock::time_point not_before;
  };
  std::deque<Entry> entries;
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
};

class __attribute__((visibility("default"))) Streams {
 public:
  Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  StreamPointer make(int device, bool is_blocking);
  // No operation is added any more.
  void forget(const StreamPointer& stream);
  StreamPointer default_stream(int device);

  // The operation also waits for the places in `after`.
  void add(const StreamPointer& stream, Step step, std::vector<Place> after = {});
  // After all that is in the stream now.
  [[nodiscard]] Place end_of(const StreamPointer& stream);
  [[nodiscard]] bool is_reached(const Place& place);
  void wait(const Place& place);
  void wait_for_device(int device);

  // 0 .. `limit`, from the seed. REQUIRES: limit > 0.
  std::uint64_t draw(std::uint64_t limit);

 private:
  void run();
  bool run_one(std::unique_lock<std::mutex>& lock);
  std::uint64_t draw_locked(std::uint64_t limit);

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::mt19937_64 random_;
  std::vector<StreamPointer> all_;
  std::vector<StreamPointer> defaults_;
  bool is_running_ = false;
};

}  // namespace doubles
