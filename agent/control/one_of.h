// Names several kinds of a variant in one lambda of std::visit: `[](const OneOf<Done, Stopped> auto&) {...}`.
// A kind that no lambda names is still an error of the compiler.
#pragma once

#include <concepts>

namespace dlaunch::agent {

template <class T, class... Kinds>
concept OneOf = (std::same_as<T, Kinds> || ...);

}  // namespace dlaunch::agent
