// A value or the reason why there is none.
//
// Functions that can fail because of input or the outside world return Result<T>. Only the runtime library
// and the blocking stores (store/client) throw. An Error carries its parts separately, so that a caller on
// the way up can add what it knows (`with_where`, `with_hint`) and the one place that prints can put them in
// order.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "store/base/namespaces.h"

namespace dlaunch::store {

enum class ErrorKind {
  invalid,    // the caller or the input is wrong
  not_found,  // a file, program, key or name does not exist
  timeout,    // a deadline passed
  network,    // an address, a connection or a peer
  foreign,    // an address of another machine
  in_use,     // an address that another process uses
  refused,    // the other side rejected it, with a reason
  io,         // a system call failed
  limit,      // a stated bound was exceeded
  internal,   // an impossible state: a bug in dlaunch
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string what;   // what could not be done: "cannot listen"
  std::string where;  // the object: an address, a path, a rank; may be empty
  std::string why;    // the reason, in words; may be empty
  std::string hint;   // what the reader can do; may be empty

  Error with_where(std::string place) && {
    where = std::move(place);
    return std::move(*this);
  }
  Error with_hint(std::string advice) && {
    hint = std::move(advice);
    return std::move(*this);
  }

  // One line: "cannot listen on 10.0.0.1:29500: address already in use; choose another --master-port".
  [[nodiscard]] std::string message() const {
    std::string text = what;
    if (!where.empty()) text += " " + where;
    if (!why.empty()) text += ": " + why;
    if (!hint.empty()) text += "; " + hint;
    return text;
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok()
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok()
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace dlaunch::store
