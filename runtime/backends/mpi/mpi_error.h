// MPI's error codes as exceptions.
#pragma once

#include <mpi.h>

#include <string>

#include "dlaunch/error.h"

namespace dlaunch::internal {

// MPI's text for a code.
inline std::string mpi_text(int code) {
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS)
    return "error code " + std::to_string(code);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// Throws DistBackendError with MPI's text if `code` is not MPI_SUCCESS. `call`: "MPI_Iallreduce".
inline void require_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw DistBackendError(std::string(call) + " failed: " + mpi_text(code));
}

}  // namespace dlaunch::internal
