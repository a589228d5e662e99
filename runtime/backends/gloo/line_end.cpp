#include "runtime/backends/gloo/line_end.h"

#include <gloo/common/error.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/pair.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "runtime/backends/gloo/last_words.h"
#include "runtime/backends/gloo/pending.h"
#include "runtime/backends/gloo/send_buffer.h"

namespace dlaunch {

// What Gloo's thread does when a message for a bound buffer has come. A public member of its class for TCP,
// whose header cannot be used: it includes one that Debian's package lacks.
void count_arrival(::gloo::transport::Buffer* buffer) __asm__(
    "_ZN4gloo9transport3tcp6Buffer20handleRecvCompletionEv");

namespace {

// A cell: the number of the message, from 1, and the message, which begins on a cache line.
constexpr std::size_t number_offset = 56;
constexpr std::size_t message_offset = 64;
constexpr std::size_t cell_size = message_offset + (Line::longest + 63) / 64 * 64;
constexpr std::size_t ring_size = static_cast<std::size_t>(Line::ahead) * cell_size;
constexpr std::size_t gloo_preamble = 48;          // before every message
constexpr std::uint64_t credit = Line::ahead / 2;  // messages
// Within which the rest of a message comes that has begun to.
constexpr auto rest_limit = std::chrono::milliseconds(100);

// Gloo's names for bound buffers, apart from those for unbound ones.
constexpr int data_slot = 0;
constexpr int credit_slot = 1;

// All zero at first, which costs nothing where no message comes by.
class Ring {
 public:
  [[nodiscard]] std::byte* data() const { return begin_; }
  // Of the message after `before` others.
  [[nodiscard]] static std::size_t offset(std::uint64_t before) { return before % Line::ahead * cell_size; }

 private:
  static constexpr std::size_t alignment = 64;
  struct Release {
    void operator()(void* memory) const { std::free(memory); }
  };
  [[nodiscard]] std::byte* aligned() const {
    void* place = memory_.get();
    std::size_t space = ring_size + alignment;
    return static_cast<std::byte*>(std::align(alignment, ring_size, place, space));
  }

  std::unique_ptr<void, Release> memory_{std::calloc(ring_size + alignment, 1)};
  std::byte* const begin_ = memory_ ? aligned() : throw std::bad_alloc();
};

}  // namespace

// A bound buffer that a peer writes into.
class GlooTransport::LineEnd::Arrivals final : private Pending {
 public:
  Arrivals(GlooTransport& owner, int peer, int slot, std::byte* memory, std::size_t size)
      : Pending(owner),
        peer_(peer),
        buffer_(owner.context_->getPair(peer)->createRecvBuffer(slot, memory, size)) {}

  // Until one more has come; false if the deadline passed before. Throws as Line::receive does.
  bool wait(Deadline deadline) {
    ended_early_ = false;
    set_deadline(deadline);
    enrol();
    std::string gloo_says;
    try {
      buffer_->waitRecv();
    } catch (const ::gloo::Exception& e) {
      gloo_says = e.what();
    }
    {
      const std::lock_guard lock(owner_.mutex_);
      strike_off();
      if (!ended_early_ && gloo_says.empty()) return true;
    }
    if (!gloo_says.empty()) owner_.explain(peer_, gloo_says);
    owner_.throw_if_ended();
    return false;
  }

 private:
  void end_wait() override {
    if (ended_early_) return;  // one is enough, and a second would be taken for a message
    ended_early_ = true;
    count_arrival(buffer_.get());
  }

  const int peer_;
  std::unique_ptr<::gloo::transport::Buffer> buffer_;
  bool ended_early_ = false;  // by an arrival that is none; protected by owner_.mutex_ while a wait lasts
};

// What goes out to one peer. Gloo's thread writes it, and may come too late.
struct GlooTransport::LineEnd::Outbox {
  class Write;

  explicit Outbox(::gloo::transport::Pair& pair)
      : data(pair.createSendBuffer(data_slot, cells.data(), ring_size)),
        credit(pair.createSendBuffer(credit_slot, &credit_byte, 1)) {}

  Ring cells;
  std::byte credit_byte{0};
  std::unique_ptr<::gloo::transport::Buffer> data;
  std::unique_ptr<::gloo::transport::Buffer> credit;
  std::atomic<bool> refused = false;  // by Gloo, for the reason in refusal
  std::mutex mutex;                   // held while writing
  bool closed = false;                // protected by mutex, as what follows
  std::string refusal;
};

class GlooTransport::LineEnd::Outbox::Write final : public Errands::Errand {
 public:
  // Of a part of the cells; none: a credit.
  struct Part {
    std::size_t begin;
    std::size_t length;
    bool is_first;
  };
  Write(std::shared_ptr<Outbox> box, std::optional<Part> part) : box_(std::move(box)), part_(part) {}

