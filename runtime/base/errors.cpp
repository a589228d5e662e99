#include "runtime/base/errors.h"

namespace dlaunch::internal {

namespace {

// Calls `remake` with the error as a DistError and throws what it returns as an error of the same type.
template <class Remake>
std::exception_ptr same_kind(const std::exception_ptr& error, const Remake& remake) {
  const auto again = [&remake]<class Kind>(const Kind& e) {
    const auto [reason, context] = remake(e);
    return std::make_exception_ptr(Kind(reason, context));
  };
  try {
    std::rethrow_exception(error);
  } catch (const DistNetworkError& e) {
    return again(e);
  } catch (const DistStoreError& e) {
    return again(e);
  } catch (const DistBackendError& e) {
    return again(e);
  } catch (const DistError& e) {
    return again(e);
  } catch (const std::exception& e) {
    return again(DistBackendError(e.what()));
  } catch (...) {
    return again(DistBackendError("an exception of an unknown type"));
  }
}

struct Remade {
  std::string reason;
  ErrorContext context;
};

}  // namespace

std::exception_ptr in_context(const std::exception_ptr& error, const ErrorContext& context) {
  return same_kind(error, [&context](const DistError& e) {
    ErrorContext merged = e.context();
    if (merged.rank < 0) merged.rank = context.rank;
    if (merged.operation.empty()) merged.operation = context.operation;
    if (merged.sequence == 0) merged.sequence = context.sequence;
    if (merged.group.empty()) merged.group = context.group;
    if (merged.peer < 0) merged.peer = context.peer;
    if (merged.host.empty()) merged.host = context.host;
    return Remade{e.reason(), merged};
  });
}

std::exception_ptr with_words(const std::exception_ptr& error, const std::string& words) {
  return same_kind(error, [&](const DistError& e) { return Remade{words + e.reason(), e.context()}; });
}

std::exception_ptr with_peer(const std::exception_ptr& error, int peer) {
  return same_kind(error, [peer](const DistError& e) {
    ErrorContext context = e.context();
    context.peer = peer;
    return Remade{e.reason(), context};
  });
}

int departed_peer(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DistError& e) {
    return e.reason().starts_with(left_the_group) ? e.context().peer : -1;
  } catch (...) {
    return -1;
  }
}

int peer_of(const std::exception_ptr& error) { return context_of(error).peer; }

page::Loss loss_of(const std::exception_ptr& error) {
  const std::string reason = peer_of(error) < 0 ? "" : reason_of(error);
  if (reason.starts_with(std::string(left_the_group) + in_exception)) return page::Loss::left_in_exception;
  if (reason.starts_with(left_the_group)) return page::Loss::left;
  if (reason.starts_with(it_died)) return page::Loss::died;
  return reason.starts_with(it_gave_up) ? page::Loss::gave_up : page::Loss::none;
}

ErrorContext context_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DistError& e) {
    return e.context();
  } catch (...) {
    return {};
  }
}

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DistError& e) {
    return e.reason();
  } catch (...) {
    return message_of(error);
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace dlaunch::internal
