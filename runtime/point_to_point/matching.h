// Which receive gets which message, by MPI's rules.
//
// A receive names a tag and a source, or any source. A message goes to the earliest posted receive that fits;
// a receive gets the earliest arrived message that fits. So messages of one source with one tag do not
// overtake each other. Each call takes constant time, however many messages and receives wait and in whatever
// order they are matched. Only calls that end many receives take time in proportion to these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dlaunch/tensor.h"
#include "dlaunch/work.h"
#include "runtime/base/deadline_queue.h"
#include "runtime/point_to_point/envelope.h"

namespace dlaunch::internal {

// A message, or an offer of one.
struct ArrivedMessage {
  int from;
  Envelope envelope;
  std::vector<std::byte> content = {};  // empty for an offer
  bool on_credit = false;               // a credit is returned when it is taken
};

// A receive from any rank that two messengers have, one for the ranks of this host and one for the others.
// The first that has a message for it takes it; the other one drops it. Any thread.
class SharedReceive {
 public:
  // True once: the caller ends the receive.
  bool take() { return !taken_.exchange(true, std::memory_order_acq_rel); }
  [[nodiscard]] bool is_taken() const { return taken_.load(std::memory_order_acquire); }
  // All ranks of one messenger have left. True for the second one.
  bool all_have_left() { return left_.exchange(true, std::memory_order_acq_rel); }

 private:
  std::atomic<bool> taken_ = false;
  std::atomic<bool> left_ = false;
};

struct PostedReceive {
  Tensor tensor;
  int from;  // any_source: any
  Tag tag;
  Deadline deadline;
  WorkSource source;
  std::shared_ptr<SharedReceive> shared = nullptr;

  // Whether the caller may end it.
  [[nodiscard]] bool take() const { return !shared || shared->take(); }
};

// Uses no lock, clock or network.
class Matching {
 public:
  // For a receive that is posted now. None: call post(), and it waits.
  std::optional<ArrivedMessage> take_message(int from, Tag tag);
  [[nodiscard]] bool has_message(int from, Tag tag) const;
  void post(PostedReceive receive);

  // For a message that arrives now. None: call keep(), and it waits.
  std::optional<PostedReceive> take_receive(int from, Tag tag);
  void keep(ArrivedMessage message);

  // Whether a message has been kept and not taken.
  [[nodiscard]] bool has_messages() const { return !by_tag_.empty(); }
  [[nodiscard]] bool has_receives() const { return !deadlines_.is_empty(); }
  // The earliest deadline of a waiting receive; max() if there is none.
  [[nodiscard]] Deadline next_deadline() const { return deadlines_.next(); }
  // Drops shared receives that the other messenger has taken, up to the first that is not taken.
  void drop_taken();
  // Removes the receives whose deadline has passed, the earliest first.
  std::vector<PostedReceive> take_expired(Deadline now);
  // Removes the receives from this source, which may be any_source, in the order of posting.
  std::vector<PostedReceive> take_receives_from(int from);
  // All ranks have left: removes the receives from any_source, of the shared ones those of which the other
  // messenger's ranks have left, too.
  std::vector<PostedReceive> take_receives_from_nobody();
  std::vector<PostedReceive> take_all_receives();

 private:
  struct Key {
    Tag tag;
    int from;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      constexpr std::uint64_t spread = 0x9e3779b97f4a7c15U;
      return static_cast<std::size_t>((key.tag * spread) ^ static_cast<std::uint64_t>(key.from));
    }
  };

  using Messages = std::list<ArrivedMessage>;
  struct PendingReceive {
    PostedReceive receive;
    std::uint64_t number;  // in the order of posting
    std::list<PendingReceive>::iterator place;
    std::list<PendingReceive*>::iterator shared_place;  // if it is shared
    DeadlineQueue<PendingReceive*>::Entry expiry;
  };
  using Receives = std::unordered_map<Key, std::list<PendingReceive>, Hash>;

  PostedReceive remove(PendingReceive& waiting);
  [[nodiscard]] PendingReceive* first_for(int from, Tag tag);
  template <class Chosen, class Takes>
  std::vector<PostedReceive> take_chosen(const Chosen& is_chosen, const Takes& takes);

  // In the order of arrival: all messages with one tag, and those of each source.
  std::unordered_map<Tag, Messages> by_tag_;
  std::unordered_map<Key, std::list<Messages::iterator>, Hash> by_source_;

  Receives receives_;                  // each list in the order of posting
  std::list<PendingReceive*> shared_;  // in the order of posting
  std::uint64_t posted_ = 0;
  DeadlineQueue<PendingReceive*> deadlines_;
};

}  // namespace dlaunch::internal
