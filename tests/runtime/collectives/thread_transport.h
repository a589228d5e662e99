// Ranks as threads of one process, for tests that need no network.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/backend/mailbox.h"
#include "runtime/backends/threads/thread_transport.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"

namespace dlaunch::test {

using namespace internal;

// Long enough for the slowest machine; a test that uses it up has failed.
inline Deadline soon() { return deadline_after(std::chrono::seconds(60)); }

// Runs `body(rank)` on `size` threads and joins them. Returns the exceptions of the bodies; null: none.
inline std::vector<std::exception_ptr> on_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void expect_success(const std::vector<std::exception_ptr>& errors) {
  for (const std::exception_ptr& error : errors) {
    if (error) ADD_FAILURE() << message_of(error);
  }
}

// `body` gets a transport that connects it with the others.
inline std::vector<std::exception_ptr> on_ranks(int size,
                                                const std::function<void(std::unique_ptr<Transport>)>& body) {
  const auto mailbox = std::make_shared<Mailbox>(size);
  return on_threads(size, [&](int rank) { body(std::make_unique<ThreadTransport>(mailbox, rank)); });
}

}  // namespace dlaunch::test
