// Whether a thread looks before it sleeps. If a few looks in a row found nothing, it does not: what it waits
// for takes longer, or the other side gets no processor while this one looks.
#pragma once

namespace dlaunch::internal {

class LookingPays {
 public:
  // Of the next wait.
  [[nodiscard]] bool next() {
    if (in_vain_ < most_in_vain) return true;
    if (++skipped_ < between_attempts) return false;
    skipped_ = 0;
    return true;
  }
  // What has become of a wait with looks.
  void found() { in_vain_ = 0; }
  void found_nothing() {
    if (in_vain_ < most_in_vain) ++in_vain_;
  }

 private:
  static constexpr int most_in_vain = 3;
  static constexpr int between_attempts = 32;

  int in_vain_ = 0;
  int skipped_ = 0;
};

}  // namespace dlaunch::internal
