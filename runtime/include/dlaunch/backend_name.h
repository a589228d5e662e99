// The name of a backend as a type: what torch.distributed calls Backend.
#pragma once

#include <string>
#include <string_view>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// A checked name in lower case. Every parameter for a backend's name accepts it; it is equal to its text:
//
//   options.backend = dlaunch::BackendName::gloo;
//   options.backend = dlaunch::BackendName("GLOO");            // gloo
//   if (dlaunch::get_backend() == dlaunch::BackendName::gloo)
class DLAUNCH_EXPORT BackendName {
 public:
  // The names of torch.distributed. is_backend_available() reports which of them this process can use.
  static const BackendName gloo;
  static const BackendName nccl;
  static const BackendName mpi;
  static const BackendName ucc;
  static const BackendName undefined;  // names no backend

  // From a name in upper or lower case: one of these, one of an installed backend (backend.h), or one for
  // each device: "cpu:gloo,cuda:nccl". DistBackendError for other texts.
  explicit BackendName(std::string_view text);

  [[nodiscard]] const std::string& str() const { return text_; }
  operator const std::string&() const { return text_; }  // NOLINT(google-explicit-constructor): it is one
  operator std::string_view() const { return text_; }    // NOLINT(google-explicit-constructor)

  bool operator==(const BackendName&) const = default;
  friend bool operator==(const BackendName& name, std::string_view text) { return name.text_ == text; }
  friend bool operator==(const BackendName& name, const std::string& text) { return name.text_ == text; }
  friend bool operator==(const BackendName& name, const char* text) { return name.text_ == text; }

 private:
  struct Known {};
  BackendName(Known /*known*/, const char* text) : text_(text) {}

  std::string text_;
};

}  // namespace v1
}  // namespace dlaunch
