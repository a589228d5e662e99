// Something to be done once, later: a callable object that is moved and not copied. A small one is kept
// inside, where std::function takes memory for it.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace dlaunch::internal {

class Task {
 public:
  Task() = default;  // none: must not be called
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, Task>)
      // A parameter's type; and no Task is a Callable.
      // NOLINTNEXTLINE(*-explicit-constructor,*-reference-overload)
      Task(Callable&& callable) {
    using Kept = std::remove_cvref_t<Callable>;
    if constexpr (fits<Kept>) {
      new (&memory_) Kept(std::forward<Callable>(callable));
      how_ = &of<Kept>;
    } else {
      auto kept = [all = std::make_unique<Kept>(std::forward<Callable>(callable))] { (*all)(); };
      new (&memory_) decltype(kept)(std::move(kept));
      how_ = &of<decltype(kept)>;
    }
  }
  Task(Task&& other) noexcept { take(other); }
  Task& operator=(Task&& other) noexcept {
    if (this == &other) return *this;
    reset();
    take(other);
    return *this;
  }
  ~Task() { reset(); }

  void operator()() { how_->call(&memory_); }
  explicit operator bool() const { return how_ != nullptr; }
  // Destroys the callable object.
  void reset() {
    if (how_ != nullptr) std::exchange(how_, nullptr)->destroy(&memory_);
  }

 private:
  static constexpr std::size_t size = 32;
  struct How {
    void (*call)(void* callable);
    void (*move)(void* from, void* to);  // and destroys the one that it was moved from
    void (*destroy)(void* callable);
  };
  template <class Kept>
  static constexpr bool fits =
      sizeof(Kept) <= size &&
      alignof(Kept) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Kept>;
  template <class Kept>
  static constexpr How of = {
      [](void* callable) { (*static_cast<Kept*>(callable))(); },
      [](void* from, void* to) {
        new (to) Kept(std::move(*static_cast<Kept*>(from)));
        static_cast<Kept*>(from)->~Kept();
      },
      [](void* callable) { static_cast<Kept*>(callable)->~Kept(); },
  };

  void take(Task& other) {
    how_ = std::exchange(other.how_, nullptr);
    if (how_ != nullptr) how_->move(&other.memory_, &memory_);
  }

  alignas(std::max_align_t) std::byte memory_[size];
  const How* how_ = nullptr;
};

}  // namespace dlaunch::internal
