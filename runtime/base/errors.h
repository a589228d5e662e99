// Adds context to errors: each layer fills in the part of the place that it knows, the type stays.
#pragma once

#include <exception>
#include <string>

#include "dlaunch/error.h"
#include "store/contract/worker_page.h"

namespace dlaunch::internal {

// The same kind of error with the unknown parts of its place filled in from `context`. Other exceptions (out
// of memory, a mistake in a third-party backend) become a DistBackendError.
std::exception_ptr in_context(const std::exception_ptr& error, const ErrorContext& context);

// The same kind of error at the same place, with `words` before its reason.
std::exception_ptr with_words(const std::exception_ptr& error, const std::string& words);

// The same error with another number for the peer: ranks have one in each group.
std::exception_ptr with_peer(const std::exception_ptr& error, int peer);

// The beginnings of reasons for the loss of a peer: it left the group in order, ended without a goodbye
// message, or reported that it gives up.
inline constexpr const char* left_the_group = "it has left the group";
inline constexpr const char* it_died = "it died, or the connection to it was lost";
inline constexpr const char* it_gave_up = "it gave up";
// Follows left_the_group if the peer left while an exception unwound its program.
inline constexpr const char* in_exception = " while an exception was on its way";

// A peer did not take (`sent`) or send a message in time.
inline DistNetworkError late_error(int peer, bool sent) {
  return DistNetworkError(sent ? "it did not take a message before the deadline"
                               : "it did not send a message before the deadline",
                          {.peer = peer});
}

// The peer that has left in order, if the error is of this kind; else -1.
int departed_peer(const std::exception_ptr& error);

// The rank on the other side, if the error knows it; else -1.
int peer_of(const std::exception_ptr& error);

// How the peer ended, by the error's reason; none: the reason does not show it.
page::Loss loss_of(const std::exception_ptr& error);

// The place, as far as the error knows it.
ErrorContext context_of(const std::exception_ptr& error);

// The reason, without the place.
std::string reason_of(const std::exception_ptr& error);

// The message, place included.
std::string message_of(const std::exception_ptr& error);

}  // namespace dlaunch::internal
