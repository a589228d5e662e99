#include "runtime/backends/gloo/errands.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <system_error>
#include <utility>

#include "dlaunch/error.h"

namespace dlaunch {

namespace {

int make_bell() {
  const int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (bell < 0) throw DistBackendError("cannot make an eventfd: " + std::generic_category().message(errno));
  return bell;
}

}  // namespace

Errands::Errands(const std::shared_ptr<::gloo::transport::Device>& device)
    : device_(std::static_pointer_cast<::gloo::transport::tcp::Device>(device)), bell_(make_bell()) {
  device_->registerDescriptor(bell_, EPOLLIN, this);
}

Errands::~Errands() {
  device_->unregisterDescriptor(bell_, this);
  close(bell_);
}

void Errands::add(std::shared_ptr<Errand> errand) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(errand));
  if (waiting_.size() == 1) eventfd_write(bell_, 1);
}

void Errands::flush(Deadline deadline) {
  class Last final : public Errand {
   public:
    void run() noexcept override { run_.set_value(); }
    std::future<void> future() { return run_.get_future(); }

   private:
    std::promise<void> run_;
  };
  const auto last = std::make_shared<Last>();
  const std::future<void> done = last->future();
  add(last);
  done.wait_until(deadline);
}

void Errands::stop() {
  const std::lock_guard lock(running_);
  stopped_ = true;
}

void Errands::handleEvents(int /*events*/) {
  eventfd_t rung = 0;
  eventfd_read(bell_, &rung);
  std::vector<std::shared_ptr<Errand>> errands;
  {
    const std::lock_guard lock(mutex_);
    errands.swap(waiting_);
  }
  const std::lock_guard running(running_);
  if (stopped_) return;
  for (const auto& errand : errands) errand->run();
}

}  // namespace dlaunch
