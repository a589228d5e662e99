// std::visit with one lambda for each kind. No lambda takes everything: a new kind does not compile until it
// is handled.
#pragma once

namespace dlaunch {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace dlaunch
