// Training with units whose parameters are not there all the time, as a state machine: which unit's
// parameters are gathered ahead, and in which order the units' gradients are reduced.
//
// The gradients are reduced strictly in the reverse order of the forward pass, whatever the order in which
// they are complete: so all ranks make the same calls. Not synchronised; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dlaunch::internal {

class UnitSchedule {
 public:
  explicit UnitSchedule(std::size_t units) : is_complete_(units) {}

  // The unit's forward begins. The first one after the end of a backward pass begins a new order.
  // REQUIRES: unit < the number of units; so below.
  void forward(std::size_t unit);
  // The unit that followed this one in the order that is known best: the latest whole one.
  [[nodiscard]] std::optional<std::size_t> after(std::size_t unit) const;
  // The unit that came before this one; none also if its gradients are reduced already.
  [[nodiscard]] std::optional<std::size_t> before(std::size_t unit) const;

  // The unit has all its gradients of this backward pass. Returns the units to reduce now, in order.
  std::vector<std::size_t> complete(std::size_t unit);
  // Returns those that have not been returned in this pass: every unit of the order is, once in a pass.
  std::vector<std::size_t> end_backward();

  // The units of the latest forward passes, each once.
  [[nodiscard]] std::span<const std::size_t> order() const { return order_; }

 private:
  std::vector<std::size_t> order_;
  std::vector<std::size_t> last_order_;    // before `order_`
  bool has_ended_ = false;                 // a backward pass has, with `order_`
  std::vector<std::uint8_t> is_complete_;  // by unit, in this backward pass
  std::size_t reduced_ = 0;                // of `order_`, from its end
};

}  // namespace dlaunch::internal
