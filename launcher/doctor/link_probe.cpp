#include "launcher/doctor/link_probe.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/doctor/probe_session.h"
#include "launcher/doctor/probe_socket.h"
#include "store/base/bytes.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration connect_limit = seconds(3);
constexpr Duration answer_limit = seconds(3);
constexpr Duration small_packet_limit = seconds(1);
constexpr Duration speed_limit = seconds(5);
constexpr Duration speed_time = milliseconds(300);
constexpr int pings = 21;
constexpr std::uint64_t large = 64ULL << 10U;  // fills many packets, of any size
constexpr std::uint64_t first_amount = 256ULL << 10U;
constexpr std::uint64_t most_amount = 256ULL << 20U;
// Sizes of IP packets that networks carry: jumbo frames, Ethernet in tunnels, the least of IPv6.
constexpr std::array passing_sizes{8000, 1500, 1450, 1400, 1280, 1000, 576};

// Sends a request with so many bytes. Returns the other host's clock.
Result<std::int64_t> request(ProbeSocket& socket, std::uint64_t size, TimePoint deadline) {
  static const std::string block(256ULL << 10U, '\0');
  if (auto sent = socket.send(request_head(size), deadline); !sent) return std::move(sent).error();
  for (std::uint64_t left = size; left > 0;) {
    const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(left, block.size()));
    if (auto sent = socket.send(std::string_view(block).substr(0, now), deadline); !sent)
      return std::move(sent).error();
    left -= now;
  }
  std::array<char, ProbeSession::answer_size> answer{};
  if (auto got = socket.receive(answer.data(), answer.size(), deadline); !got) return std::move(got).error();
  return ByteReader(as_byte_span({answer.data(), answer.size()})).i64();
}

Result<void> open(ProbeSocket& socket, const ProbeTarget& target, Duration limit, int packet) {
  const TimePoint deadline = steady_now() + limit;
  auto connected =
      socket.connect({target.host, static_cast<std::uint16_t>(target.data_port)}, deadline, packet);
  return connected ? socket.send(target.key, deadline) : std::move(connected);
}

std::string words(const Error& error, Duration limit) {
  return error.kind == ErrorKind::timeout ? "no answer for " + to_words(limit) : error.why;
}

PortTry result_of(const Result<void>& tried) {
  if (tried) return {PortTry::State::open, ""};
  return {PortTry::State::failed, words(tried.error(), connect_limit)};
}

// The latency, and the other host's clock: from the fastest of some exchanges, since it can be wrong by at
// most half of what that took.
Result<void> exchange_times(ProbeSocket& socket, LinkMeasurement& found) {
  const TimePoint deadline = steady_now() + answer_limit;
  std::vector<std::int64_t> times;
  for (int i = 0; i < pings; ++i) {
    const TimePoint began = steady_now();  // first: what passes between the two looks counts as error
    const std::int64_t clock = wall_clock_ns();
    auto there = request(socket, 0, deadline);
    if (!there) return std::move(there).error();
    const std::int64_t took = (steady_now() - began).count();
    if (times.empty() || took < *std::min_element(times.begin(), times.end())) {
      found.clock_ahead_ns = *there - (clock + took / 2);
      found.clock_error_ns = took / 2;
    }
    times.push_back(took);
  }
  std::nth_element(times.begin(), times.begin() + pings / 2, times.end());
  found.latency_ns = times[pings / 2];
  return {};
}

// After large packets were lost: which size arrives?
int largest_passing(const ProbeTarget& target, int mtu) {
  for (const int size : passing_sizes) {
    if (size >= mtu) continue;
    ProbeSocket socket;
    if (!open(socket, target, small_packet_limit, size)) continue;
    if (request(socket, large, steady_now() + small_packet_limit)) return size;
  }
  return 0;
}

Result<void> measure_speed(ProbeSocket& socket, LinkMeasurement& found) {
  std::uint64_t amount = first_amount;
  // The first request opens the window of the connection, and shows how much is sent in the time.
  for (int turn = 0; turn < 2; ++turn) {
    const TimePoint began = steady_now();
    auto there = request(socket, amount, began + speed_limit);
    if (!there) return std::move(there).error();
    const double took = std::max(to_seconds(steady_now() - began), 1e-9);
    found.bytes_per_second = static_cast<double>(amount) / took;
    const double next = found.bytes_per_second * to_seconds(speed_time);
    amount = static_cast<std::uint64_t>(
        std::clamp(next, static_cast<double>(first_amount), static_cast<double>(most_amount)));
  }
  return {};
}

}  // namespace

LinkMeasurement measure_link(const ProbeTarget& target) {
  LinkMeasurement found;
  if (target.job_port != 0) {
    ProbeSocket socket;
    const Address address{target.host, static_cast<std::uint16_t>(target.job_port)};
    found.job_port = result_of(socket.connect(address, steady_now() + connect_limit));
  }
  ProbeSocket socket;
  found.data_port = result_of(open(socket, target, connect_limit, 0));
  if (found.data_port.state != PortTry::State::open) return found;
  found.mtu = socket.mtu();
  if (auto done = exchange_times(socket, found); !done) {
    found.broke_off = words(done.error(), answer_limit);
    return found;
  }
  auto arrived = request(socket, large, steady_now() + answer_limit);
  if (!arrived && arrived.error().kind != ErrorKind::timeout) {
    found.broke_off = arrived.error().why;
    return found;
  }
  found.large_packets_pass = arrived.ok();
  if (!arrived) {
    found.passing = largest_passing(target, found.mtu);
    return found;
  }
  found.mtu = socket.mtu();  // smaller now if a router has reported what it carries
  if (auto done = measure_speed(socket, found); !done) found.broke_off = words(done.error(), speed_limit);
  found.retransmissions = socket.retransmissions();
  return found;
}

}  // namespace dlaunch::launcher
