#include "store/client/error_text.h"

#include <algorithm>
#include <utility>

namespace dlaunch::store {
namespace {

constexpr std::size_t most_named = 3;

}  // namespace

std::string describe_keys(std::span<const std::string> keys) {
  if (keys.empty()) return "no key";
  std::string text = keys.size() == 1 ? "key " : "keys ";
  for (std::size_t i = 0; i < std::min(keys.size(), most_named); ++i) {
    if (i != 0) text += ", ";
    text += quoted(keys[i]);
  }
  if (keys.size() > most_named)
    text.append(" and ").append(std::to_string(keys.size() - most_named)).append(" more");
  return text;
}

Error timeout_error(std::string store, Duration timeout, std::string_view for_what) {
  std::string why = "waited ";
  why.append(to_words(std::max(timeout, Duration::zero()))).append(" for ").append(for_what);
  return {ErrorKind::timeout, std::move(store), "", std::move(why), ""};
}

}  // namespace dlaunch::store
