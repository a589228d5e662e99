#include "launcher/remote/relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>
#include <variant>

#include "launcher/console/command_io.h"
#include "launcher/remote/host_processes.h"
#include "launcher/remote/relay_protocol.h"
#include "launcher/remote/remote_protocol.h"
#include "store/base/overloaded.h"
#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {
namespace {

// While more than this is unsent, no process is read.
constexpr std::size_t most_unsent = 256U * 1024;

class Relay final : public FdHandler, public TimerHandler, public HostProcesses::Owner {
 public:
  Relay(UvLoop& loop, UvPoller& poller) : loop_(loop), poller_(poller), processes_(poller, *this) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    poller_.watch(STDIN_FILENO, true, false, *this);
    expect_more();
  }
  ~Relay() override {
    loop_.disarm(silence_);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) poller_.unwatch(fd);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  void send(std::string_view bytes) {
    unsent_.append(bytes);
    flush();
  }
  [[nodiscard]] int exit_code() const { return exit_code_; }

  void on_readable(int) override {
    char bytes[16 * 1024];
    const ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return loop_.stop();
    expect_more();
    reader_.append(std::string_view(bytes, static_cast<std::size_t>(got)));
    for (;;) {
      auto message = reader_.next();
      if (!message) return end_with(message.error());
      if (!*message) return;
      take(**message);
    }
  }
  void on_writable(int) override { flush(); }
  void on_timer(TimerId) override {
    silence_ = {};
    end_with({ErrorKind::timeout, "the dlaunch that started this relay", "",
              "it was silent for " + to_words(silence_limit), ""});
  }
  void on_output(ProcessNumber process, Stream stream, std::string_view bytes) override {
    send(encode(ProcessOutput{process, stream, std::string(bytes)}));
  }
  void on_gone(ProcessNumber process, int wait_status) override {
    send(encode(ProcessGone{process, wait_status}));
  }

 private:
  void take(const RelayMessage& message) {
    std::visit(Overloaded{
                   [&](const RunProcess& m) {
                     if (auto started = processes_.run(m.process, m.command); !started)
                       send(encode(ProcessNotRun{m.process, started.error().message()}));
                   },
                   [&](const ProcessInput& m) { processes_.send(m.process, m.bytes); },
                   [&](const EndInput& m) { processes_.end_input(m.process); },
                   [&](const SignalProcess& m) { processes_.signal(m.process, m.signo); },
                   [&](const PauseOutput& m) { processes_.pause(m.process, m.stream, m.paused); },
                   [](const auto&) {},
               },
               message);
  }

  void flush() {
    std::size_t sent = 0;
    while (sent < unsent_.size()) {
      const ssize_t wrote = write(STDOUT_FILENO, unsent_.data() + sent, unsent_.size() - sent);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0 && errno != EAGAIN) return loop_.stop();  // the connection is cut
      if (wrote < 0) break;
      sent += static_cast<std::size_t>(wrote);
    }
    unsent_.erase(0, sent);
    processes_.hold_all(unsent_.size() > most_unsent);
    if (unsent_.empty()) {
      poller_.unwatch(STDOUT_FILENO);
    } else {
      poller_.watch(STDOUT_FILENO, false, true, *this);
    }
  }

  void expect_more() {
    loop_.disarm(silence_);
    silence_ = loop_.arm(loop_.now() + silence_limit, *this);
  }

  void end_with(const Error& error) {
    exit_code_ = fail(error);
    loop_.stop();
  }

  UvLoop& loop_;
  UvPoller& poller_;
  RelayReader reader_;
  std::string unsent_;
  TimerId silence_;
  int exit_code_ = 0;
  HostProcesses processes_;
};

}  // namespace

int run_relay(const std::string& key) {
  std::signal(SIGPIPE, SIG_IGN);
  UvLoop loop;
  UvPoller poller(loop);
  Relay relay(loop, poller);
  relay.send(relay_greeting(key));
  loop.run();
  return relay.exit_code();
}

}  // namespace dlaunch::launcher
