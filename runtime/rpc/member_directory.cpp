#include "runtime/rpc/member_directory.h"

#include <algorithm>

#include "dlaunch/error.h"
#include "runtime/rpc/agent.h"
#include "store/base/text.h"

namespace dlaunch::internal {

namespace {

constexpr char is_here = '+';
constexpr char has_left = '-';
const std::string count_key = "joined";  // members, ever

std::string id_key(std::uint32_t id) { return "id/" + std::to_string(id); }
std::string name_key(std::string_view name) { return std::string("name/").append(name); }
std::string member_key(std::int64_t number) { return "member/" + std::to_string(number); }

std::optional<MemberDirectory::Found> parse(const std::string& text) {
  if (text.empty() || (text[0] != is_here && text[0] != has_left)) return std::nullopt;
  const std::optional<WorkerContact> worker = parse_worker_contact(text.substr(1));
  if (!worker) return std::nullopt;
  return MemberDirectory::Found{*worker, text[0] == has_left};
}

[[noreturn]] void reject(const std::string& why) { throw DistError(why, {.operation = "init_rpc"}); }

}  // namespace

std::uint32_t MemberDirectory::claim_id(std::optional<std::uint32_t> wanted, const std::string& name) {
  const std::string claim = "claimed by " + name + " " + std::to_string(keys_->add("claims", 1));
  for (std::uint32_t id = wanted.value_or(0);; ++id) {
    if (id >= PeerTable::most_ids)
      reject("rank " + std::to_string(id) + " is not below " + std::to_string(PeerTable::most_ids));
    if (!wanted) id = static_cast<std::uint32_t>(keys_->add("free id", 1) - 1);
    const std::string holder = keys_->compare_set(id_key(id), "", claim);
    if (holder == claim) return id;
    if (!wanted) continue;
    const std::optional<Found> other = parse(holder);
    const std::string had = other && other->has_left ? "was" : "is";
    reject("rank " + std::to_string(id) + " " + had + " that of " +
           (other ? describe(other->worker) : "another worker") +
           ": a rank is given once in a group without a world size; give another, or none for a free one");
  }
}

void MemberDirectory::join(const WorkerContact& self) {
  const std::string entry = is_here + to_text(self);
  keys_->set(id_key(self.id), entry);
  std::string holder = keys_->compare_set(name_key(self.name), "", entry);
  while (holder != entry) {
    const std::optional<Found> other = parse(holder);
    if (other && !other->has_left && !Agent::is_gone(other->worker)) {
      keys_->set(id_key(self.id), has_left + to_text(self));
      reject("the name " + quoted(self.name) + " is that of " + describe(other->worker) +
             ": give each worker its own");
    }
    const std::string seen = holder;
    holder = keys_->compare_set(name_key(self.name), seen, entry);
  }
  keys_->set(member_key(keys_->add(count_key, 1)), std::to_string(self.id));
}

void MemberDirectory::leave(const WorkerContact& self) {
  const std::string entry = has_left + to_text(self);
  keys_->set(id_key(self.id), entry);
  keys_->compare_set(name_key(self.name), is_here + to_text(self), entry);  // unless another has it
}

std::optional<MemberDirectory::Found> MemberDirectory::at(const std::string& key) {
  return keys_->check({&key, 1}) ? parse(keys_->get(key)) : std::nullopt;
}

std::optional<MemberDirectory::Found> MemberDirectory::find(std::string_view name) {
  return at(name_key(name));
}

std::optional<MemberDirectory::Found> MemberDirectory::find(std::uint32_t id) { return at(id_key(id)); }

std::vector<WorkerContact> MemberDirectory::all() {
  std::vector<std::string> keys;
  for (std::int64_t number = keys_->add(count_key, 0); number > 0; --number)
    keys.push_back(member_key(number));
  // One may be counted, and not have its key yet.
  if (!keys_->check(keys))
    std::erase_if(keys, [&](const std::string& key) { return !keys_->check({&key, 1}); });
  std::vector<std::string> ids = keys_->multi_get(keys);
  for (std::string& id : ids) id.insert(0, "id/");
  std::vector<WorkerContact> all;
  for (const std::string& text : keys_->multi_get(ids)) {
    const std::optional<Found> member = parse(text);
    if (member && !member->has_left) all.push_back(member->worker);
  }
  std::ranges::sort(all, {}, &WorkerContact::id);
  return all;
}

}  // namespace dlaunch::internal
