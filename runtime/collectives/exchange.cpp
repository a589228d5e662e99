#include "runtime/collectives/exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "runtime/deadline.h"

namespace dlaunch {

// As it travels; the first 64 bytes of a message in the line.
struct Exchange::Header {
  static constexpr std::uint32_t expected_magic = 0x33584c44;  // "DLX3"; changes with the protocol

  std::uint32_t magic;
  std::uint8_t kind;
  std::uint8_t dtype;
  std::uint8_t op;
  std::uint8_t unused;
  std::int32_t root;
  std::uint32_t unused2;
  std::uint64_t count;
  std::uint64_t layout;
  std::uint64_t length;    // of the message, which comes behind the header or, if it is long, by itself
  std::uint64_t sequence;  // the call's number
  std::uint64_t unused3[2];
};

namespace {

// Slots of long messages, below the 2^63 that belong to the caller of a transport. Bit 61 belongs to
// point-to-point messages.
constexpr std::uint64_t long_flag = std::uint64_t{1} << 62;
constexpr int length_bits = 40;

// Within which a long message is expected, before its header is looked for.
constexpr auto patience = std::chrono::milliseconds(20);

// Number (22 bits) and length (40 bits, a tebibyte). That numbers repeat after four million calls does no
// harm: ranks are never that far apart.
std::uint64_t long_slot(std::uint64_t sequence, std::size_t length) {
  constexpr std::uint64_t sequence_mask = (long_flag >> length_bits) - 1;
  return long_flag | ((sequence & sequence_mask) << length_bits) | length;
}

}  // namespace

Exchange::Exchange(Transport& transport, Workspace& workspace, const Call& call, std::uint64_t sequence,
                   Deadline deadline)
    : transport_(transport),
      line_(transport.line()),
      workspace_(workspace),
      call_(call),
      sequence_(sequence),
      deadline_(deadline),
      rank_(transport.rank()),
      size_(transport.size()),
      met_(static_cast<std::size_t>(transport.size())) {}

// The header and, if `whole`, the message behind it, which has a second part where it does not fit.
void Exchange::send_in_line(int peer, std::span<const std::byte> message, bool whole) {
  static_assert(sizeof(Header) == header_size && std::is_trivially_copyable_v<Header>);
  Header header{};
  header.magic = Header::expected_magic;
  header.kind = static_cast<std::uint8_t>(call_.kind);
  header.dtype = static_cast<std::uint8_t>(call_.dtype);
  header.op = static_cast<std::uint8_t>(call_.op);
  header.root = call_.root;
  header.count = call_.count;
  header.layout = call_.layout;
  header.length = message.size();
  header.sequence = sequence_;
  const std::span<const std::byte> first = message.first(whole ? std::min(message.size(), eager_limit) : 0);
  std::byte* const draft = line_.compose(peer, deadline_);
  std::memcpy(draft, &header, sizeof header);
  if (!first.empty()) std::memcpy(draft + header_size, first.data(), first.size());
  line_.send(peer, header_size + first.size());
  if (!whole || first.size() == message.size()) return;
  const std::span<const std::byte> second = message.subspan(first.size());
  std::memcpy(line_.compose(peer, deadline_), second.data(), second.size());
  line_.send(peer, second.size());
}

Exchange::Send Exchange::send(int peer, std::span<const std::byte> bytes) {
  Send message;
  message.deadline_ = deadline_;
  std::uint8_t& met = met_[static_cast<std::size_t>(peer)];
  const bool is_short = bytes.size() <= line_limit;
  if (is_short || (met & sent_to) == 0) send_in_line(peer, bytes, is_short);
  if (!is_short) {
    if (bytes.size() >> length_bits != 0) throw DistError("messages of a tebibyte and more cannot be sent");
    message.long_ = transport_.post_send(peer, long_slot(sequence_, bytes.size()), bytes);
  }
  met |= sent_to;
  return message;
}

Exchange::Receive Exchange::receive(int peer, std::span<std::byte> memory) {
  Receive message;
  message.exchange_ = this;
  message.peer_ = peer;
  message.memory_ = memory;
  std::uint8_t& met = met_[static_cast<std::size_t>(peer)];
  const bool is_short = memory.size() <= line_limit;
  message.in_line_ = is_short || (met & heard_from) == 0;
  if (!is_short) message.long_ = transport_.post_recv(peer, long_slot(sequence_, memory.size()), memory);
  met |= heard_from;
  return message;
}

void Exchange::check(int peer, const std::byte* bytes, std::size_t expected_length) const {
  Header header;
  std::memcpy(&header, bytes, sizeof header);
  if (header.magic != Header::expected_magic) {
    throw DistNetworkError("it runs another version of libdlaunch", {.peer = peer});
  }
  Call theirs;
  theirs.kind = static_cast<CallKind>(header.kind);
  theirs.dtype = static_cast<DType>(header.dtype);
  theirs.op = static_cast<ReduceOp>(header.op);
  theirs.root = header.root;
  theirs.count = header.count;
  theirs.layout = header.layout;
  if (theirs != call_) {
    const bool same_text = to_string(theirs) == to_string(call_);
    throw DistNetworkError("the ranks call different operations: rank " + std::to_string(peer) + " calls " +
                               to_string(theirs) + ", this rank " + to_string(call_) +
                               (same_text ? " with other sizes of the single outputs" : ""),
                           {.peer = peer});
  }
  if (header.sequence != sequence_) {
    throw DistNetworkError("the ranks are not at the same call: " + to_string(call_) + " is number " +
                               std::to_string(header.sequence) + " of rank " + std::to_string(peer) +
                               " and number " + std::to_string(sequence_) + " of this rank",
                           {.peer = peer});
  }
  // In an all_to_all the sizes are a matter of two ranks; in all other calls they follow from the call.
  if (header.length != expected_length) {
    const std::size_t element = size_of(call_.dtype);
    throw DistNetworkError("in " + to_string(call_) + " rank " + std::to_string(peer) + " sends " +
                               std::to_string(header.length / element) +
                               " elements to this rank, which expects " +
                               std::to_string(expected_length / element),
                           {.peer = peer});
  }
}

void Exchange::Send::wait() {
  if (long_) long_->wait(deadline_);
}

// Takes the header from the line, and what comes behind it there.
void Exchange::Receive::meet() {
  Line& line = exchange_->line_;
  held_ = {line.receive(peer_, exchange_->deadline_), {&line, peer_}};
  exchange_->check(peer_, held_.get(), memory_.size());
}

// Brings both parts into the memory.
void Exchange::Receive::take_second_part() {
  std::memcpy(memory_.data(), held_.get() + header_size, eager_limit);
  held_.reset();
  const std::span<std::byte> second = memory_.subspan(eager_limit);
  Line& line = exchange_->line_;
  held_ = {line.receive(peer_, exchange_->deadline_), {&line, peer_}};
  std::memcpy(second.data(), held_.get(), second.size());
  held_.reset();
}

std::span<const std::byte> Exchange::Receive::wait() {
  if (!long_) {
    meet();
    if (memory_.size() > eager_limit) {
      take_second_part();
      return memory_;
    }
    return {held_.get() + header_size, memory_.size()};
  }
  const Deadline deadline = exchange_->deadline_;
  bool is_here = false;
  if (in_line_) {
    is_here = long_->wait_until(std::min(deadline, deadline_after(patience)));
    meet();
    held_.reset();
  }
  if (!is_here) long_->wait(deadline);
  return memory_;
}

void Exchange::Receive::wait_in_place() {
  const std::span<const std::byte> bytes = wait();
  if (bytes.data() != memory_.data() && !bytes.empty())
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
  held_.reset();
}

}  // namespace dlaunch
