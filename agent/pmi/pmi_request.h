// PMI-1 on the wire: lines of name=value pairs, the first of which is the command. Pure.
//
//   cmd=put kvsname=kvs_0 key=a value=b\n
//
// A request to start further processes takes several lines, from mcmd=spawn to endcmd.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::agent {

// MPICH's clients write at most 1,024 bytes in a line.
inline constexpr std::size_t longest_pmi_line = 4096;

// One line, taken apart.
class PmiRequest {
 public:
  // None: it is no sequence of name=value pairs, begins with no command, or has characters that are not
  // printable. Words without "=" belong to the value before them, which then has spaces.
  static std::optional<PmiRequest> parse(std::string_view line);

  [[nodiscard]] const std::string& command() const { return pairs_.front().second; }
  // It begins a request of several lines.
  [[nodiscard]] bool is_of_many_lines() const { return pairs_.front().first == "mcmd"; }
  // The value of that name; none: there is none.
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;  // at least one
};

// Cuts a client's bytes into lines, without their ends.
class PmiLines {
 public:
  // Calls take(line) for each whole line, until it returns false. Returns false if a line is too long.
  template <class Take>
  bool cut(std::string_view piece, Take&& take) {
    buffer_.append(piece);
    std::size_t begin = 0;
    bool goes_on = true;
    for (std::size_t end = buffer_.find('\n'); goes_on && end != std::string::npos;
         end = buffer_.find('\n', begin)) {
      if (end - begin > longest_pmi_line) return false;
      goes_on = take(std::string_view(buffer_).substr(begin, end - begin));
      begin = end + 1;
    }
    buffer_.erase(0, begin);
    return !goes_on || buffer_.size() <= longest_pmi_line;
  }

 private:
  std::string buffer_;
};

}  // namespace dlaunch::agent
