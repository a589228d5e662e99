#include "runtime/backends/nccl/nccl_rendezvous.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {

namespace {

using std::chrono::milliseconds;

const std::string answer_key = "id";
// The beginnings of rank 0's answer.
constexpr std::string_view id_follows = "id:";
constexpr std::string_view late = "late:";        // and the ranks that did not come
constexpr std::string_view refused = "refused:";  // and the reason

// For a key that is there, if anybody has set it.
constexpr milliseconds moment(200);
// For the answer of rank 0, which waits until the deadline itself.
constexpr milliseconds grace(2000);

std::string key_of(int rank) { return "device/" + std::to_string(rank); }

std::optional<std::string> look(BackendStore& store, const std::string& key) {
  try {
    return store.get(key, deadline_after(moment));
  } catch (const DistStoreError&) {
    return std::nullopt;
  }
}

// "ranks 1 and 3", of those that have not come; looks for two seconds at most.
std::string missing_ranks(BackendStore& store, const NcclPlace& place) {
  const Deadline limit = deadline_after(grace / 2);
  std::vector<int> missing;
  for (int rank = 0; rank < place.size && !has_passed(limit); ++rank) {
    if (rank != place.rank && !look(store, key_of(rank))) missing.push_back(rank);
  }
  return missing.empty() ? "" : describe_ranks(missing);
}

[[noreturn]] void throw_late(const std::string& who) {
  throw DistNetworkError(who.empty() ? "the ranks did not begin their NCCL communicator before the deadline"
                                     : who + " did not come to the NCCL communicator before the deadline");
}

// "ranks 0 and 1 ...": the first two on one device; empty: there are none.
std::string shared_device(const std::vector<std::string>& devices) {
  std::map<std::string, int> owner;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const auto [found, is_new] = owner.emplace(devices[rank], static_cast<int>(rank));
    if (is_new) continue;
    return "ranks " + std::to_string(found->second) + " and " + std::to_string(rank) +
           " use one GPU (host and PCI address: " + devices[rank] +
           "), and NCCL needs one for each rank: give each its own (device_id, cudaSetDevice, or LOCAL_RANK)";
  }
  return "";
}

std::string answer(BackendStore& store, const NcclPlace& place, Deadline deadline,
                   const std::function<std::string()>& make) {
  std::vector<std::string> devices = {place.device};
  for (int rank = 1; rank < place.size; ++rank) {
    try {
      devices.push_back(store.get(key_of(rank), deadline));
    } catch (const DistStoreError&) {
      if (!has_passed(deadline)) throw;
      return std::string(late) + missing_ranks(store, place);
    }
  }
  const std::string problem = place.may_share_devices ? "" : shared_device(devices);
  if (!problem.empty()) return std::string(refused) + problem;
  return std::string(id_follows) + make();
}

std::string answer_of_rank_zero(BackendStore& store, const NcclPlace& place, Deadline deadline) {
  store.set(key_of(place.rank), place.device);
  try {
    return store.get(answer_key, deadline + grace);
  } catch (const DistStoreError&) {
    if (!has_passed(deadline)) throw;
    throw_late(missing_ranks(store, place));
  }
}

}  // namespace

std::string share_unique_id(BackendStore& store, const NcclPlace& place, Deadline deadline,
                            const std::function<std::string()>& make) {
  std::string text;
  if (place.rank == 0) {
    store.set(key_of(0), place.device);
    text = answer(store, place, deadline, make);
    store.set(answer_key, text);
  } else {
    text = answer_of_rank_zero(store, place, deadline);
  }
  if (text.starts_with(late)) throw_late(text.substr(late.size()));
  if (text.starts_with(refused)) throw DistBackendError(text.substr(refused.size()));
  if (!text.starts_with(id_follows)) throw DistBackendError("rank 0 runs another version of libdlaunch");
  return text.substr(id_follows.size());
}

}  // namespace dlaunch::internal
