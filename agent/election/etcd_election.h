// The election (agent/election/election.h) at an etcd v3 cluster, by its JSON gateway. One thread: the
// loop's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/election/election.h"
#include "agent/election/etcd_messages.h"
#include "store/base/address.h"
#include "store/base/io.h"

namespace dlaunch::agent {

class EtcdElection final : public TimerHandler {
 public:
  struct Dependencies {  // not owned; all must outlive the election
    Clock& clock;
    Timers& timers;
    Network& network;
  };
  struct Config {
    std::vector<Address> endpoints;  // of the cluster; if one does not answer, the next is asked
    std::string key;
    std::string value;  // what the key holds while this agent leads
    Duration ttl{};
    // `left_behind`: by an earlier leader, when this agent begins to lead.
    std::function<void(TimePoint until, const std::optional<std::string>& left_behind)> on_elected;
    std::function<void()> on_deposed;
    std::function<void(const LogMessage&)> on_log;
  };

  EtcdElection(Dependencies dependencies, Config config);
  ~EtcdElection() override;
  EtcdElection(const EtcdElection&) = delete;
  EtcdElection& operator=(const EtcdElection&) = delete;

  void begin();
  // Gives leadership up; `done` is called within a second. A leader leaves this text for later leaders, for
  // so long, if etcd answers.
  struct EndingRecord {
    std::string text;
    Duration kept{};
  };
  void resign(const std::optional<EndingRecord>& ending_record, std::function<void()> done);

  // What the key holds, as far as is known.
  [[nodiscard]] const std::optional<std::string>& leader() const { return leader_; }

  void on_timer(TimerId timer) override;

 private:
  class Call;

  void leave_behind(const EndingRecord& ending_record);
  void ask_aside(const EtcdRequest& request, const std::function<void(const std::string&)>& read);
  void let_go();
  void end_resignation();
  void step(const ElectionEvent& event);
  void act(const ElectionActions& actions);
  // `read` receives the whole body, or each line of a stream.
  void ask(const EtcdRequest& request, bool is_stream, const std::function<void(const std::string&)>& read);
  void fail(const std::string& why);
  template <class T>
  void take(Result<T> answer);

  Dependencies dependencies_;
  Config config_;
  Election election_;
  std::optional<std::string> leader_;
  std::size_t endpoint_ = 0;
  std::unique_ptr<Call> call_;
  std::unique_ptr<Call> retired_;       // the one before
  std::unique_ptr<Call> side_call_;     // the election does not wait for it
  std::unique_ptr<Call> side_retired_;  // the one before
  TimerId timer_;
  TimerId deadline_;                   // of the call
  std::function<void()> watch_again_;  // at the deadline, if the call is a watch whose server was there
  TimerId end_;                        // of the resignation
  std::function<void()> resigned_;
};

}  // namespace dlaunch::agent
