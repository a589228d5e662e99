// Where PyTorch's flight recorder of a worker can be asked for, and where it writes by itself: names in the
// job's private folder. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// A worker's flight recorder keeps so many operations: PyTorch's own default, since it has one.
inline constexpr int flight_buffer_size = 2000;

// The socket of PyTorch's own server in the worker (worker_main()), and that of the Python package dlaunch.
// Empty: the path would be too long for a socket.
std::string worker_server_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank);
std::string torch_socket_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank);

// PyTorch appends the rank, and writes when an operation of NCCL times out.
std::string flight_file_prefix(const std::string& scratch_dir, std::uint32_t round);

// The file's round and rank, from its name without the folder; none: it is another file.
struct FlightFile {
  std::uint32_t round = 0;
  int rank = 0;
  bool operator==(const FlightFile&) const = default;
};
std::optional<FlightFile> parse_flight_file(std::string_view name);

}  // namespace dlaunch::agent