  void run() noexcept override {
    const std::lock_guard lock(box_->mutex);
    if (box_->closed) return;
    try {
      if (part_) {
        box_->data->send(part_->begin, part_->length, part_->begin);
        if (part_->is_first) fit_send_buffers(gloo_preamble + part_->length);
      } else {
        box_->credit->send(0, 1);
      }
    } catch (const std::exception& e) {
      box_->refusal = e.what();
      box_->refused = true;
    }
  }

 private:
  const std::shared_ptr<Outbox> box_;
  const std::optional<Part> part_;
};

// Memory before buffers: Gloo writes into it for as long as there is a buffer and a connection.
struct GlooTransport::LineEnd::Side {
  Side(GlooTransport& owner, int peer)
      : arrivals(owner, peer, data_slot, incoming.data(), ring_size),
        credits(owner, peer, credit_slot, &credit_in, 1),
        outbox(std::make_shared<Outbox>(*owner.context_->getPair(peer))) {}

  Ring incoming;
  std::byte credit_in{0};
  Arrivals arrivals;
  Arrivals credits;
  const std::shared_ptr<Outbox> outbox;
  // Messages so far.
  std::uint64_t sent = 0;
  std::uint64_t may_be_sent = Line::ahead;
  std::uint64_t released = 0;
  bool is_held = false;  // the message after those has come, and was given out
};

GlooTransport::LineEnd::LineEnd(GlooTransport& owner) : owner_(owner) {
  for (int peer = 0; peer < owner.size_; ++peer) {
    sides_.push_back(peer == owner.rank_ ? nullptr : std::make_unique<Side>(owner, peer));
  }
}

// Gloo's thread may be in the middle of a message: first the connections end, then the buffers.
GlooTransport::LineEnd::~LineEnd() {
  owner_.errands_.stop();
  for (const auto& side : sides_) {
    if (!side) continue;
    const std::lock_guard lock(side->outbox->mutex);
    side->outbox->closed = true;
  }
  owner_.context_->closeConnections();
  for (const auto& side : sides_) {
    if (!side) continue;
    side->outbox->data.reset();
    side->outbox->credit.reset();
  }
}

std::byte* GlooTransport::LineEnd::compose(int peer, Deadline deadline) {
  owner_.throw_if_ended();
  Side& side = side_of(peer);
  if (side.outbox->refused) {
    const std::lock_guard lock(side.outbox->mutex);
    owner_.explain(peer, side.outbox->refusal);
  }
  if (side.sent == side.may_be_sent) {
    if (!side.credits.wait(deadline)) return nullptr;
    side.may_be_sent += credit;
  }
  return side.outbox->cells.data() + Ring::offset(side.sent) + message_offset;
}

void GlooTransport::LineEnd::send(int peer, std::size_t length) {
  Side& side = side_of(peer);
  // Gloo has the kernel hold as much as the longest message so far: for all there will be, the first is one.
  const bool is_first = side.sent == 0;
  const std::size_t taken = message_offset - number_offset + (is_first ? longest : length);
  const std::size_t begin = Ring::offset(side.sent) + number_offset;
  const std::uint64_t number = ++side.sent;
  std::memcpy(side.outbox->cells.data() + begin, &number, sizeof number);
  owner_.errands_.add(
      std::make_shared<Outbox::Write>(side.outbox, Outbox::Write::Part{begin, taken, is_first}));
}

const std::byte* GlooTransport::LineEnd::receive(int peer, Deadline deadline) {
  Side& side = side_of(peer);
  std::byte* const cell = side.incoming.data() + Ring::offset(side.released);
  if (side.is_held) return cell + message_offset;
  // Written by Gloo's thread at any time, before what comes behind it.
  auto& number = reinterpret_cast<std::uint64_t&>(cell[number_offset]);
  const auto has_begun = [&] {
    return std::atomic_ref(number).load(std::memory_order_relaxed) == side.released + 1;
  };
  if (deadline == Deadline::min()) {
    if (!has_begun()) return nullptr;
    deadline = deadline_after(rest_limit);
  }
  try {
    side.is_held = side.arrivals.wait(deadline);
  } catch (const DistNetworkError&) {
    if (!owner_.has_left(peer) || !has_begun()) throw;
    side.is_held = true;
  }
  return side.is_held ? cell + message_offset : nullptr;
}

void GlooTransport::LineEnd::release(int peer) noexcept {
  Side& side = side_of(peer);
  side.is_held = false;
  if (++side.released % credit != 0) return;
  owner_.errands_.add(std::make_shared<Outbox::Write>(side.outbox, std::nullopt));
}

}  // namespace dlaunch
