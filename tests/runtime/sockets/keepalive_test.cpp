// When a host counts as vanished.

#include "runtime/sockets/keepalive.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using dlaunch::internal::KeepaliveMonitor;

constexpr int enough_looks = KeepaliveMonitor::limit / KeepaliveMonitor::check_interval;

tcp_info answered_before(std::chrono::milliseconds time) {
  tcp_info info{};
  info.tcpi_last_ack_recv = static_cast<std::uint32_t>(time.count());
  return info;
}

bool is_silent_after(int looks, const tcp_info& info) {
  KeepaliveMonitor monitor;
  for (int i = 1; i < looks; ++i) monitor.check(info);
  return monitor.check(info);
}

TEST(KeepaliveMonitor, IsThatOfAHostThatAcknowledgesNothing) {
  tcp_info info = answered_before(KeepaliveMonitor::limit);
  info.tcpi_unacked = 1;
  info.tcpi_retransmits = 5;
  EXPECT_FALSE(is_silent_after(enough_looks - 1, info));
  EXPECT_TRUE(is_silent_after(enough_looks, info));
}

TEST(KeepaliveMonitor, DetectsAHostThatAnswersNoWindowProbe) {
  tcp_info info = answered_before(KeepaliveMonitor::limit);
  info.tcpi_probes = 3;
  EXPECT_TRUE(is_silent_after(enough_looks, info));
}

// A stopped program's kernel answers each probe, and probes may be minutes apart.
TEST(KeepaliveMonitor, IsNotThatOfAProgramWithoutRoom) {
  tcp_info info = answered_before(std::chrono::minutes(2));
  info.tcpi_probes = 1;
  EXPECT_FALSE(is_silent_after(100 * enough_looks, info));
}

TEST(KeepaliveMonitor, IgnoresAHostThatWasNotProbed) {
  EXPECT_FALSE(is_silent_after(100 * enough_looks, answered_before(std::chrono::hours(1))));
  tcp_info just_sent = answered_before(std::chrono::hours(1));
  just_sent.tcpi_unacked = 1;
  EXPECT_FALSE(is_silent_after(100 * enough_looks, just_sent));
}

TEST(KeepaliveMonitor, EndsWithAnAnswer) {
  tcp_info info = answered_before(KeepaliveMonitor::limit);
  info.tcpi_unacked = 1;
  info.tcpi_retransmits = 5;
  KeepaliveMonitor monitor;
  for (int i = 1; i < enough_looks; ++i) EXPECT_FALSE(monitor.check(info));
  EXPECT_FALSE(monitor.check(answered_before(std::chrono::seconds(0))));
  EXPECT_FALSE(monitor.check(info));
}

}  // namespace
