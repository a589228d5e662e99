#include "agent/model/worker_record.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "agent/model/page_reading.h"

namespace dlaunch::agent {
namespace {

constexpr int most_ranks = 1 << 24;

bool is_page(const page::Header& header) {
  return header.magic == page::magic && header.version == page::version && header.owner > 0 &&
         header.world_size > 0 && header.world_size <= most_ranks && header.rank >= 0 &&
         header.rank < header.world_size;
}

// Reads runs up to the first invalid one.
std::vector<page::Run> runs_of(const page::Group& group, int world_size) {
  std::vector<page::Run> runs;
  std::uint64_t ranks = 0;
  for (const page::Run& run : group.runs) {
    const std::int64_t last = run.first + std::int64_t{run.stride} * (std::int64_t{run.count} - 1);
    const bool within = run.first >= 0 && run.first < world_size && last >= 0 && last < world_size;
    ranks += run.count;
    if (run.count == 0 || !within || (run.stride == 0 && run.count > 1) || ranks > group.size) break;
    runs.push_back(run);
  }
  return runs;
}

// The flag that it was left is written after the seqlock, so it is read apart.
bool is_whole(page::Group first, const page::Group& second) {
  first.state = second.state;
  return first.seqlock % 2 == 0 && std::memcmp(&first, &second, offsetof(page::Group, entered)) == 0;
}

std::optional<WorkerRecord::Group> group_of(const page::Group& raw, int world_size) {
  const bool used = raw.state == page::Group::current || raw.state == page::Group::left;
  const bool sized = raw.size > 0 && raw.size <= static_cast<std::uint32_t>(world_size);
  if (!used || !sized || raw.id == 0 || raw.rank < 0 || static_cast<std::uint32_t>(raw.rank) >= raw.size)
    return std::nullopt;
  WorkerRecord::Group group;
  group.id = raw.id;
  group.identity = raw.identity;
  group.name = text_of(raw.name);
  group.backend = text_of(raw.backend);
  group.rank = raw.rank;
  group.size = raw.size;
  group.ranks = runs_of(raw, world_size);
  group.left = raw.state == page::Group::left;
  group.entered = raw.entered;
  group.done = std::min(raw.done, raw.entered);
  group.ended = std::max(std::min(raw.failed, raw.entered), group.done);
  return group;
}

std::map<std::uint32_t, WorkerRecord::CallSite> call_sites_of(ByteSpan first, ByteSpan second) {
  std::map<std::uint32_t, WorkerRecord::CallSite> sites;
  for (std::size_t i = 0; i < page::max_call_sites; ++i) {
    const std::size_t at = offsetof(page::Page, call_sites) + i * sizeof(page::CallSite);
    const auto site = read_at<page::CallSite>(second, at);
    const bool is_whole = site.id != 0 && (site.id - 1) % page::max_call_sites == i &&
                          site == read_at<page::CallSite>(first, at);
    if (is_whole) sites[site.id] = {text_of(site.file), site.line, text_of(site.function)};
  }
  return sites;
}

// The end of an entry is written after the seqlock, so it is read apart.
bool is_whole(page::Record first, const page::Record& second) {
  first.ended_ns = second.ended_ns;
  first.state = second.state;
  first.on_device = second.on_device;
  return first.seqlock % 2 == 0 && first.seqlock != 0 && std::memcmp(&first, &second, sizeof first) == 0;
}

std::optional<WorkerRecord::Entry> entry_of(const page::Record& raw, std::size_t place) {
  const std::uint64_t number = raw.seqlock / 2 - 1;
  const bool known = static_cast<std::size_t>(raw.operation) < page::operation_names.size() &&
                     raw.operation != page::Operation::none && raw.state >= page::Record::started &&
                     raw.state <= page::Record::failed;
  if (!known || number % page::max_records != place) return std::nullopt;
  WorkerRecord::Entry entry;
  entry.number = number;
  entry.sequence = raw.sequence;
  entry.created_ns = raw.created_ns;
  entry.ended_ns = raw.ended_ns;
  entry.input = raw.input;
  entry.output = raw.output;
  entry.group = raw.group;
  entry.peer = raw.peer;
  entry.timeout_ms = raw.timeout_ms;
  entry.operation = raw.operation;
  entry.dtype = raw.dtype;
  entry.state = static_cast<page::Record::State>(raw.state);
  if (raw.on_device <= page::Record::begun)
    entry.on_device = static_cast<page::Record::OnDevice>(raw.on_device);
  return entry;
}

Activity activity_of(const page::Header& header) {
  return {page::moves_of(header), page::open_of(header), header.asks,
          (header.forming_ns > 0 ? 1U : 0U) + (header.key_since_ns != 0 ? 1U : 0U) +
              (header.calls.waiting > 0 ? 1U : 0U)};
}

WorkerRecord::Lost lost_of(const page::Header& header) {
  const bool known = header.lost > 0 && header.lost <= header.world_size && header.loss > page::Loss::none &&
                     header.loss <= page::last_loss &&
                     static_cast<std::size_t>(header.loss_operation) < page::operation_names.size();
  if (!known) return {};
  return {header.lost - 1, header.loss, header.loss_operation, header.loss_sequence, header.loss_group};
}

}  // namespace

std::int64_t WorkerRecord::unix_ns(std::int64_t steady_ns) const {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(steady_ns) +
                                   static_cast<std::uint64_t>(unix_minus_steady_ns));
}

const WorkerRecord::Group* WorkerRecord::group(std::uint32_t id) const {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.id == id; });
  return found == groups.end() ? nullptr : &*found;
}

