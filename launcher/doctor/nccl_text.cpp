#include "launcher/doctor/nccl_text.h"

#include <algorithm>
#include <array>

#include "store/base/number.h"

namespace dlaunch::launcher {
namespace {

constexpr int of_major = 10'000;
constexpr int of_minor = 100;
constexpr std::size_t longest_path = 4096;

// Takes the number at the beginning of `text` away.
std::optional<int> take_number(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number<unsigned short>(text.substr(0, end));
  if (!number) return std::nullopt;
  text.remove_prefix(end);
  return *number;
}

bool take(std::string_view& text, std::string_view part) {
  if (!text.starts_with(part)) return false;
  text.remove_prefix(part.size());
  return true;
}

// `text`: what follows "NCCL version ", to the end of the string.
std::optional<NcclVersion> version_from(std::string_view text) {
  std::array<int, 3> parts{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && !take(text, ".")) return std::nullopt;
    const auto number = take_number(text);
    if (!number || (i > 0 && *number >= of_minor)) return std::nullopt;
    parts[i] = *number;
  }
  NcclVersion version{parts[0] * of_major + parts[1] * of_minor + parts[2], ""};
  const bool has_cuda = take(text, "+cuda") || take(text, " compiled with CUDA ");
  if (has_cuda && text.find_first_not_of("0123456789.") == std::string_view::npos) version.cuda = text;
  return version;
}

}  // namespace

std::optional<NcclVersion> nccl_version_in(std::string_view bytes) {
  constexpr std::string_view before = "NCCL version ";
  constexpr std::size_t longest = 64;
  for (std::size_t at = bytes.find(before); at != std::string_view::npos; at = bytes.find(before, at + 1)) {
    const std::string_view rest = bytes.substr(at + before.size(), longest);
    const std::size_t end = rest.find_first_of(std::string_view("\0\n", 2));
    if (end == std::string_view::npos) continue;
    if (auto version = version_from(rest.substr(0, end))) return version;
  }
  return std::nullopt;
}

std::string nccl_version_text(int code) {
  return std::to_string(code / of_major) + "." + std::to_string(code % of_major / of_minor) + "." +
         std::to_string(code % of_minor);
}

// The cache's texts end with a zero byte; each path of a library is one of them.
std::vector<std::string> cached_libraries(std::string_view cache, std::string_view name) {
  const std::string ending = "/" + std::string(name);
  std::vector<std::string> paths;
  while (!cache.empty()) {
    const std::size_t end = std::min(cache.find('\0'), cache.size());
    const std::string_view text = cache.substr(0, end);
    cache.remove_prefix(std::min(end + 1, cache.size()));
    const bool is_path = text.size() <= longest_path && text.starts_with('/') && text.ends_with(ending);
    if (is_path && std::ranges::find(paths, text) == paths.end()) paths.emplace_back(text);
  }
  return paths;
}

}  // namespace dlaunch::launcher
