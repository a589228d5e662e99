// A struct has one list of its fields, a function beside it, which serves writing and reading:
//
//   void fields(auto& io, Of<Point> auto& p) { io(p.x, p.y); }
//
// `p` is constant when `io` writes. Used for the messages on the wire and for JSON.
#pragma once

#include <concepts>
#include <type_traits>

namespace dlaunch::agent {

template <class T, class Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;

}  // namespace dlaunch::agent
