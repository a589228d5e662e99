// Whether a rank's data lie in the file that the ranks of its group share, and how much of the rest of that
// file the rank has used: what is copied on the way goes through there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace dlaunch::test {

class GroupFile {
 public:
  // As this process has it mapped now. `at`: any address.
  explicit GroupFile(const void* at) {
    std::string own;
    each_mapping([&](const Mapping& mapping) {
      const auto place = reinterpret_cast<std::uintptr_t>(at);
      if (mapping.is_shared && mapping.begin <= place && place < mapping.end) own = mapping.file;
    });
    if (own.empty()) return;
    has_ = true;
    each_mapping([&](const Mapping& mapping) {
      const auto place = reinterpret_cast<std::uintptr_t>(at);
      if (mapping.file == own && (place < mapping.begin || mapping.end <= place)) beside_ += mapping.resident;
    });
  }

  [[nodiscard]] bool has() const { return has_; }
  // Bytes of the file that this process has touched, without the mapping that has `at`.
  [[nodiscard]] std::size_t beside() const { return beside_; }

 private:
  struct Mapping {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool is_shared = false;  // it is that of a group
    std::string file;        // device and inode
    std::size_t resident = 0;
  };

  static void each_mapping(const auto& call) {
    std::ifstream smaps("/proc/self/smaps");
    Mapping mapping;
    for (std::string line; std::getline(smaps, line);) {
      std::istringstream words(line);
      std::string range;
      words >> range;
      if (const std::size_t dash = range.find('-'); dash != std::string::npos && range.back() != ':') {
        std::string mode;
        std::string offset;
        std::string device;
        std::string inode;
        std::string name;
        words >> mode >> offset >> device >> inode >> name;
        mapping = {.begin = std::stoull(range, nullptr, 16),
                   .end = std::stoull(range.substr(dash + 1), nullptr, 16),
                   .is_shared = name == "/memfd:dlaunch",
                   .file = device + " " + inode};
      } else if (range == "Rss:") {
        words >> mapping.resident;
        mapping.resident *= 1024;
        call(mapping);
      }
    }
  }

  bool has_ = false;
  std::size_t beside_ = 0;
};

}  // namespace dlaunch::test
