// Calls of one thread that its backends start together.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

class Together {
 public:
  Together() = default;
  ~Together() { give_up(); }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  void add(const std::shared_ptr<Backend>& backend) {
    if (std::ranges::find(backends_, backend) == backends_.end()) backends_.push_back(backend);
  }
  // In one order on all ranks: a backend keeps other threads out until the end. REQUIRES: all were added.
  void begin() {
    has_begun_ = true;
    for (const std::shared_ptr<Backend>& backend : backends_) backend->begin_together();
  }
  // Throws the first error of a backend, after all have started theirs.
  void end() {
    has_begun_ = false;
    if (const std::exception_ptr error = finish()) std::rethrow_exception(error);
  }
  // After an error: the Works of what was not started end.
  void give_up() noexcept {
    if (std::exchange(has_begun_, false)) finish();
  }

 private:
  std::exception_ptr finish() noexcept {
    std::exception_ptr first;
    for (const std::shared_ptr<Backend>& backend : backends_) {
      try {
        backend->end_together();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    return first;
  }

  std::vector<std::shared_ptr<Backend>> backends_;
  bool has_begun_ = false;
};

}  // namespace dlaunch::internal
