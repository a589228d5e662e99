// What the files of the C API share (include/dlaunch/dlaunch.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "dlaunch/distributed.h"
#include "dlaunch/dlaunch.h"
#include "dlaunch/error.h"

struct dlaunch_group {
  dlaunch::ProcessGroup group;
};
struct dlaunch_store {
  std::shared_ptr<dlaunch::KeyValueStore> store;
};
struct dlaunch_work {
  dlaunch::Work work;
  dlaunch::ProcessGroup group;
};

namespace dlaunch::internal::c {

// Stores the message of the current exception for dlaunch_last_error(); returns its number.
int note_current_failure() noexcept;

// Runs a call; returns the number of its error. No exception leaves it.
template <class Call>
int guarded(const Call& call) noexcept {
  try {
    call();
    return DLAUNCH_OK;
  } catch (...) {
    return note_current_failure();
  }
}

// What `question` returns, or `otherwise` if it throws.
template <class Question>
auto answer(std::invoke_result_t<const Question&> otherwise, const Question& question) noexcept {
  auto result = otherwise;
  (void)guarded([&] { result = question(); });
  return result;
}

// The text stays valid until the thread's next call.
const char* keep_text(std::string text);
template <class Question>
const char* text_answer(const Question& question) noexcept {
  const char* result = nullptr;
  (void)guarded([&] { result = keep_text(question()); });
  return result;
}

template <class T>
const T& required(const T* pointer, const char* what) {
  if (!pointer) throw DistError(std::string(what) + " is NULL");
  return *pointer;
}

ProcessGroup group_of(const dlaunch_group* group);
std::optional<std::chrono::milliseconds> timeout_of(std::int64_t ms);

}  // namespace dlaunch::internal::c
