// Links to a job's log files by rank, with names that are known in advance and the same on every node:
//
//   <ranks_dir()>/<round>/rank_<rank>.out and .err    links to the files of agent/output/log_dir.h
//   <ranks_dir()>/latest                              a link to the newest round
//
// Several agents, also on several hosts, add theirs to one folder. Each round is a link to a folder named
// after its world (World::leader): all agents of one world use that folder, and those of a newer job of the
// same id replace the link at once, so that none of the old job's ranks remain.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

class RankLinks {
 public:
  using Warn = std::function<void(const std::string& sentence)>;

  // For the job whose log files are in `job_dir`. After a failure it warns once and makes no more links.
  RankLinks(const std::filesystem::path& job_dir, bool in_temporary, Warn warn);

  // `stream`: "out" or "err"; `file`: its log file, which need not exist yet.
  void add(std::uint32_t round, std::uint64_t leader, int rank, std::string_view stream,
           const std::filesystem::path& file);

 private:
  void open_round(std::uint32_t round, std::uint64_t leader);
  void remove_later_rounds(std::uint32_t round, const std::string& suffix);
  void link(const std::filesystem::path& target, const std::filesystem::path& place) const;

  const std::filesystem::path dir_;
  const std::string aside_;  // suffix of links that are being made; unique to this agent
  const Warn warn_;
  std::filesystem::path folder_;  // the last round's
  bool failed_ = false;
};

// The folder of the links of the job whose log files are in `job_dir`: with a named --log-dir beside it,
// named by the job's id alone; else within it, where no other user can have made them.
std::filesystem::path ranks_dir(const std::filesystem::path& job_dir, bool in_temporary);

// "rank_12.out" with "out" -> 12; -1: not such a name.
int rank_of_link(std::string_view name, std::string_view stream);

}  // namespace dlaunch::agent
