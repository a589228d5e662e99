#include "agent/model/flight_files.h"

#include "store/base/number.h"

namespace dlaunch::agent {
namespace {

std::string place_of(const std::string& scratch_dir, std::uint32_t round, std::uint32_t local_rank) {
  return scratch_dir + "/" + std::to_string(round) + "_" + std::to_string(local_rank);
}

constexpr std::string_view flight_rank = "_flight_rank_";

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
  return scratch_dir + "/" + std::to_string(round).append(flight_rank);
}

std::optional<FlightFile> parse_flight_file(std::string_view name) {
  const std::size_t middle = name.find(flight_rank);
  if (middle == std::string_view::npos) return std::nullopt;
  const auto round = parse_number<std::uint32_t>(name.substr(0, middle));
  const auto rank = parse_number<int>(name.substr(middle + flight_rank.size()));
  if (!round || !rank || *rank < 0) return std::nullopt;
  return FlightFile{*round, *rank};
}

}  // namespace dlaunch::agent
