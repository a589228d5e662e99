#include "store/server/session.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace dlaunch::store {
namespace {

constexpr std::array greeting = {std::byte{0x00}, std::byte{0xCE}, std::byte{0xF7}, std::byte{0x85},
                                 std::byte{0x3C}};
constexpr std::size_t kept_capacity = 4096;  // memory that an idle connection may keep

}  // namespace

void Session::feed(ByteSpan bytes) {
  if (buffer_.empty()) {
    unread_ = bytes;
    return;
  }
  make_room(bytes.size());
  buffer_.append(as_text(bytes));
  unread_ = as_byte_span(buffer_);
}

// Grows the buffer by doubling, but not beyond the request's end: announced bytes cost nothing before they
// come, and a large request costs no more than its size.
void Session::make_room(std::size_t more) {
  const std::size_t least = buffer_.size() + more;
  if (least <= buffer_.capacity()) return;
  std::string larger;
  larger.reserve(std::max(least, std::min(needed_, 2 * buffer_.capacity())));
  larger.append(buffer_);
  buffer_.swap(larger);
}

void Session::keep_rest() {
  if (unread_.empty()) {
    buffer_.clear();
    if (buffer_.capacity() > kept_capacity) std::string().swap(buffer_);
  } else if (buffer_.empty()) {
    buffer_.assign(as_text(unread_));
  } else {
    buffer_.erase(0, buffer_.size() - unread_.size());
  }
  unread_ = as_byte_span(buffer_);
}

Session::Next Session::next(Request& request) {
  if (!why_.empty()) return Next::bad;
  if (!dialect_ && !greet()) return Next::more;
  if (unread_.size() < needed_) return Next::more;

  const Decoded decoded = decode(*dialect_, unread_, limits_, request);
  switch (decoded.status) {
    case Decoded::Status::more:
      needed_ = decoded.size;
      return Next::more;
    case Decoded::Status::silence_decides:
      return Next::silence_decides;
    case Decoded::Status::bad:
      why_ = decoded.why;
      return Next::bad;
    case Decoded::Status::whole:
      break;
  }
  if (request.kind == RequestKind::validate) {
    why_ = "VALIDATE after the first request";
    return Next::bad;
  }
  dialect_ = decoded.dialect;
  unread_ = unread_.subspan(decoded.size);
  needed_ = 1;
  return Next::request;
}

// Decides the dialect; false: not known yet. `00` begins 2.2's greeting and the older dialects' SET. As a
// SET, the rest of the greeting would be the length of a key of a gigabyte.
bool Session::greet() {
  if (unread_.empty()) return false;
  if (unread_[0] == greeting[0]) {
    if (unread_.size() < greeting.size()) return false;
    if (std::memcmp(unread_.data(), greeting.data(), greeting.size()) == 0) {
      dialect_ = Dialect::v2_2;
      unread_ = unread_.subspan(greeting.size());
      return true;
    }
  }
  switch (old_clients_) {
    case OldClients::guess:
      dialect_ = Dialect::before_2_2;
      break;
    case OldClients::v1_13:
      dialect_ = Dialect::v1_13;
      break;
    case OldClients::v2_1:
      dialect_ = Dialect::v2_1;
      break;
  }
  return true;
}

void Session::silence() {
  if (dialect_ == Dialect::before_2_2) dialect_ = Dialect::v1_13;
}

}  // namespace dlaunch::store
