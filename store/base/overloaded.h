// std::visit with one lambda for each kind. No lambda takes everything: a new kind does not compile until it
// is handled.
#pragma once

#include "store/base/namespaces.h"

namespace dlaunch::store {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace dlaunch::store
