// A call through a reference to something callable: costs no memory, where std::function takes some for all
// but the smallest captures.
#pragma once

#include <type_traits>
#include <utility>

namespace dlaunch::internal {

template <class Signature>
class FunctionRef;

// REQUIRES: the callable object outlives this one. So it takes no temporary object.
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  FunctionRef() = default;  // none
  template <class Callable>
  requires(!std::is_same_v<std::remove_const_t<Callable>, FunctionRef>)
      FunctionRef(Callable& callable)  // NOLINT(google-explicit-constructor): a parameter's type
      : object_(&callable), call_([](const void* object, Arguments... arguments) -> Result {
          return (*static_cast<const Callable*>(object))(std::forward<Arguments>(arguments)...);
        }) {}

  explicit operator bool() const { return call_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    return call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  const void* object_ = nullptr;
  Result (*call_)(const void* object, Arguments... arguments) = nullptr;
};

}  // namespace dlaunch::internal
