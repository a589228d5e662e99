#include "runtime/rendezvous/losses.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "runtime/rendezvous/local_address.h"

namespace dlaunch {

namespace {

std::string address_of(const SignOfLife& sign) { return sign.door.substr(0, sign.door.find(' ')); }

}  // namespace

bool is_gone(const SignOfLife& other, const SignOfLife& own) {
  const std::string there = address_of(other);
  const std::string here = address_of(own);
  // This rank would look at its own machine: which has the same address, or a loopback interface, too.
  if (there == here && other.host != own.host) return false;
  if (is_loopback(there) && !is_loopback(here)) return false;
  return Door::is_closed(other.door);
}

std::vector<int> looked_for_by(int rank, int size) {
  constexpr int all_of = 8;
  std::vector<int> result;
  for (int distance = 1; distance < size; distance = size <= all_of ? distance + 1 : 2 * distance) {
    result.push_back((rank + distance) % size);
  }
  return result;
}

std::unique_ptr<Door> open_door(const std::string& master_host) {
  const NamedInterfaces named = named_interfaces();
  Result<Addresses> towards = !master_host.empty() ? addresses_towards(master_host) : first_outer_addresses();
  if (!named.names.empty()) {
    towards = addresses_of_interface(named.names.front(), towards ? *towards : Addresses());
  }
  return Door::open(towards ? towards->front() : "127.0.0.1");
}

namespace {

// What is told is the first loss that anybody has found: name, host and reason, a line each.
const std::string lost = "lost";

}  // namespace

void Losses::check() {
  if (given_.door) given_.door->dismiss();
  if (const std::optional<Loss> loss = told()) throw_loss(*loss);
  try {
    if (given_.more) given_.more();
  } catch (const DistNetworkError& e) {
    throw_loss(tell({e.context().peer, e.context().host, e.reason()}));
  }
  for (const int place : looked_for_by(given_.self, static_cast<int>(given_.members.size()))) {
    const Member& other = member(place);
    if (!is_gone(other.sign, self().sign)) continue;
    throw_loss(tell({other.name, other.sign.host, "its process ended while the ranks were connecting"}));
  }
}

void Losses::tell(const std::exception_ptr& error) noexcept {
  try {
    const int peer = peer_of(error);
    const bool blames =
        peer >= 0 && static_cast<std::size_t>(peer) < given_.members.size() && peer != given_.self;
    const Member& blamed = blames ? member(peer) : self();
    tell({blamed.name, blamed.sign.host, (blames ? "" : "it gave up: ") + reason_of(error)});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then they find out by themselves
  }
}

// What all are told: of this loss, or of one that somebody has told before.
Losses::Loss Losses::tell(const Loss& loss) const {
  try {
    const std::string text = std::to_string(loss.name) + "\n" + loss.host + "\n" + loss.reason;
    if (given_.keys->compare_set(lost, "", text) != text) return told().value_or(loss);
  } catch (const StoreError& e) {
    return loss_of_server(e).value_or(loss);
  }
  return loss;
}

std::optional<Losses::Loss> Losses::told() const {
  std::string text;
  try {
    if (!given_.keys->check({&lost, 1})) return std::nullopt;
    text = given_.keys->get(lost);
  } catch (const StoreError& e) {
    return loss_of_server(e);
  }
  const std::size_t name_end = std::min(text.find('\n'), text.size());
  const std::size_t host_begin = std::min(name_end + 1, text.size());
  const std::size_t host_end = std::min(text.find('\n', host_begin), text.size());
  return Loss{std::atoi(text.c_str()), text.substr(host_begin, host_end - host_begin),
              text.substr(std::min(host_end + 1, text.size()))};
}

// Without the store nobody can be told: those who have found this too may be gone when this rank looks for
// them, but not because of them.
std::optional<Losses::Loss> Losses::loss_of_server(const StoreError& error) const {
  if (!given_.server || *given_.server == given_.self) return std::nullopt;
  const Member& server = member(*given_.server);
  if (!is_gone(server.sign, self().sign)) return std::nullopt;
  return Loss{server.name, server.sign.host, lost_with_the_store + error.what()};
}

void Losses::throw_loss(const Loss& loss) const {
  if (loss.name == self().name) {
    throw DistNetworkError("the others have given up on this rank: " + loss.reason);
  }
  throw DistNetworkError(loss.reason, {.peer = loss.name, .host = loss.host});
}

}  // namespace dlaunch
