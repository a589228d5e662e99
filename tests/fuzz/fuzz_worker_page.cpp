// libFuzzer: the page of a worker that overwrites its memory. The input changes words of a good page, in one
// copy or in both: six bytes each, position (two) and value (four; the last selects how). The agent reads,
// diagnoses and shows every result.
#include <cstdint>
#include <cstring>
#include <vector>

#include "agent/model/crash.h"
#include "agent/model/diagnosis.h"
#include "agent/model/worker_record.h"
#include "launcher/commands/job_dump.h"
#include "tests/agent/model/made_page.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::agent;

MadePage good_page() {
  MadePage page(1, 8);
  page.add_group(1, "default");
  page.add_group(2, "1");
  for (std::uint64_t n = 1; n <= 6; ++n) page.end(page.enter(1, page::Operation::all_reduce, n, 100), 200);
  page.enter(2, page::Operation::barrier, 1, 300);
  page.call_at(page.enter(1, page::Operation::recv, 1, 400), 1, "step");
  page.raw().links[0] = {4711, 3, 0};
  page.set_worker(1, "trainer");
  page.call(1, "ps", "add", page::Call::sent, 300);
  page.call(1, "ps", "get", page::Call::running, 350).is_served = 1;
  page::Crash& crash = page.raw().header.crash;
  crash.state = page::Crash::whole;
  crash.signal = 11;
  crash.frames = 3;
  crash.modules = 1;
  crash.paths[0] = {'/', 'x'};
  return page;
}

void fuzz(FuzzInput input) {
  constexpr std::size_t step = 6;
  static const MadePage good = good_page();
  std::vector<std::byte> first(good.bytes().begin(), good.bytes().end());
  std::vector<std::byte> second = first;
  const std::span<const std::byte> bytes = input.bytes();
  for (std::size_t at = 0; at + step <= bytes.size(); at += step) {
    std::uint16_t place = 0;
    std::uint32_t word = 0;
    std::memcpy(&place, bytes.data() + at, sizeof place);
    std::memcpy(&word, bytes.data() + at + sizeof place, sizeof word);
    const auto how = std::to_integer<unsigned>(bytes[at + step - 1]);
    // Most of a page is empty: only the header and the first groups, records, links and call sites matter.
    constexpr std::size_t starts[] = {0, offsetof(page::Header, crash), offsetof(page::Page, groups),
                                      offsetof(page::Page, records)};
    const std::size_t start = how % 16 == 15   ? offsetof(page::Page, links)
                              : how % 16 == 14 ? offsetof(page::Page, calls)
                              : how % 16 == 13 ? offsetof(page::Header, calls)
                              : how % 16 == 12 ? offsetof(page::Page, call_sites)
                                               : starts[how % 4];
    const std::size_t offset = start + place % 640;
    if (how < 250) std::memcpy(first.data() + offset, &word, sizeof word);
    std::memcpy(second.data() + offset, &word, sizeof word);
  }
  (void)parse_page_head(second);
  if (const auto crash = parse_crash(second)) {
    require(!cause_of(*crash).empty() && crash->frames.size() <= page::Crash::max_frames);
    require(stack_of(*crash).empty() == crash->frames.empty() &&
            source_lines_command(*crash).size() < 10'000);
  }
  auto record = parse_worker_page(first, second);
  if (!record) return;
  require(record->rank >= 0 && record->rank < record->world_size);
  for (const auto& link : record->links) require(link.rank >= 0 && link.rank < record->world_size);
  for (const auto& group : record->groups) require(group.done <= group.entered && group.name.size() <= 48);

  launcher::JobDump dump;
  dump.job.world_size = record->world_size;
  dump.now = TimePoint(Duration(1'000));
  WorkerSeen seen{std::move(*record), Condition::runs};
  require(diagnose(collect_group_progress({&seen, 1}, dump.job.world_size, 1'000)).sentences.size() <=
          Diagnosis::max_sentences);
  dump.workers.push_back({{}, 0, std::move(seen), {}, "", ""});
  require(!launcher::to_text(dump).empty() && !launcher::to_json(dump).empty());
}

}  // namespace
