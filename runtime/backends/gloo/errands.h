// What is done on Gloo's own thread.
//
// Why there: Gloo's thread does not wait for a connection's lock, it tries again and again for as long as
// there is something to read. A program's thread that writes a long message holds that lock; if it loses its
// processor meanwhile, to Gloo's thread above all, that one spins until its time slice is over: milliseconds.
// What is begun on Gloo's thread is out of its way.
#pragma once

#include <gloo/transport/tcp/device.h>

#include <memory>
#include <mutex>
#include <vector>

#include "dlaunch/backend.h"

namespace dlaunch {

class Errands final : private ::gloo::transport::tcp::Handler {
 public:
  class Errand {
   public:
    virtual ~Errand() = default;
    virtual void run() noexcept = 0;
  };

  // REQUIRES: `device` is one for TCP.
  explicit Errands(const std::shared_ptr<::gloo::transport::Device>& device);
  ~Errands() override;  // drops what has not been run
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  // They are run one after another, in this order. Any thread.
  void add(std::shared_ptr<Errand> errand);

  // Returns when all that was added has been run, or `deadline` has passed.
  void flush(Deadline deadline);

  // From its return on nothing is run any more, and what is added is dropped. To be called before a
  // connection is closed: Gloo then waits for its thread with the lock held that an errand would wait for.
  void stop();

 private:
  void handleEvents(int events) override;  // NOLINT(readability-identifier-naming): Gloo's name

  const std::shared_ptr<::gloo::transport::tcp::Device> device_;
  const int bell_;  // an eventfd in Gloo's loop
  std::mutex mutex_;
  std::vector<std::shared_ptr<Errand>> waiting_;  // protected by mutex_
  std::mutex running_;                            // held while they are run; before mutex_
  bool stopped_ = false;                          // protected by running_
};

}  // namespace dlaunch
