// A model that NoSync and Join act on.
#pragma once

#include <functional>

#include "dlaunch/torch/join.h"

namespace dlaunch::torch::internal {

class GuardedModel {
 public:
  virtual ~GuardedModel() = default;
  virtual void enter_no_sync() = 0;
  virtual void leave_no_sync() = 0;
  virtual void begin_join(JoinOptions options) = 0;
  virtual void finish_join(const std::function<void()>& step) = 0;
  virtual void abandon_join() = 0;  // throws nothing
};

}  // namespace dlaunch::torch::internal
