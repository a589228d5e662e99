#include "store/loop/uv_poller.h"

#include <uv.h>

#include <map>

namespace dlaunch::store {

struct UvPoller::Impl {
  struct Watched {
    uv_poll_t poll{};
    int fd = -1;
    FdHandler* handler = nullptr;
    int events = 0;
  };

  struct WatchedSignal {
    uv_signal_t signal{};
    std::function<void(int)> handler;
  };

  uv_loop_t* loop = nullptr;
  std::map<int, Watched*> watched;
  std::map<int, WatchedSignal*> signals;

  static void on_poll(uv_poll_t* poll, int status, int events) {
    auto* watched = static_cast<Watched*>(poll->data);
    FdHandler* handler = watched->handler;
    const int fd = watched->fd;
    // On an error (the other end has gone) the next read or write fails.
    const int wanted = watched->events;
    const bool failed = status < 0;
    // The handler may unwatch: after its first call `watched` may be gone, so it is called at most once; the
    // other event comes with the loop's next turn.
    if ((failed || (events & (UV_READABLE | UV_DISCONNECT)) != 0) && (wanted & UV_READABLE) != 0) {
      handler->on_readable(fd);
    } else if ((failed || (events & UV_WRITABLE) != 0) && (wanted & UV_WRITABLE) != 0) {
      handler->on_writable(fd);
    }
  }
};

UvPoller::UvPoller(UvLoop& loop) : impl_(std::make_unique<Impl>()) { impl_->loop = loop.native(); }

UvPoller::~UvPoller() {
  while (!impl_->watched.empty()) unwatch(impl_->watched.begin()->first);
  for (auto& [signo, watched] : impl_->signals) {
    uv_close(reinterpret_cast<uv_handle_t*>(&watched->signal),
             [](uv_handle_t* handle) { delete static_cast<Impl::WatchedSignal*>(handle->data); });
  }
}

void UvPoller::watch(int fd, bool reading, bool writing, FdHandler& handler) {
  const int events = (reading ? UV_READABLE : 0) | (writing ? UV_WRITABLE : 0);
  if (events == 0) {
    unwatch(fd);
    return;
  }
  Impl::Watched*& watched = impl_->watched[fd];
  if (!watched) {
    watched = new Impl::Watched;
    watched->fd = fd;
    watched->poll.data = watched;
    uv_poll_init(impl_->loop, &watched->poll, fd);
  }
  watched->handler = &handler;
  if (watched->events == events) return;
  watched->events = events;
  uv_poll_start(&watched->poll, events, Impl::on_poll);
}

void UvPoller::unwatch(int fd) {
  const auto found = impl_->watched.find(fd);
  if (found == impl_->watched.end()) return;
  Impl::Watched* watched = found->second;
  impl_->watched.erase(found);
  uv_poll_stop(&watched->poll);
  uv_close(reinterpret_cast<uv_handle_t*>(&watched->poll),
           [](uv_handle_t* handle) { delete static_cast<Impl::Watched*>(handle->data); });
}

void UvPoller::on_signal(int signo, std::function<void(int)> handler) {
  Impl::WatchedSignal*& watched = impl_->signals[signo];
  if (!watched) {
    watched = new Impl::WatchedSignal;
    watched->signal.data = watched;
    uv_signal_init(impl_->loop, &watched->signal);
    uv_signal_start(
        &watched->signal,
        [](uv_signal_t* signal, int number) {
          static_cast<Impl::WatchedSignal*>(signal->data)->handler(number);
        },
        signo);
    // A signal alone does not keep the loop running.
    uv_unref(reinterpret_cast<uv_handle_t*>(&watched->signal));
  }
  watched->handler = std::move(handler);
}

}  // namespace dlaunch::store
