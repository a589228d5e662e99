#include "agent/model/flight_files.h"

namespace dlaunch::agent {
namespace {

std::string place_of(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank) {
  return scratch_dir + "/" + std::to_string(round) + "_" + std::to_string(local_rank);
}

// Of sockaddr_un::sun_path, with its end.
std::string if_short(std::string path) {
  constexpr std::size_t longest = 107;
  return path.size() <= longest ? path : "";
}

}  // namespace

std::string worker_server_path(const std::string& scratch_dir, std::uint32_t round,
                               std::uint32_t local_rank) {
  return if_short(place_of(scratch_dir, round, local_rank) + ".worker");
}

std::string torch_socket_path(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank) {
  return if_short(place_of(scratch_dir, round, local_rank) + ".torch");
}

std::string flight_file_prefix(const std::string& scratch_dir, std::uint32_t round) {
  return scratch_dir + "/" + std::to_string(round) + "_flight_rank_";
}

}  // namespace dlaunch::agent
