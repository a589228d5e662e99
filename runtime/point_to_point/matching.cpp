#include "runtime/point_to_point/matching.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dlaunch::internal {

std::optional<ArrivedMessage> Matching::take_message(int from, Tag tag) {
  const auto with_tag = by_tag_.find(tag);
  if (with_tag == by_tag_.end()) return std::nullopt;
  Messages& all = with_tag->second;
  const auto of_source = by_source_.find({tag, from == any_source ? all.front().from : from});
  if (of_source == by_source_.end()) return std::nullopt;
  // The first message with the tag is also the first of its source.
  const Messages::iterator first = of_source->second.front();
  ArrivedMessage message = std::move(*first);
  of_source->second.pop_front();
  if (of_source->second.empty()) by_source_.erase(of_source);
  all.erase(first);
  if (all.empty()) by_tag_.erase(with_tag);
  return message;
}

bool Matching::has_message(int from, Tag tag) const {
  return from == any_source ? by_tag_.contains(tag) : by_source_.contains({tag, from});
}

void Matching::keep(ArrivedMessage message) {
  const Key key{message.envelope.tag, message.from};
  Messages& all = by_tag_[key.tag];
  by_source_[key].push_back(all.insert(all.end(), std::move(message)));
}

void Matching::post(PostedReceive receive) {
  drop_taken();
  const Key key{receive.tag, receive.from};
  const Deadline deadline = receive.deadline;
  std::list<PendingReceive>& queue = receives_[key];
  PendingReceive& waiting = queue.emplace_back(PendingReceive{std::move(receive), ++posted_, {}, {}, {}});
  waiting.place = std::prev(queue.end());
  waiting.expiry = deadlines_.add(deadline, &waiting);
  if (waiting.receive.shared) waiting.shared_place = shared_.insert(shared_.end(), &waiting);
}

void Matching::drop_taken() {
  while (!shared_.empty() && shared_.front()->receive.shared->is_taken()) (void)remove(*shared_.front());
}

std::optional<PostedReceive> Matching::take_receive(int from, Tag tag) {
  while (PendingReceive* const first = first_for(from, tag)) {
    PostedReceive receive = remove(*first);
    if (receive.take()) return receive;
  }
  return std::nullopt;
}

Matching::PendingReceive* Matching::first_for(int from, Tag tag) {
  const auto first_of = [&](int source) -> PendingReceive* {
    const auto found = receives_.find({tag, source});
    return found == receives_.end() ? nullptr : &found->second.front();
  };
  PendingReceive* const named = first_of(from);
  PendingReceive* const open = first_of(any_source);
  return named && (!open || named->number < open->number) ? named : open;
}

PostedReceive Matching::remove(PendingReceive& waiting) {
  PostedReceive receive = std::move(waiting.receive);
  if (receive.shared) shared_.erase(waiting.shared_place);
  deadlines_.remove(waiting.expiry);
  const auto queue = receives_.find({receive.tag, receive.from});
  queue->second.erase(waiting.place);
  if (queue->second.empty()) receives_.erase(queue);
  return receive;
}

std::vector<PostedReceive> Matching::take_expired(Deadline now) {
  std::vector<PostedReceive> expired;
  while (const std::optional<PendingReceive*> waiting = deadlines_.passed(now)) {
    PostedReceive receive = remove(**waiting);
    if (receive.take()) expired.push_back(std::move(receive));
  }
  return expired;
}

std::vector<PostedReceive> Matching::take_receives_from(int from) {
  return take_chosen([from](const Key& key) { return key.from == from; }, &PostedReceive::take);
}

std::vector<PostedReceive> Matching::take_receives_from_nobody() {
  return take_chosen([](const Key& key) { return key.from == any_source; },
                     [](const PostedReceive& receive) {
                       return !receive.shared || (receive.shared->all_have_left() && receive.take());
                     });
}

std::vector<PostedReceive> Matching::take_all_receives() {
  return take_chosen([](const Key& /*key*/) { return true; }, &PostedReceive::take);
}

template <class Chosen, class Takes>
std::vector<PostedReceive> Matching::take_chosen(const Chosen& is_chosen, const Takes& takes) {
  std::vector<PendingReceive*> chosen;
  for (auto& [key, queue] : receives_) {
    if (!is_chosen(key)) continue;
    for (PendingReceive& waiting : queue) chosen.push_back(&waiting);
  }
  std::ranges::sort(chosen, {}, &PendingReceive::number);
  std::vector<PostedReceive> taken;
  taken.reserve(chosen.size());
  for (PendingReceive* const waiting : chosen) {
    PostedReceive receive = remove(*waiting);
    if (std::invoke(takes, receive)) taken.push_back(std::move(receive));
  }
  return taken;
}

}  // namespace dlaunch::internal
