// A worker's page as the runtime would have written it.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>

#include "store/base/bytes.h"
#include "store/contract/worker_page.h"

namespace dlaunch::agent {

class MadePage {
 public:
  MadePage(int rank, int world_size) {
    page::Header& header = page_->header;
    header.magic = page::magic;
    header.version = page::version;
    header.owner = 4711;
    header.rank = rank;
    header.world_size = world_size;
  }

  // Of all ranks.
  page::Group& add_group(std::uint32_t id, std::string_view name) {
    page::Group& group = page_->groups.at(id - 1);
    group.seqlock = 2;
    group.identity = 1000 + id;
    group.id = id;
    group.state = page::Group::current;
    group.size = static_cast<std::uint32_t>(page_->header.world_size);
    group.rank = page_->header.rank;
    std::ranges::copy(name, group.name.begin());
    std::ranges::copy(std::string_view("gloo"), group.backend.begin());
    group.runs[0] = {0, 1, group.size};
    return group;
  }
  page::Record& enter(std::uint32_t group, page::Operation operation, std::uint64_t sequence,
                      std::int64_t created_ns) {
    const std::uint64_t number = page_->header.next++;
    if (number == 0) page_->header.first_ns = created_ns;
    page::Record& record = page_->records.at(number % page::max_records);
    record = {};
    record.seqlock = 2 * number + 2;
    record.sequence = sequence;
    record.created_ns = created_ns;
    record.input = record.output = 8;
    record.group = group;
    record.peer = -1;
    record.timeout_ms = 60'000;
    record.operation = operation;
    record.dtype = 8;
    record.state = page::Record::started;
    if (page::is_collective(operation)) {
      page_->groups.at(group - 1).entered = sequence;
    } else {
      ++page_->header.others_begun;
    }
    return record;
  }
  void end(page::Record& record, std::int64_t ended_ns, bool success = true) {
    record.ended_ns = ended_ns;
    record.state = success ? page::Record::completed : page::Record::failed;
    if (!page::is_collective(record.operation)) {
      ++page_->header.others_ended;
      return;
    }
    ++page_->header.collectives_ended;
    page::Group& group = page_->groups.at(record.group - 1);
    (success ? group.done : group.failed) = record.sequence;
  }

  // It has remote calls.
  void set_worker(std::int32_t id, std::string_view name) {
    page_->header.calls.id = id + 1;
    page_->header.calls.worker = page::Name<4>::of(name);
  }
  // Of this worker to another one, whose id is 1.
  page::Call& call(std::uint64_t number, std::string_view worker, std::string_view function,
                   page::Call::State state, std::int64_t began_ns) {
    const std::uint64_t place = page_->header.calls.next++;
    page::Call& call = page_->calls.at(place);
    call.seqlock = 2 * place + 2;
    call.number = number;
    call.began_ns = began_ns;
    call.peer = 1;
    call.state = state;
    call.function = page::Name<7>::of(function);
    call.worker = page::Name<4>::of(worker);
    return call;
  }

  // The record is called at this line of train.py.
  void call_at(const page::Record& record, std::uint32_t line, std::string_view function) {
    page::CallSite& site = page_->call_sites.at(line - 1);
    site.id = line;
    site.line = line;
    std::ranges::copy(std::string_view("/srv/train.py"), site.file.begin());
    std::ranges::copy(function, site.function.begin());
    page_->call_site_of.at((record.seqlock / 2 - 1) % page::max_records) = site.id;
  }

  page::Page& raw() { return *page_; }
  [[nodiscard]] ByteSpan bytes() const { return std::as_bytes(std::span(page_.get(), 1)); }

 private:
  std::unique_ptr<page::Page> page_ = std::make_unique<page::Page>();
};

}  // namespace dlaunch::agent
