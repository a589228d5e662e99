#include "runtime/rendezvous/failure_detector.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "runtime/rendezvous/local_address.h"

namespace dlaunch::internal {

namespace {

std::string address_of(const PeerInfo& info) {
  return info.liveness_address.substr(0, info.liveness_address.find(' '));
}

}  // namespace

bool is_gone(const PeerInfo& other, const PeerInfo& own) {
  const std::string there = address_of(other);
  const std::string here = address_of(own);
  // The address would lead to this machine, which has the same address, or a loopback interface, too.
  if (there == here && other.host != own.host) return false;
  if (is_loopback(there) && !is_loopback(here)) return false;
  return LivenessSocket::is_closed(other.liveness_address);
}

std::vector<int> monitored_by(int rank, int size) {
  constexpr int all_of = 8;
  std::vector<int> result;
  for (int distance = 1; distance < size; distance = size <= all_of ? distance + 1 : 2 * distance) {
    result.push_back((rank + distance) % size);
  }
  return result;
}

std::unique_ptr<LivenessSocket> open_liveness_socket(const std::string& master_host) {
  return LivenessSocket::open(probable_address(master_host));
}

namespace {

// The key of the first loss that any rank has found: name, host and reason, a line each.
const std::string loss_key = "lost";

}  // namespace

void FailureDetector::check() {
  if (options_.liveness_socket) options_.liveness_socket->accept_and_close();
  if (const std::optional<Loss> loss = published()) throw_loss(*loss);
  try {
    if (options_.extra_check) options_.extra_check();
  } catch (const DistNetworkError& e) {
    throw_loss(publish({e.context().peer, e.context().host, e.reason()}));
  }
  if (options_.self < 0) return;
  for (const int index : monitored_by(options_.self, static_cast<int>(options_.members.size()))) {
    const Member& other = member(index);
    if (!is_gone(other.info, self().info)) continue;
    throw_loss(publish({other.name, other.info.host, "its process ended while the ranks were connecting"}));
  }
}

void FailureDetector::report(const std::exception_ptr& error) noexcept {
  try {
    const int peer = peer_of(error);
    const bool blames = options_.self >= 0 && peer >= 0 && peer != options_.self &&
                        static_cast<std::size_t>(peer) < options_.members.size();
    const Member& blamed = blames ? member(peer) : self();
    publish({blamed.name, blamed.info.host, (blames ? "" : "it gave up: ") + reason_of(error)});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the others detect it themselves
  }
}

// Returns the published loss: this one, or an earlier one of another rank.
FailureDetector::Loss FailureDetector::publish(const Loss& loss) const {
  try {
    const std::string text = std::to_string(loss.name) + "\n" + loss.host + "\n" + loss.reason;
    if (options_.keys->compare_set(loss_key, "", text) != text) return published().value_or(loss);
  } catch (const StoreError& e) {
    return loss_of_server(e).value_or(loss);
  }
  return loss;
}

std::optional<FailureDetector::Loss> FailureDetector::published() const {
  std::string text;
  try {
    if (!options_.keys->check({&loss_key, 1})) return std::nullopt;
    text = options_.keys->get(loss_key);
  } catch (const StoreError& e) {
    return loss_of_server(e);
  }
  const std::size_t name_end = std::min(text.find('\n'), text.size());
  const std::size_t host_begin = std::min(name_end + 1, text.size());
  const std::size_t host_end = std::min(text.find('\n', host_begin), text.size());
  return Loss{std::atoi(text.c_str()), text.substr(host_begin, host_end - host_begin),
              text.substr(std::min(host_end + 1, text.size()))};
}

// Without the store nothing can be published. Other ranks that have detected the same may have ended since,
// but they are not the cause.
std::optional<FailureDetector::Loss> FailureDetector::loss_of_server(const StoreError& error) const {
  if (!options_.server || *options_.server == options_.self) return std::nullopt;
  const Member& server = member(*options_.server);
  if (!is_gone(server.info, self().info)) return std::nullopt;
  return Loss{server.name, server.info.host, lost_with_the_store + error.what()};
}

void FailureDetector::throw_loss(const Loss& loss) const {
  if (loss.name == self().name) {
    throw DistNetworkError("the others have given up on this rank: " + loss.reason);
  }
  throw DistNetworkError(loss.reason, {.peer = loss.name, .host = loss.host});
}

}  // namespace dlaunch::internal
