#include "runtime/rpc/side_links.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {

namespace {

// After so many bytes another connection gets the thread.
constexpr std::size_t most_at_a_time = std::size_t{1024} * 1024;

}  // namespace

// One of them. Lives as long as the threads know it, and keeps all.
class SideLinks::Side final : public StripeThreads::Connection {
 public:
  Side(Descriptor socket, std::shared_ptr<SideLinks> all, std::shared_ptr<StripeThreads> threads)
      : socket_(std::move(socket)), threads_(std::move(threads)), all_(std::move(all)) {}

  void set_token(std::uint64_t token) { token_ = token; }
  void on_event() override {
    std::optional<std::string> why;
    {
      const std::lock_guard lock(mutex_);
      if (has_ended_) return;
      why = read();
      if (!why) why = write();
    }
    if (why) return all_->lose(*why);
    watch();
  }
  // There is something to send.
  void watch() {
    const std::lock_guard lock(watch_mutex_);
    threads_->watch(socket_.get(), token_, number_ != none || all_->has_stripes());
  }
  void begin(std::uint64_t number) { number_ = number; }
  void keep(std::uint64_t number) {
    if (number_ != number) return;
    const std::lock_guard lock(mutex_);
    if (stripe_ && stripe_->number() == number) stripe_->keep();
  }
  [[nodiscard]] bool is_sending() const { return number_ != none; }
  // No memory of a message is read or written from now on.
  void end() {
    threads_->remove(token_);
    shutdown(socket_.get(), SHUT_RDWR);
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    stripe_.reset();
    number_ = none;
  }

 private:
  static constexpr std::uint64_t none = UINT64_MAX;

  // Both return why the connection has ended. REQUIRES: mutex_ is held.
  std::optional<std::string> read();
  std::optional<std::string> write();

  const Descriptor socket_;
  const std::shared_ptr<StripeThreads> threads_;
  const std::shared_ptr<SideLinks> all_;
  std::uint64_t token_ = 0;
  std::atomic<std::uint64_t> number_ = none;  // of the message whose stripe is being sent

  std::mutex watch_mutex_;
  std::mutex mutex_;
  // protected by mutex_
  StripeReader reader_;
  std::optional<Stripe> stripe_;
  bool has_ended_ = false;
};

std::optional<std::string> SideLinks::Side::read() {
  const auto begin = [this](const StripeHead& head, std::span<std::byte>& place) {
    return all_->begin(head, place);
  };
  const auto end = [this](const StripeHead& head) { all_->on_stored(head); };
  for (std::size_t all = 0; all < most_at_a_time;) {
    const StripeReader::Space space = reader_.space();
    std::array<iovec, 2> pieces{
        {{space.direct.data(), space.direct.size()}, {space.head.data(), space.head.size()}}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got == 0) return connection_was_closed;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (got < 0) return std::generic_category().message(errno);
    if (std::optional<std::string> wrong = reader_.advance(static_cast<std::size_t>(got), {begin, end}))
      return wrong;
    all += static_cast<std::size_t>(got);
  }
  return std::nullopt;
}

std::optional<std::string> SideLinks::Side::write() {
  for (std::size_t all = 0; all < most_at_a_time;) {
    if (!stripe_ && !(stripe_ = all_->next(*this))) return std::nullopt;
    std::array<std::span<const std::byte>, 64> pieces;
    std::array<iovec, 64> places;
    std::size_t count = 0;
    for (const auto piece : stripe_->pieces(pieces))
      places[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
    msghdr message{};
    message.msg_iov = places.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (sent < 0) return std::generic_category().message(errno);
    all += static_cast<std::size_t>(sent);
    if (!stripe_->advance(static_cast<std::size_t>(sent))) continue;
    stripe_.reset();
    number_ = none;
  }
  return std::nullopt;
}

SideLinks::SideLinks() : ready_([] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }) {}
SideLinks::~SideLinks() = default;