const WorkerRecord::Entry* WorkerRecord::collective(std::uint32_t group, std::uint64_t sequence) const {
  const auto found = std::find_if(entries.rbegin(), entries.rend(), [&](const Entry& e) {
    return e.group == group && e.sequence == sequence && page::is_collective(e.operation);
  });
  return found == entries.rend() ? nullptr : &*found;
}

const WorkerRecord::Entry* WorkerRecord::open_otherwise(std::uint32_t group) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) {
    return e.group == group && e.state == page::Record::started && !page::is_collective(e.operation);
  });
  return found == entries.end() ? nullptr : &*found;
}

std::string WorkerRecord::call_site_of(const Entry& entry) const {
  const auto found = call_sites.find(entry.call_site);
  if (found == call_sites.end()) return "";
  const CallSite& site = found->second;
  const std::string place = site.file.substr(site.file.rfind('/') + 1) + ":" + std::to_string(site.line);
  return site.function.empty() ? place : place + " in " + site.function;
}

std::string worker_page_path(const std::string& pages_dir, std::uint32_t round, std::uint32_t local_rank) {
  return pages_dir + "/" + std::to_string(round) + "_" + std::to_string(local_rank) + ".page";
}

std::optional<WorkerRecord> parse_worker_page(ByteSpan first, ByteSpan second) {
  if (first.size() != sizeof(page::Page) || second.size() != sizeof(page::Page)) return std::nullopt;
  const auto header = read_at<page::Header>(second, offsetof(page::Page, header));
  if (!is_page(header)) return std::nullopt;
  WorkerRecord record;
  record.pid = header.owner;
  record.rank = header.rank;
  record.world_size = header.world_size;
  record.unix_minus_steady_ns = header.unix_minus_steady_ns;
  record.forming_ns = std::max(std::int64_t{0}, header.forming_ns);
  const auto earlier = read_at<page::Header>(first, offsetof(page::Page, header));
  if (header.key_since_ns > 0 && header.key_since_ns == earlier.key_since_ns && header.key == earlier.key) {
    record.key_since_ns = header.key_since_ns;
    record.key = text_of(header.key);
  }
  record.joined_ns = header.joined_ns;
  record.first_ns = std::max(std::int64_t{0}, header.first_ns);
  record.moved_ns = header.joined_ns;
  record.lost = lost_of(header);
  record.left_in_exception = header.left_in_exception == 1;
  record.activity = activity_of(header);
  for (std::size_t i = 0; i < page::max_groups; ++i) {
    const std::size_t at = offsetof(page::Page, groups) + i * sizeof(page::Group);
    // Its numbers come from the first copy: every operation entered by then has its record in both copies.
    const auto raw = read_at<page::Group>(first, at);
    if (!is_whole(raw, read_at<page::Group>(second, at))) continue;
    if (auto group = group_of(raw, header.world_size)) record.groups.push_back(std::move(*group));
  }
  std::sort(record.groups.begin(), record.groups.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (std::size_t i = 0; i < page::max_records; ++i) {
    const std::size_t at = offsetof(page::Page, records) + i * sizeof(page::Record);
    const auto raw = read_at<page::Record>(second, at);
    if (!is_whole(read_at<page::Record>(first, at), raw)) continue;
    if (auto entry = entry_of(raw, i)) {
      // Between the two copies of the record.
      entry->call_site =
          read_at<std::uint32_t>(first, offsetof(page::Page, call_site_of) + i * sizeof(std::uint32_t));
      record.moved_ns = std::max({record.moved_ns, entry->created_ns, entry->ended_ns});
      record.entries.push_back(*entry);
    }
  }
  std::sort(record.entries.begin(), record.entries.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  record.remote = parse_remote_calls(first, second);
  for (const RemoteCall& call : record.remote.calls)
    record.moved_ns = std::max({record.moved_ns, call.began_ns, call.ended_ns});
  for (std::size_t i = 0; i < page::max_links; ++i) {
    const std::size_t at = offsetof(page::Page, links) + i * sizeof(page::Link);
    const auto link = read_at<page::Link>(second, at);
    const bool is_whole = link == read_at<page::Link>(first, at);
    if (is_whole && link.inode != 0 && link.rank >= 0 && link.rank < record.world_size)
      record.links.push_back(link);
  }
  record.call_sites = call_sites_of(first, second);
  return record;
}

std::optional<PageHead> parse_page_head(ByteSpan bytes) {
  if (bytes.size() < sizeof(page::Header)) return std::nullopt;
  const auto header = read_at<page::Header>(bytes, 0);
  return is_page(header) ? std::optional(PageHead{header.owner, activity_of(header)}) : std::nullopt;
}

std::string describe_loss(const WorkerRecord& record) {
  const WorkerRecord::Lost& lost = record.lost;
  const bool has_left = lost.how == page::Loss::left || lost.how == page::Loss::left_in_exception;
  std::string text;
  if (has_left) text = "left the group";
  if (lost.how == page::Loss::died) text = "closed its connections";
  if (lost.how == page::Loss::gave_up) text = "gave up";
  if (text.empty()) return text;
  if (lost.operation != page::Operation::none)
    text += " at " + name_of(lost.operation) + " #" + std::to_string(lost.sequence);
  const WorkerRecord::Group* const group = record.group(lost.group);
  if (group != nullptr) text += " of group " + group->name;
  return text + (lost.how == page::Loss::left_in_exception ? " while an exception was on its way" : "");
}

Duration between(std::int64_t from_ns, std::int64_t to_ns) {
  return from_ns >= 0 && to_ns > from_ns ? Duration(to_ns - from_ns) : Duration(0);
}

}  // namespace dlaunch::agent
