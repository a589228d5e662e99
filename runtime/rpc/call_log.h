// What the remote calls of this worker do: for its agent (store/contract/calls_page.h), for get_debug_info(),
// and for the timeline of DLAUNCH_TRACE.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dlaunch/rpc_info.h"
#include "runtime/rpc_protocol/call_table.h"
#include "store/contract/worker_page.h"

namespace dlaunch::internal {

// Any thread.
class CallLog {
 public:
  struct Options {
    page::Page* page = nullptr;  // none: what is logged is kept here. Must live as long as this
    std::uint32_t rank = 0;      // of this worker
    std::string name = {};
    int job_rank = 0;              // for the timeline
    std::uint16_t generation = 0;  // how often the workers have met before: their calls have other numbers
  };
  explicit CallLog(const Options& options);

  struct What {
    bool is_served;           // by this worker, else made
    std::uint32_t peer;       // the other worker's rank
    std::string_view worker;  // its name
    std::string_view function;
    std::uint64_t number;  // of the call among those of its caller to its callee
    std::size_t bytes;     // of the request
  };
  // A call is queued, or waits for a thread. Messages between the workers' references are not logged.
  CallTag begin(const What& what);
  // It is sent, or runs. REQUIRES: it has not ended.
  void advance(const CallTag& tag);
  // `bytes`: of the result.
  void end(const CallTag& tag, bool success, std::size_t bytes) { Ends(*this).add(tag, success, bytes); }
  // Several calls have ended now. They are counted when this is destroyed.
  class Ends {
   public:
    explicit Ends(CallLog& log);
    ~Ends();
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;
    void add(const CallTag& tag, bool success, std::size_t bytes);

   private:
    CallLog& log_;
    const std::int64_t now_ns_;
    page::CallCounts more_{};
  };
  void set_references(std::size_t owned, std::size_t used, std::size_t pending);

  [[nodiscard]] rpc::DebugInfo info() const;

 private:
  using Calls = std::array<page::Call, page::max_calls>;
  struct Memory {
    page::CallCounts counts{};
    Calls calls{};
  };

  std::uint64_t begin_span(const What& what) const;
  std::uint64_t record(const What& what, std::int64_t now_ns);

  const Options options_;
  const std::unique_ptr<Memory> own_;
  page::CallCounts& counts_;
  Calls& calls_;
  const std::uint64_t generation_;
};

}  // namespace dlaunch::internal
