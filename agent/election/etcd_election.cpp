#include "agent/election/etcd_election.h"

#include <algorithm>
#include <utility>

#include "agent/election/http_reply.h"
#include "store/base/overloaded.h"

namespace dlaunch::agent {
namespace {

// etcd answers within milliseconds unless it is in trouble.
constexpr Duration patience = std::chrono::seconds(2);
constexpr Duration farewell = std::chrono::seconds(1);
// A watch is silent while nothing happens, and so is a watch whose server is frozen. It is therefore
// restarted this often; a server answers the start at once.
constexpr Duration watch_time = std::chrono::seconds(5);

std::string http_request(const Address& host, const EtcdRequest& request) {
  return "POST " + request.path + " HTTP/1.1\r\nHost: " + to_string(host) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(request.body.size()) +
         "\r\nConnection: close\r\n\r\n" + request.body;
}

}  // namespace

// One request on a connection of its own. `read` receives the whole body or each line of a stream, `fail`
// what is wrong; `heard` reports that the server of a stream is there. After stop(), none is called.
class EtcdElection::Call final : public ConnectionHandler {
 public:
  using Told = std::function<void(const std::string&)>;

  Call(Network& network, bool is_stream, Told read, Told fail, std::function<void()> heard = nullptr)
      : network_(network),
        is_stream_(is_stream),
        read_(std::move(read)),
        fail_(std::move(fail)),
        heard_(std::move(heard)) {}
  ~Call() override { stop(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void begin(const Address& host, TimePoint deadline, const EtcdRequest& request) {
    conn_ = network_.connect(host, deadline, *this);
    network_.send(conn_, as_byte_span(http_request(host, request)));
  }
  void stop() {
    stopped_ = true;
    if (conn_) network_.close(std::exchange(conn_, {}));
  }

  void on_received(ConnId, ByteSpan bytes) override {
    if (auto read = reply_.append(bytes); !read) return end(fail_, read.error().message());
    if (!reply_.has_head()) return;
    body_ += reply_.take_body();
    constexpr int ok = 200;
    if (reply_.status() == ok && is_stream_) {
      if (heard_) heard_();
      read_lines();
    }
    if (!reply_.complete() || stopped_) return;
    if (reply_.status() != ok) return end(fail_, read_trouble(reply_.status(), body_));
    if (is_stream_) return end(fail_, "the watch has ended");
    end(read_, body_);
  }
  void on_closed(ConnId, const ConnectionEnd& closed) override {
    conn_ = {};
    const Error& reason = closed.reason;
    end(fail_, reason.why.empty() ? reason.message() : reason.why);
  }

 private:
  void read_lines() {
    for (std::size_t end = body_.find('\n'); end != std::string::npos && !stopped_; end = body_.find('\n')) {
      const std::string line = body_.substr(0, end);
      body_.erase(0, end + 1);
      if (!line.empty()) read_(line);
    }
  }
  void end(const Told& told, const std::string& text) {
    stop();
    told(text);
  }

  Network& network_;
  bool is_stream_;
  bool stopped_ = false;
  Told read_;
  Told fail_;
  std::function<void()> heard_;
  ConnId conn_;
  HttpReply reply_;
  std::string body_;
};

EtcdElection::EtcdElection(Dependencies dependencies, Config config)
    : dependencies_(dependencies), config_(std::move(config)), election_(config_.value, config_.ttl) {}

EtcdElection::~EtcdElection() {
  for (const TimerId timer : {timer_, deadline_, end_}) dependencies_.timers.disarm(timer);
}

void EtcdElection::begin() { act(election_.begin(dependencies_.clock.now())); }

void EtcdElection::resign(const std::optional<EndingRecord>& ending_record, std::function<void()> done) {
  resigned_ = std::move(done);
  end_ = dependencies_.timers.arm(dependencies_.clock.now() + farewell, *this);
  if (ending_record && election_.state() == Election::State::leading) {
    leave_behind(*ending_record);
  } else {
    let_go();
  }
}

void EtcdElection::leave_behind(const EndingRecord& ending_record) {
  ask_aside(grant_lease(ending_record.kept), [this, text = ending_record.text](const std::string& body) {
    const auto granted = read_granted(body);
    if (!granted) return let_go();
    ask_aside(agent::leave_behind(config_.key, config_.value, text, granted->lease),
              [this](const std::string&) { let_go(); });
  });
}

// The key is free for others.
void EtcdElection::let_go() {
  const ElectionActions last = election_.resign();
  act(last);
  const bool is_asked = std::any_of(last.begin(), last.end(), [](const ElectionAction& action) {
    return std::holds_alternative<RevokeLease>(action);
  });
  if (!is_asked) end_resignation();
}

void EtcdElection::end_resignation() {
  dependencies_.timers.disarm(std::exchange(end_, {}));
  if (const auto done = std::exchange(resigned_, nullptr)) done();
}

// If it fails, a resignation is over, too.
void EtcdElection::ask_aside(const EtcdRequest& request,
                             const std::function<void(const std::string&)>& read) {
  side_retired_ = std::move(side_call_);  // it may be what called us
  side_call_ = std::make_unique<Call>(dependencies_.network, false, read,
                                      [this](const std::string&) { end_resignation(); });
  side_call_->begin(config_.endpoints[endpoint_], dependencies_.clock.now() + farewell, request);
}

void EtcdElection::on_timer(TimerId timer) {
  if (timer == timer_) {
    timer_ = {};
    step(ElectionTimer{});
  } else if (timer == deadline_) {
    deadline_ = {};
    if (watch_again_) {
      std::exchange(watch_again_, nullptr)();
    } else {
      fail("no answer within " + to_words(patience));
    }
  } else if (timer == end_) {
    end_resignation();
  }
}

void EtcdElection::step(const ElectionEvent& event) { act(election_.step(dependencies_.clock.now(), event)); }

void EtcdElection::act(const ElectionActions& actions) {
  for (const ElectionAction& action : actions) {
    std::visit(Overloaded{
                   [&](const GrantLease&) {
                     ask(grant_lease(config_.ttl), false,
                         [this](const std::string& body) { take(read_granted(body)); });
                   },
                   [&](const Campaign& a) {
                     ask(campaign(config_.key, config_.value, a.lease), false,
                         [this](const std::string& body) { take(read_campaign(body)); });
                   },
                   [&](const RenewLeaseOf& a) {
                     ask(renew_lease(a.lease), false,
                         [this](const std::string& body) { take(read_renewed(body)); });
                   },
                   [&](const WatchKey& a) {
                     ask(watch_key(config_.key, a.since_revision), true, [this](const std::string& line) {
                       auto changed = read_watch_line(line);
                       if (!changed) return fail(changed.error().message());
                       if (*changed) step(**changed);
                     });
                   },
                   [&](const RevokeLease& a) {
                     ask_aside(revoke_lease(a.lease), [this](const std::string&) { end_resignation(); });
                   },
                   [&](const ArmElectionTimer& a) {
                     dependencies_.timers.disarm(timer_);
                     timer_ = dependencies_.timers.arm(a.at, *this);
                   },
                   [&](const Elected& a) { config_.on_elected(a.until, a.left_behind); },
                   [&](const Deposed&) { config_.on_deposed(); },
                   [&](const LeaderIs& a) { leader_ = a.value; },
                   [&](const LogMessage& a) { config_.on_log(a); },
               },
               action);
  }
}

void EtcdElection::ask(const EtcdRequest& request, bool is_stream,
                       const std::function<void(const std::string&)>& read) {
  if (call_) call_->stop();
  retired_ = std::move(call_);  // it may be what called us
  watch_again_ = nullptr;
  const TimePoint deadline = dependencies_.clock.now() + patience;
  dependencies_.timers.disarm(deadline_);
  deadline_ = dependencies_.timers.arm(deadline, *this);
  const auto heard = [this, request, read] {
    watch_again_ = [this, request, read] { ask(request, true, read); };
    dependencies_.timers.disarm(deadline_);
    deadline_ = dependencies_.timers.arm(dependencies_.clock.now() + watch_time, *this);
  };
  call_ = std::make_unique<Call>(
      dependencies_.network, is_stream, read, [this](const std::string& why) { fail(why); },
      is_stream ? std::function<void()>(heard) : nullptr);
  call_->begin(config_.endpoints[endpoint_], deadline, request);
}

void EtcdElection::fail(const std::string& why) {
  if (call_) call_->stop();
  watch_again_ = nullptr;
  dependencies_.timers.disarm(std::exchange(deadline_, {}));
  const std::string where = to_string(config_.endpoints[endpoint_]);
  endpoint_ = (endpoint_ + 1) % config_.endpoints.size();
  step(RequestFailed{where + ": " + why});
}

template <class T>
void EtcdElection::take(Result<T> answer) {
  dependencies_.timers.disarm(std::exchange(deadline_, {}));
  if (answer) {
    step(ElectionEvent{*answer});
  } else {
    fail(answer.error().message());
  }
}

}  // namespace dlaunch::agent
