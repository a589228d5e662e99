#include "store/base/process_stat.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "store/base/number.h"
#include "store/base/small_file.h"

namespace dlaunch::store {
namespace {

// The fields behind the name, by their number in proc(5), from the third on.
class Fields {
 public:
  explicit Fields(std::string_view line) {
    for (std::size_t at = line.find_first_not_of(' '); at < line.size() && count_ < all_.size();) {
      const std::size_t end = std::min(line.find_first_of(" \n", at), line.size());
      all_[count_++] = line.substr(at, end - at);
      at = line.find_first_not_of(" \n", end);
    }
  }

  [[nodiscard]] std::string_view text(std::size_t number) const { return all_[number - first]; }
  // Returns 0 if the field is not a number; is_good() is false from then on.
  template <class Number>
  Number number(std::size_t number) {
    const auto value = parse_number<Number>(text(number));
    is_good_ = is_good_ && value;
    return value.value_or(0);
  }
  [[nodiscard]] bool is_good() const { return is_good_; }

 private:
  static constexpr std::size_t first = 3;
  static constexpr std::size_t last = 24;  // resident pages
  std::array<std::string_view, last - first + 1> all_;
  std::size_t count_ = 0;
  bool is_good_ = true;
};

}  // namespace

// "PID (NAME) STATE PARENT ...", where the name may itself contain parentheses and blanks.
std::optional<ProcessStat> parse_process_stat(std::string_view line) {
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  Fields fields(line.substr(close + 1));
  ProcessStat stat;
  stat.name = line.substr(open + 1, close - open - 1);
  if (fields.text(3).size() != 1) return std::nullopt;
  stat.state = fields.text(3).front();
  stat.parent = fields.number<pid_t>(4);
  stat.flags = fields.number<std::uint64_t>(9);
  stat.user = fields.number<std::int64_t>(14);
  stat.system = fields.number<std::int64_t>(15);
  stat.children_user = fields.number<std::int64_t>(16);
  stat.children_system = fields.number<std::int64_t>(17);
  stat.threads = fields.number<int>(20);
  stat.birth = fields.number<std::uint64_t>(22);
  stat.resident_pages = fields.number<std::uint64_t>(24);
  return fields.is_good() ? std::optional(std::move(stat)) : std::nullopt;
}

std::optional<ProcessStat> process_stat(std::int64_t pid) {
  constexpr std::size_t most = 4096;
  const auto file = read_plain_file("/proc/" + std::to_string(pid) + "/stat", most);
  return file ? parse_process_stat(file->text) : std::nullopt;
}

}  // namespace dlaunch::store