bool SideLinks::add(Descriptor socket, std::shared_ptr<StripeThreads> threads,
                    std::function<void()> on_lost) {
  const int fd = socket.get();
  const auto side = std::make_shared<Side>(std::move(socket), shared_from_this(), threads);
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_ || sides_.size() == most) return false;
    side->set_token(threads->add(fd, side));
    on_lost_ = std::move(on_lost);
    sides_.push_back(side);
    are_open_ = true;
  }
  side->watch();
  return true;
}

std::vector<std::shared_ptr<SideLinks::Side>> SideLinks::sides() const {
  const std::lock_guard lock(mutex_);
  return sides_;
}

// --- Sending
// ---------------------------------------------------------------------------------------------------------

void SideLinks::send(RpcMessage message) {
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return;
    queue_.push(std::move(message));
  }
  for (const auto& side : sides()) side->watch();
}

bool SideLinks::has_stripes() const {
  const std::lock_guard lock(mutex_);
  return !queue_.is_empty();
}

std::optional<Stripe> SideLinks::next(Side& side) {
  const std::lock_guard lock(mutex_);
  std::optional<Stripe> stripe = queue_.next();
  if (stripe) side.begin(stripe->number());
  return stripe;
}

// A stripe that is made later is of the copy.
void SideLinks::keep(std::span<const std::uint64_t> numbers) {
  {
    const std::lock_guard lock(mutex_);
    queue_.keep(numbers);
  }
  for (const auto& side : sides())
    for (const std::uint64_t number : numbers) side->keep(number);
}

void SideLinks::flush(Deadline deadline) {
  const auto is_sending = [](const auto& side) { return side->is_sending(); };
  while (are_open_ && !has_passed(deadline) && (has_stripes() || std::ranges::any_of(sides(), is_sending)))
    ::poll(nullptr, 0, 1);
}

// --- Receiving
// -------------------------------------------------------------------------------------------------------

std::optional<std::string> SideLinks::begin(const StripeHead& head, std::span<std::byte>& place) {
  const std::lock_guard lock(mutex_);
  return table_.begin(head, place);
}

void SideLinks::on_stored(const StripeHead& head) {
  const std::lock_guard lock(mutex_);
  std::optional<RpcMessage> message = table_.end(head);
  if (!message) return;
  complete_.push_back(*std::move(message));
  eventfd_write(ready_.get(), 1);
}

std::optional<std::string> SideLinks::complete(std::vector<RpcMessage>& messages) {
  const std::lock_guard lock(mutex_);
  std::vector<RpcMessage> all;
  for (RpcMessage& message : messages) {
    bool is_complete = true;
    if (message.kind == PartHead::striped_request || message.kind == PartHead::striped_result) {
      if (std::optional<std::string> wrong = table_.add_front(message, is_complete)) {
        messages.clear();
        return wrong;
      }
    }
    if (is_complete) all.push_back(std::move(message));
  }
  if (!complete_.empty()) {
    eventfd_t count = 0;
    eventfd_read(ready_.get(), &count);
    std::ranges::move(complete_, std::back_inserter(all));
    complete_.clear();
  }
  messages = std::move(all);
  return std::nullopt;
}

// --- Ending
// ----------------------------------------------------------------------------------------------------------

void SideLinks::lose(const std::string& why) {
  std::function<void()> on_lost;
  {
    const std::lock_guard lock(mutex_);
    if (!why_lost_.empty() || has_ended_) return;
    why_lost_ = why;
    lost_at_ = std::chrono::steady_clock::now();
    on_lost = on_lost_;
  }
  on_lost();
}

std::optional<std::string> SideLinks::why_lost() const {
  const std::lock_guard lock(mutex_);
  const bool is_over = !why_lost_.empty() && has_passed(lost_at_ + grace);
  return is_over ? std::optional(why_lost_) : std::nullopt;
}

void SideLinks::end() {
  std::vector<std::shared_ptr<Side>> ended;
  StripeQueue dropped;  // without the lock
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    are_open_ = false;
    std::swap(queue_, dropped);
    ended.swap(sides_);
  }
  for (const auto& side : ended) side->end();
  const std::lock_guard lock(mutex_);
  table_ = {};
}

}  // namespace dlaunch::internal
