// A job's log files by rank, under names that are known beforehand and the same on every node:
//
//   <ranks_dir()>/<round>/rank_<rank>.out and .err    links to the files of agent/output/log_dir.h
//   <ranks_dir()>/latest                              a link to the newest round
//
// Several agents, also on several hosts, add theirs to one place. Each round is a link to a folder that is
// named for its world (World::leader), so that agents of one world meet there, and those of a newer job of
// the same id put another in its place at once, with none of the old job's ranks.
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

  // Of the job whose log files are in `job_dir`. What cannot be made is said once, and no more is tried.
  RankLinks(const std::filesystem::path& job_dir, bool in_temporary, Warn warn);

  // `stream`: "out" or "err"; `file`: where it goes, which need not be there yet.
  void add(std::uint32_t round, std::uint64_t leader, int rank, std::string_view stream,
           const std::filesystem::path& file);

 private:
  void open_round(std::uint32_t round, std::uint64_t leader);
  void remove_later_rounds(std::uint32_t round, const std::string& suffix);
  void link(const std::filesystem::path& target, const std::filesystem::path& place) const;

  const std::filesystem::path dir_;
  const std::string aside_;  // ends the names of links that are being made; nobody else's
  const Warn warn_;
  std::filesystem::path folder_;  // of the round that was added to last
  bool failed_ = false;
};

// Where the links of the job whose log files are in `job_dir` belong: with a named --log-dir beside it, by
// the job's id alone, else within it, where nobody else can have made them.
std::filesystem::path ranks_dir(const std::filesystem::path& job_dir, bool in_temporary);

// "rank_12.out" with "out" -> 12; -1: not such a name.
int rank_of_link(std::string_view name, std::string_view stream);

}  // namespace dlaunch::agent
