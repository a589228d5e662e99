#include "launcher/doctor/link_verdict.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

LinkMeasurement healthy() {
  LinkMeasurement found;
  found.job_port = found.data_port = {PortTry::State::open, ""};
  found.mtu = 1500;
  found.large_packets_pass = true;
  found.latency_ns = 50'000;
  found.bytes_per_second = 1.25e9;
  return found;
}

// Two healthy hosts.
PeerReport pair() {
  const HostFacts facts{"0.2.0", 12, "k", 29500, "", 40001};
  PeerReport report;
  report.hosts = {{"a", facts, ""}, {"b", facts, ""}};
  report.links = {{0, 1, healthy(), ""}, {1, 0, healthy(), ""}};
  return report;
}

LinkMeasurement& forth(PeerReport& report) { return *report.links[0].found; }
LinkMeasurement& back(PeerReport& report) { return *report.links[1].found; }

LinkMeasurement unreached() {
  LinkMeasurement found;
  found.job_port = found.data_port = {PortTry::State::failed, "no answer for 3 s"};
  return found;
}

// "BAD text: to do", one a line, without those that are ok.
std::string wrong(const PeerReport& report) {
  Findings found = judge(report);
  std::erase_if(found, [](const Finding& one) { return one.grade == Grade::ok; });
  return describe(found);
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
auto lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(LinkVerdict, HealthyHosts) {
  EXPECT_EQ(describe(judge(pair())), "ok    a, b reach each other in both directions\n");
  EXPECT_EQ(describe(judge(PeerReport{})), "");
}

TEST(LinkVerdict, AHostThatDidNotStart) {
  PeerReport report = pair();
  report.hosts.push_back({"c", std::nullopt, "its ssh server refused the key"});
  EXPECT_EQ(wrong(report).find("BAD   dlaunch cannot be started on c: its ssh server refused the key"), 0U);
  EXPECT_FALSE(has(describe(judge(report)), "ok  "));
}

TEST(LinkVerdict, DifferentVersions) {
  PeerReport report = pair();
  report.hosts[1].facts->protocol = 11;
  EXPECT_EQ(wrong(report),
            "BAD   the hosts have different versions of dlaunch: 0.2.0 (agents' protocol 11) on b; 0.2.0 "
            "(agents' protocol 12) on a: install one version on all of them\n");
}

TEST(LinkVerdict, OneDirectionIsClosed) {
  PeerReport report = pair();
  back(report) = unreached();
  EXPECT_EQ(wrong(report).find("BAD   b cannot connect to a (no answer for 3 s), but a can connect to b: a "
                               "firewall on one of them"),
            0U);
  EXPECT_EQ(lines_in(wrong(report)), 1);
}

TEST(LinkVerdict, BothDirectionsAreClosedAndThatIsReportedOnce) {
  PeerReport report = pair();
  forth(report) = back(report) = unreached();
  EXPECT_EQ(wrong(report),
            "BAD   a and b cannot connect to each other: no answer for 3 s: check addresses, routes and "
            "firewalls between them\n");
}

TEST(LinkVerdict, OneOfThePortsIsClosed) {
  PeerReport report = pair();
  forth(report).job_port = {PortTry::State::failed, "connection refused"};
  EXPECT_EQ(
      wrong(report),
      "BAD   a does not reach the usual port of jobs, 29500, on b: connection refused: allow that port, or "
      "choose another --master-port\n");
  report = pair();
  forth(report) = unreached();
  forth(report).job_port = {PortTry::State::open, ""};
  EXPECT_TRUE(
      has(wrong(report), "BAD   a reaches only the usual port of jobs on b, no other: no answer for 3 s: "));
  EXPECT_EQ(lines_in(wrong(report)), 1);
}

TEST(LinkVerdict, APortThatWasNotTriedIsANote) {
  PeerReport report = pair();
  report.hosts[1].facts->job_port = 0;
  report.hosts[1].facts->why_not = "cannot listen at port 29500: in use by process 7 (python3)";
  forth(report).job_port = {};
  EXPECT_EQ(
      wrong(report),
      "note  the usual port of jobs was not tried on b: cannot listen at port 29500: in use by process 7 "
      "(python3)\n");
}

TEST(LinkVerdict, LargePacketsAreLost) {
  PeerReport report = pair();
  forth(report).mtu = 9000;
  forth(report).large_packets_pass = false;
  forth(report).passing = 1500;
  forth(report).bytes_per_second = 0;
  back(report).mtu = 9000;
  EXPECT_EQ(wrong(report).find(
                "BAD   packets of 9000 bytes from a to b are lost, packets of 1500 arrive: set the MTU "
                "of a's interface to what the network carries (ip link set DEVICE mtu 1500)"),
            0U);
  forth(report).passing = 0;
  EXPECT_TRUE(has(wrong(report), "are lost, and smaller ones, too: check cables"));
}

TEST(LinkVerdict, AMeasurementThatBrokeOff) {
  PeerReport report = pair();
  forth(report).broke_off = "no answer for 3 s";
  EXPECT_TRUE(has(wrong(report), "BAD   a reaches b, but then: no answer for 3 s: "));
  report = pair();
  report.links[0].found.reset();
  report.links[0].why = "its probe did not answer for 45 s";
  EXPECT_TRUE(has(wrong(report), "BAD   a did not measure its way to b: its probe did not answer for 45 s"));
}

TEST(LinkVerdict, NotesAboutSpeedLatencyPacketsAndClocks) {
  PeerReport report = pair();
  forth(report).bytes_per_second = back(report).bytes_per_second = 11.5e6;
  EXPECT_TRUE(
      has(wrong(report), "note  a sends to b only 11.5 MB/s: a gradient of 1 GB takes 87.0 s: check"));
  EXPECT_EQ(lines_in(wrong(report)), 2);
  report = pair();
  forth(report).bytes_per_second = 0.4e9;
  EXPECT_TRUE(has(wrong(report), "note  a sends to b 400 MB/s, and gets 1.25 GB/s: check cable"));
  EXPECT_EQ(lines_in(wrong(report)), 1);
  report = pair();
  back(report).latency_ns = 12'000'000;
  EXPECT_TRUE(has(wrong(report), "note  a message from b to a and back takes 12.0 ms: "));
  report = pair();
  back(report).mtu = 9000;
  EXPECT_EQ(wrong(report),
            "note  packets from a to b have up to 1500 bytes, back 9000: set the same MTU on both\n");
  report = pair();
  forth(report).clock_ahead_ns = -3'200'000'000;
  back(report).clock_ahead_ns = 3'200'000'000;
  EXPECT_TRUE(has(wrong(report), "note  the clock of a is 3.20 s ahead of b's: "));
  EXPECT_EQ(lines_in(wrong(report)), 1);
  forth(report).clock_error_ns = 3'150'000'000;  // it is not sure
  EXPECT_EQ(wrong(report), "");
}

TEST(LinkVerdict, TheTable) {
  PeerReport report = pair();
  forth(report).clock_ahead_ns = 100'000;
  back(report).clock_ahead_ns = -100'000;
  EXPECT_EQ(table(report),
            "from  to  ports  packets  latency  bandwidth  clock\n"
            "a     b   open   1500     0.05 ms  1.25 GB/s  +0.10 ms\n"
            "b     a   open   1500     0.05 ms  1.25 GB/s  -0.10 ms\n");
  forth(report) = unreached();
  back(report).large_packets_pass = false;
  back(report).bytes_per_second = 0;
  EXPECT_EQ(table(report),
            "from  to  ports   packets    latency  bandwidth  clock\n"
            "a     b   closed  -          -        -          -\n"
            "b     a   open    1500 lost  0.05 ms  -          -0.10 ms\n");
  forth(report).job_port.state = PortTry::State::open;
  report.links[1].found.reset();
  EXPECT_TRUE(has(table(report), "a     b   only 29500"));
  EXPECT_TRUE(has(table(report), "b     a   not measured"));
  EXPECT_EQ(table(PeerReport{}), "");
}

}  // namespace
}  // namespace dlaunch::launcher
