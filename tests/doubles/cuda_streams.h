// The streams of the double of the CUDA runtime: queues whose operations one thread carries out, late and in
// an order between the streams that a seed decides (CUDA_DOUBLE_SEED). Only what a program has ordered, by
// one stream or by events, is in order.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

namespace doubles {

class Stream;
using StreamPointer = std::shared_ptr<Stream>;

struct Capture;

// A place in a stream: reached when as many of its operations have been carried out. In a captured stream:
// one in the graph, which is never reached.
struct Place {
  StreamPointer stream;
  std::uint64_t number = 0;
  std::shared_ptr<Capture> capture = {};
  std::size_t node = 0;
};

// Carries an operation out, or a part of it; true: it is done. Must not block, but may be called again.
using Step = std::function<bool()>;
// Makes a new step of a captured operation for each launch of its graph.
using StepMaker = std::function<Step()>;

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
  bool is_forgotten = false;
  std::shared_ptr<Capture> capture;      // null: it is not captured
  std::optional<std::size_t> last_node;  // in the capture
};

// What the calling thread has exchanged.
cudaStreamCaptureMode& capture_mode_of_thread();

class __attribute__((visibility("default"))) Streams {
 public:
  Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  StreamPointer make(int device, bool is_blocking);
  // No operation is added any more.
  void forget(const StreamPointer& stream);
  StreamPointer default_stream(int device);

  // The operation also waits for the places in `after`. A stream that is not captured, and gets a place of a
  // graph, becomes a part of that capture.
  void add(const StreamPointer& stream, Step step, std::vector<Place> after = {});
  // The same of a step with a state of its own.
  void add_made(const StreamPointer& stream, const StepMaker& make, std::vector<Place> after = {});
  // After all that is in the stream now.
  [[nodiscard]] Place end_of(const StreamPointer& stream);
  [[nodiscard]] bool is_reached(const Place& place);
  void wait(const Place& place);
  void wait_for_device(int device);

  cudaError_t begin_capture(const StreamPointer& stream, cudaStreamCaptureMode mode);
  cudaError_t end_capture(const StreamPointer& stream, std::shared_ptr<Capture>& made);
  [[nodiscard]] bool is_open(const std::shared_ptr<Capture>& capture);
  cudaStreamCaptureStatus capture_status(const StreamPointer& stream);
  // Of a call that must not be made during a capture: invalidates the captures that forbid it to this thread.
  cudaError_t check_no_capture();

  // 0 .. `limit`, from the seed. REQUIRES: limit > 0.
  std::uint64_t draw(std::uint64_t limit);

 private:
  // With the mutex held; true: the stream is captured, and the operation has become a part of the graph.
  bool capture(const StreamPointer& stream, const StepMaker& make, const std::vector<Place>& after);
  void run();
  bool run_one(std::unique_lock<std::mutex>& lock);
  std::uint64_t draw_locked(std::uint64_t limit);

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::mt19937_64 random_;
  std::vector<StreamPointer> all_;
  std::vector<StreamPointer> defaults_;
  std::vector<std::shared_ptr<Capture>> captures_;
  bool is_running_ = false;
};

}  // namespace doubles
