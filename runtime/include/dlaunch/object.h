// Collectives of C++ objects. See codec.h for the types that can be sent. For a few small things: everything
// is copied and checked several times, and the lengths are exchanged first.
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

// Strings of any length, as the objects travel. Root ranks are ranks in the default group, as in
// distributed.h. No group: the default group. Each is two collectives of the group.
DLAUNCH_EXPORT std::vector<std::string> all_gather_bytes(const std::string& own,
                                                         const ProcessGroup& group = {});
DLAUNCH_EXPORT std::vector<std::string> gather_bytes(const std::string& own, int dst,
                                                     const ProcessGroup& group = {});  // elsewhere: empty
DLAUNCH_EXPORT std::string broadcast_bytes(const std::string& own, int src, const ProcessGroup& group = {});
DLAUNCH_EXPORT std::string scatter_bytes(std::span<const std::string> parts, int src,
                                         const ProcessGroup& group = {});

namespace object_detail {
template <class T>
std::vector<T> decode(const std::vector<std::string>& all) {
  std::vector<T> objects;
  objects.reserve(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    try {
      objects.push_back(from_bytes<T>(all[rank]));
    } catch (const DistError& e) {
      throw DistError("the object of rank " + std::to_string(rank) + ": " + e.reason());
    }
  }
  return objects;
}
}  // namespace object_detail

// Every rank's object, by rank.
template <class T>
std::vector<T> all_gather_object(const T& object, const ProcessGroup& group = {}) {
  return object_detail::decode<T>(all_gather_bytes(to_bytes(object), group));
}

// The same at rank `dst`; elsewhere nothing.
template <class T>
std::vector<T> gather_object(const T& object, int dst, const ProcessGroup& group = {}) {
  return object_detail::decode<T>(gather_bytes(to_bytes(object), dst, group));
}

// Every rank's `objects` become those of rank `src`; also their number.
template <class T>
void broadcast_object_list(std::vector<T>& objects, int src, const ProcessGroup& group = {}) {
  objects = from_bytes<std::vector<T>>(broadcast_bytes(to_bytes(objects), src, group));
}

// objects[i] of rank `src` for rank i; the other ranks give none.
template <class T>
T scatter_object_list(const std::vector<T>& objects, int src, const ProcessGroup& group = {}) {
  std::vector<std::string> parts;
  parts.reserve(objects.size());
  for (const T& object : objects) parts.push_back(to_bytes(object));
  return from_bytes<T>(scatter_bytes(parts, src, group));
}

}  // namespace v1
}  // namespace dlaunch
