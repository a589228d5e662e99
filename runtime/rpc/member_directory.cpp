#include "runtime/rpc/member_directory.h"

#include <algorithm>

#include "dlaunch/error.h"
#include "runtime/rpc/agent.h"
#include "store/base/text.h"

namespace dlaunch::internal {

namespace {

// What is known of a worker, as its entries begin.
constexpr char joins = '?';  // it has claimed its rank, and has no name yet
constexpr char is_here = '+';
constexpr char has_left = '-';
const std::string count_key = "joined";  // members, ever

std::string id_key(std::uint32_t id) { return "id/" + std::to_string(id); }
std::string rank_key(std::uint32_t rank) { return "rank/" + std::to_string(rank); }
std::string name_key(std::string_view name) { return std::string("name/").append(name); }
std::string member_key(std::int64_t number) { return "member/" + std::to_string(number); }

struct Entry {
  char state;
  WorkerContact worker;
};

std::optional<Entry> parse(const std::string& text) {
  if (text.empty() || (text[0] != joins && text[0] != is_here && text[0] != has_left)) return std::nullopt;
  const std::optional<WorkerContact> worker = parse_worker_contact(text.substr(1));
  return worker ? std::optional(Entry{text[0], *worker}) : std::nullopt;
}

[[noreturn]] void reject(const std::string& why) { throw DistError(why, {.operation = "init_rpc"}); }

}  // namespace

// Makes the entry that of the key, unless a worker is there that has not left and is not known to have died.
void MemberDirectory::take(const std::string& key, const std::string& entry, const OnHeld& on_held) {
  std::string holder = keys_->compare_set(key, "", entry);
  while (holder != entry) {
    const std::optional<Entry> other = parse(holder);
    if (other && other->state != has_left && !Agent::is_gone(other->worker)) on_held(other->worker);
    const std::string seen = holder;
    holder = keys_->compare_set(key, seen, entry);
  }
}

void MemberDirectory::claim_rank(std::optional<std::uint32_t> wanted, WorkerContact& self) {
  for (;;) {
    self.rank = wanted ? *wanted : static_cast<std::uint32_t>(keys_->add("free rank", 1) - 1);
    self.id = self.rank;
    if (self.rank >= most_ranks)
      reject("rank " + std::to_string(self.rank) + " is not below " + std::to_string(most_ranks));
    const std::string entry = joins + to_text(self);
    if (keys_->compare_set(rank_key(self.rank), "", entry) == entry) return;
    if (wanted) break;
  }
  self.id = most_ranks + static_cast<std::uint32_t>(keys_->add("later id", 1) - 1);
  if (self.id >= PeerTable::most_ids) reject("too many workers have taken over the ranks of others");
  take(rank_key(self.rank), joins + to_text(self), [&](const WorkerContact& other) {
    reject("rank " + std::to_string(self.rank) + " is that of " + describe_process(other) +
           ": it is free again when that worker has left or its process has ended; give another rank, or "
           "none for a free one");
  });
}

void MemberDirectory::join(const WorkerContact& self) {
  const std::string entry = is_here + to_text(self);
  keys_->set(id_key(self.id), entry);
  take(name_key(self.name), entry, [&](const WorkerContact& other) {
    const std::string gone = has_left + to_text(self);
    keys_->set(id_key(self.id), gone);
    keys_->set(rank_key(self.rank), gone);
    reject("the name " + quoted(self.name) + " is that of " + describe_process(other) +
           ": give each worker its own");
  });
  keys_->set(rank_key(self.rank), entry);
  keys_->set(member_key(keys_->add(count_key, 1)), std::to_string(self.rank));
}

void MemberDirectory::leave(const WorkerContact& self) {
  const std::string entry = has_left + to_text(self);
  const std::string before = is_here + to_text(self);
  keys_->set(id_key(self.id), entry);
  for (const std::string& key : {name_key(self.name), rank_key(self.rank)})
    keys_->compare_set(key, before, entry);  // unless another has it
}

std::optional<MemberDirectory::Found> MemberDirectory::at(const std::string& key) {
  const std::optional<Entry> entry = keys_->check({&key, 1}) ? parse(keys_->get(key)) : std::nullopt;
  if (!entry || entry->state == joins) return std::nullopt;
  return Found{entry->worker, entry->state == has_left};
}

std::optional<MemberDirectory::Found> MemberDirectory::find(std::string_view name) {
  return at(name_key(name));
}

std::optional<MemberDirectory::Found> MemberDirectory::find_rank(std::uint32_t rank) {
  return at(rank_key(rank));
}

std::optional<MemberDirectory::Found> MemberDirectory::find_id(std::uint32_t id) { return at(id_key(id)); }

std::vector<WorkerContact> MemberDirectory::all() {
  std::vector<std::string> keys;
  for (std::int64_t number = keys_->add(count_key, 0); number > 0; --number)
    keys.push_back(member_key(number));
  // One may be counted, and not have its key yet.
  if (!keys_->check(keys))
    std::erase_if(keys, [&](const std::string& key) { return !keys_->check({&key, 1}); });
  std::vector<std::string> ranks = keys_->multi_get(keys);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (std::string& rank : ranks) rank.insert(0, "rank/");
  std::vector<WorkerContact> all;
  for (const std::string& text : keys_->multi_get(ranks)) {
    const std::optional<Entry> member = parse(text);
    if (member && member->state == is_here) all.push_back(member->worker);
  }
  std::ranges::sort(all, {}, &WorkerContact::rank);
  return all;
}

}  // namespace dlaunch::internal
