// Errors on their way up: each layer adds the part of the place that it knows, the type stays.
#pragma once

#include <exception>
#include <string>

#include "dlaunch/error.h"
#include "store/contract/worker_page.h"

namespace dlaunch {

// The same kind of error with the unknown parts of its place filled in from `context`. What is no DistError
// (out of memory, a mistake in a third-party backend) becomes a DistBackendError.
std::exception_ptr in_context(const std::exception_ptr& error, const ErrorContext& context);

// The same kind of error at the same place, with `words` before its reason.
std::exception_ptr with_words(const std::exception_ptr& error, const std::string& words);

// How the reasons of errors because of a peer's end begin: it has left the group, has ended without a word,
// or has told that it gives up.
inline constexpr const char* left_the_group = "it has left the group";
inline constexpr const char* it_died = "it died, or the connection to it was lost";
inline constexpr const char* it_gave_up = "it gave up";
// What follows the first of them if that peer was on its way out of a failed program.
inline constexpr const char* in_exception = " while an exception was on its way";

// That a peer has not taken (`sent`) or sent a message.
inline DistNetworkError late_error(int peer, bool sent) {
  return DistNetworkError(sent ? "it did not take a message before the deadline"
                               : "it did not send a message before the deadline",
                          {.peer = peer});
}

// The peer that has left in order, if the error is of this kind; else -1.
int departed_peer(const std::exception_ptr& error);

// The rank on the other side, if the error knows it; else -1.
int peer_of(const std::exception_ptr& error);

// How the error says that the peer ended; none: it does not.
page::Loss loss_of(const std::exception_ptr& error);

// As far as the error knows its place.
ErrorContext context_of(const std::exception_ptr& error);

// What has happened, without the place.
std::string reason_of(const std::exception_ptr& error);

// The message, place included.
std::string message_of(const std::exception_ptr& error);

}  // namespace dlaunch
