// Collectives and messages of C++ objects. See codec.h for the types that can be sent. Meant for a few small
// objects: all data are copied and checked several times, and the lengths are exchanged first.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/codec.h"
#include "dlaunch/distributed.h"
#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// Strings of any length; objects are sent as such. Root ranks are ranks in the default group, as in
// distributed.h. No group: the default group. Each call is two collectives of the group. If this process is
// not a member, the calls here and below do nothing: lists stay as they are, the result is empty.
DLAUNCH_EXPORT std::vector<std::string> all_gather_bytes(const std::string& own,
                                                         const ProcessGroup& group = {});
DLAUNCH_EXPORT std::vector<std::string> gather_bytes(const std::string& own, int dst,
                                                     const ProcessGroup& group = {});  // elsewhere: empty
DLAUNCH_EXPORT std::string broadcast_bytes(const std::string& own, int src, const ProcessGroup& group = {});
// `parts`: used on rank `src` only, one for each rank.
DLAUNCH_EXPORT std::string scatter_bytes(std::span<const std::string> parts, int src,
                                         const ProcessGroup& group = {});

// A message of any length, as two messages of the group: only one thread of a rank may send or receive at a
// time. They never match those of send and recv, whatever their tags. `src` may be any_source; recv_bytes
// stores the sender in `source` unless that is null.
DLAUNCH_EXPORT void send_bytes(const std::string& own, int dst, const ProcessGroup& group = {});
DLAUNCH_EXPORT std::string recv_bytes(int src, const ProcessGroup& group = {}, int* source = nullptr);

namespace object_detail {
// The object of `peer`, a rank in the group, received by `operation`. Errors name the operation and the
// peer.
template <class T>
T decode(const std::string& bytes, const char* operation, const ProcessGroup& group, int peer) {
  try {
    return from_bytes<T>(bytes);
  } catch (const DistError& e) {
    throw DistError(e.reason(),
                    {.rank = group.rank(), .operation = operation, .group = group.name(), .peer = peer});
  }
}

// The same of all ranks.
template <class T>
std::vector<T> decode_all(const std::vector<std::string>& all, const char* operation,
                          const ProcessGroup& group) {
  std::vector<T> objects;
  objects.reserve(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    objects.push_back(decode<T>(all[rank], operation, group, static_cast<int>(rank)));
  }
  return objects;
}

inline ProcessGroup or_default(const ProcessGroup& group) { return group ? group : default_group(); }
}  // namespace object_detail

// Every rank's object, by rank.
template <class T>
std::vector<T> all_gather_object(const T& object, const ProcessGroup& group = {}) {
  return object_detail::decode_all<T>(all_gather_bytes(to_bytes(object), group), "all_gather_object",
                                      object_detail::or_default(group));
}

// The same at rank `dst`; empty on other ranks.
template <class T>
std::vector<T> gather_object(const T& object, int dst, const ProcessGroup& group = {}) {
  return object_detail::decode_all<T>(gather_bytes(to_bytes(object), dst, group), "gather_object",
                                      object_detail::or_default(group));
}

// Every rank's `objects` become those of rank `src`; also their number.
template <class T>
void broadcast_object_list(std::vector<T>& objects, int src, const ProcessGroup& group = {}) {
  const ProcessGroup in = object_detail::or_default(group);
  const std::string bytes = broadcast_bytes(to_bytes(objects), src, in);
  if (in.rank() < 0) return;
  objects =
      object_detail::decode<std::vector<T>>(bytes, "broadcast_object_list", in, get_group_rank(in, src));
}

// objects[i] of rank `src` for rank i; the lists of the other ranks are ignored. A process that is not
// a member gets T().
template <class T>
T scatter_object_list(const std::vector<T>& objects, int src, const ProcessGroup& group = {}) {
  const ProcessGroup in = object_detail::or_default(group);
  std::vector<std::string> parts;
  if (get_rank() == src) {
    parts.reserve(objects.size());
    for (const T& object : objects) parts.push_back(to_bytes(object));
  }
  const std::string bytes = scatter_bytes(parts, src, in);
  if (in.rank() < 0) return T();
  return object_detail::decode<T>(bytes, "scatter_object_list", in, get_group_rank(in, src));
}

// Sends all objects in one message; the receiver uses the same type.
template <class T>
void send_object_list(const std::vector<T>& objects, int dst, const ProcessGroup& group = {}) {
  send_bytes(to_bytes(objects), dst, group);
}

// `objects` become the received ones, also their number. Returns the sender's rank in the default group; -1
// if this process is not a member.
template <class T>
int recv_object_list(std::vector<T>& objects, int src = any_source, const ProcessGroup& group = {}) {
  int source = -1;
  const ProcessGroup in = object_detail::or_default(group);
  const std::string bytes = recv_bytes(src, in, &source);
  if (in.rank() < 0) return source;
  objects = object_detail::decode<std::vector<T>>(bytes, "recv_object_list", in, get_group_rank(in, source));
  return source;
}

}  // namespace v1
}  // namespace dlaunch
