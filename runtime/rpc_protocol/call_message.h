// The bytes of a call, of a failure, and of a worker's first message.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/rpc_protocol/reference_table.h"

namespace dlaunch::internal {

inline constexpr std::size_t longest_function_name = 256;
// The call by which workers keep their references; functions of programs have other names.
inline constexpr std::string_view reference_function = "dlaunch.reference";
inline constexpr std::size_t longest_worker_name = 128;
inline constexpr std::size_t longest_host_name = 256;
inline constexpr std::size_t longest_failure_text = std::size_t{64} * 1024;

// Of which function a call is. `signature`: of its arguments and result (codec.h). `context`: that of its
// caller (rpc_context.h).
struct CallHead {
  std::string_view function;
  std::uint64_t signature = 0;
  std::uint64_t context = 0;
};
struct CallRequest {
  CallHead head;
  std::string_view arguments;
};
// The caller appends the arguments, for which there is room: so many bytes. REQUIRES: the name is no longer
// than longest_function_name.
std::string to_bytes(const CallHead& head, std::size_t arguments = 0);
// None: not a request. The result refers to the bytes.
std::optional<CallRequest> parse_request(std::string_view bytes);

struct CallFailure {
  enum class Kind : std::uint8_t {
    exception = 1,     // the function has thrown
    unknown_function,  // the callee has none of that name
    other_signature,   // it has one with other arguments, or another result
    bad_arguments,     // the arguments do not decode
    ending,            // the callee takes no more calls
  };
  Kind kind = Kind::exception;
  std::string type;  // of the exception
  std::string text;

  bool operator==(const CallFailure&) const = default;
};
// Long texts are cut.
std::string to_bytes(const CallFailure& failure);
std::optional<CallFailure> parse_failure(std::string_view bytes);

// The references in a request or in a result, behind all else.
struct PassedReference {
  ReferenceId id;
  std::uint64_t token = 0;

  bool operator==(const PassedReference&) const = default;
};
inline constexpr std::size_t most_references = std::size_t{1} << 16;
void append_references(std::string& bytes, std::span<const PassedReference> references);
struct WithReferences {
  std::string_view rest;
  std::vector<PassedReference> references;

  [[nodiscard]] std::vector<ReferenceId> ids() const {
    std::vector<ReferenceId> all;
    for (const PassedReference& one : references) all.push_back(one.id);
    return all;
  }
};
std::optional<WithReferences> split_references(std::string_view bytes);

// Of the worker that has made the connection.
struct Hello {
  std::uint32_t worker = 0;  // its id
  std::string_view name;
  std::string_view host;
  std::uint32_t rank = 0;

  bool operator==(const Hello&) const = default;
};
std::string to_bytes(const Hello& hello);
// The result refers to the bytes.
std::optional<Hello> parse_hello(std::string_view bytes);

}  // namespace dlaunch::internal
