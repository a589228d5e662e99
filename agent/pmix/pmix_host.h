// Serves PMIx to the ranks of one node in one round, with the help of libpmix, and carries what they exchange
// to the agent and back.
//
// The library calls from a thread of its own; the agent's lines come on the thread that runs serve(). A fence
// is the only thing that waits: of several, the agent has one at a time.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <deque>
#include <mutex>
#include <string>

#include "agent/pmix/agent_connection.h"
#include "agent/pmix/job_data.h"

namespace dlaunch::agent {

class PmixHost {
 public:
  explicit PmixHost(AgentConnection& agent) : agent_(agent) {}  // not owned
  PmixHost(const PmixHost&) = delete;
  PmixHost& operator=(const PmixHost&) = delete;

  // Until the agent closes the connection. Returns the exit code. One host in a process, once.
  int serve();

 private:
  struct Fence {
    std::string data;  // of this node's ranks
    pmix_modex_cbfunc_t done;
    void* context;
  };

  bool make_folder();
  int begin(const PmixWorld& world);
  bool send_variables(int local_rank);
  void send_fence(const std::string& data);
  bool end_fence();
  [[nodiscard]] pmix_proc_t proc_of(int local_rank) const;
  [[nodiscard]] std::string local_rank_of(const pmix_proc_t& proc) const;
  [[nodiscard]] bool is_of_all(const pmix_proc_t procs[], std::size_t count) const;
  [[nodiscard]] bool is_of_this_node(const pmix_proc_t procs[], std::size_t count) const;
  pmix_status_t on_fence(const pmix_proc_t procs[], std::size_t count, const char* data, std::size_t size,
                         pmix_modex_cbfunc_t done, void* context);
  static pmix_server_module_t calls();

  AgentConnection& agent_;
  PmixWorld world_;
  std::mutex mutex_;
  std::deque<Fence> fences_;  // guarded by mutex_. The first one is the agent's
};

}  // namespace dlaunch::agent
