#include "launcher/doctor/link_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dlaunch::launcher {
namespace {

LinkMeasurement every_field() {
  LinkMeasurement found;
  found.job_port = {PortTry::State::failed, "connection refused"};
  found.data_port = {PortTry::State::open, ""};
  found.broke_off = "no answer";
  found.mtu = 1500;
  found.large_packets_pass = true;
  found.passing = 1400;
  found.latency_ns = 50'000;
  found.bytes_per_second = 1.25e9;
  found.retransmissions = 3;
  found.clock_ahead_ns = -7;
  found.clock_error_ns = 8;
  return found;
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? "no " + part : text.replace(at, part.size(), by);
}

TEST(LinkText, WhatIsWrittenIsRead) {
  const HostFacts facts{"0.2.0", 12, "00ff", 29500, "", 40001};
  const ProbeTarget target{"10.0.0.2", 0, 40001, "00ff"};
  EXPECT_EQ(*host_facts_from(to_json(facts)), facts);
  EXPECT_EQ(*probe_target_from(to_json(target)), target);
  EXPECT_EQ(*link_measurement_from(to_json(every_field())), every_field());
  EXPECT_EQ(*link_measurement_from(to_json(LinkMeasurement{})), LinkMeasurement{});
}

TEST(LinkText, BadFieldsAreNamed) {
  const std::string good = to_json(every_field());
  const auto why = [](const std::string& line) {
    const auto read = link_measurement_from(line);
    return read ? "read" : read.error().why;
  };
  EXPECT_EQ(why(good), "read");
  for (const auto& [part, by] :
       std::vector<std::pair<std::string, std::string>>{{R"("mtu":1500)", R"("mtu":-1)"},
                                                        {R"("mtu":1500)", R"("mtu":"1500")"},
                                                        {R"("mtu":1500)", R"("mtu":18446744073709551615)"},
                                                        {R"("mtu":1500)", R"("MTU":1500)"}}) {
    EXPECT_EQ(why(replaced(good, part, by)), "its field mtu is missing or bad") << by;
  }
  EXPECT_EQ(why(replaced(good, R"("data_port":"open")", R"("data_port":"ajar")")),
            "its field data_port is missing or bad");
  EXPECT_EQ(why(replaced(good, "1250000000.0", "-1")), "its field bytes_per_second is missing or bad");
  EXPECT_EQ(why(replaced(good, R"("latency_ns":50000)", R"("latency_ns":-1)")),
            "its field latency_ns is missing or bad");
  EXPECT_EQ(why("[]"), "it is no JSON object");
  EXPECT_EQ(why("{"), "it is no JSON object");
  EXPECT_EQ(why(""), "it is no JSON object");
}

TEST(LinkText, ForeignTextCannotHarmATerminal) {
  HostFacts facts{"0.2.0", 12, "00ff", 29500, "\x1b[2Jgone\n" + std::string(1000, 'x'), 40001};
  const auto read = host_facts_from(to_json(facts));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->why_not.find_first_of("\x1b\n"), std::string::npos);
  EXPECT_LE(read->why_not.size(), 300U);
}

TEST(LinkText, TheReport) {
  PeerReport peers;
  peers.hosts = {{"a", HostFacts{"0.2.0", 12, "secret", 29500, "", 40001}, ""},
                 {"b", std::nullopt, "no ssh"}};
  peers.links = {{0, 1, every_field(), ""}, {1, 0, std::nullopt, "it ended"}};
  const std::string text = report_json({{Finding::Grade::bad, "x", "y"}}, {}, peers);
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_EQ(text.find("secret"), std::string::npos);
  const auto report = nlohmann::json::parse(text);
  EXPECT_EQ(report["findings"], nlohmann::json::parse(R"([{"grade":"BAD","text":"x","to_do":"y"}])"));
  EXPECT_EQ(report["hosts"][0]["version"], "0.2.0");
  EXPECT_EQ(report["hosts"][0]["listens_at"], nlohmann::json::parse("[29500,40001]"));
  EXPECT_EQ(report["hosts"][1], nlohmann::json::parse(R"({"name":"b","why":"no ssh"})"));
  EXPECT_EQ(report["links"][0]["from"], "a");
  EXPECT_EQ(report["links"][0]["mtu"], 1500);
  EXPECT_EQ(report["links"][1], nlohmann::json::parse(R"({"from":"b","to":"a","why":"it ended"})"));
}

}  // namespace
}  // namespace dlaunch::launcher
