#include "store/server/status_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/store/server/fake_network.h"
#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

StoreStats some_stats() {
  StoreStats stats;
  stats.connections = 3;
  stats.undecided = 1;
  stats.connections_total = 7;
  stats.rejected = 2;
  stats.keys = 11;
  stats.bytes = 1234;
  stats.unread_bytes = 12;
  stats.waiting = 2;
  stats.rounds = 1;
  stats.requests[static_cast<std::size_t>(RequestKind::get)] = 99;
  return stats;
}

TEST(StatusPage, IsJsonThatProgramsRead) {
  const auto page = nlohmann::json::parse(status_json(some_stats(), {}, 1500ms));
  EXPECT_EQ(page["version"], DLAUNCH_VERSION);
  EXPECT_EQ(page["uptime_seconds"], 1.5);
  EXPECT_EQ(page["connections"]["now"], 3);
  EXPECT_EQ(page["connections"]["undecided"], 1);
  EXPECT_EQ(page["connections"]["total"], 7);
  EXPECT_EQ(page["connections"]["turned_away"], 2);
  EXPECT_EQ(page["keys"], 11);
  EXPECT_EQ(page["bytes"], 1234);
  EXPECT_EQ(page["unread_bytes"], 12);
  EXPECT_EQ(page["bytes_limit"], StoreLimits{}.total_bytes);
  EXPECT_EQ(page["waiting"], 2);
  EXPECT_EQ(page["rounds"], 1);
  EXPECT_EQ(page["requests"]["get"], 99);
  EXPECT_EQ(page["requests"].size(), request_kinds);
}

// As Prometheus reads it: each sample's family announced before it, counters named *_total.
TEST(StatusPage, HasMetricsByPrometheusRules) {
  std::istringstream lines(metrics_text(some_stats(), {}, 1500ms));
  std::map<std::string, std::string> types;
  std::map<std::string, std::string> samples;
  std::string last_help;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "#") {
      std::string what;
      std::string name;
      std::string type;
      words >> what >> name >> type;
      if (what == "HELP") last_help = name;
      if (what != "TYPE") continue;
      EXPECT_EQ(name, last_help);
      EXPECT_TRUE(types.emplace(name, type).second) << name << " announced twice";
      EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
      continue;
    }
    const std::string name = first.substr(0, first.find('{'));
    EXPECT_TRUE(types.contains(name)) << line;
    EXPECT_TRUE(name.starts_with("dlaunch_store_")) << line;
    std::string value;
    words >> value;
    EXPECT_FALSE(value.empty());
    EXPECT_TRUE(samples.emplace(first, value).second) << first << " twice";
  }
  EXPECT_EQ(samples.at("dlaunch_store_connections"), "3");
  EXPECT_EQ(samples.at("dlaunch_store_keys"), "11");
  EXPECT_EQ(samples.at("dlaunch_store_uptime_seconds"), "1.500000");
  EXPECT_EQ(samples.at("dlaunch_store_requests_total{kind=\"get\"}"), "99");
  EXPECT_EQ(samples.at("dlaunch_store_requests_total{kind=\"set\"}"), "0");
}

TEST(StatusPage, ShowsItsServer) {
  FakeNetwork network;
  StatusPage page(network);
  EXPECT_EQ(page.on_http_get("/status").status, 503);
  ServerOptions options;
  options.https = &page;
  StoreServer server(network, network, network, options);
  page.show(server, options.limits);
  ASSERT_TRUE(server.listen({"127.0.0.1", 29500}));
  const ConnId client = network.arrive();
  network.give(client, greeting + encoded(request(RequestKind::set, "/k", "v")));
  network.pass(2s);

  const auto get = [&](std::string_view head) {
    const ConnId visitor = network.arrive();
    network.give(visitor, head);
    EXPECT_TRUE(network.closed(visitor));
    return network.take(visitor);
  };
  const std::string status = get("GET /status?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(status.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"));
  const auto json = nlohmann::json::parse(status.substr(status.find("\r\n\r\n")));
  EXPECT_EQ(json["keys"], 1);
  EXPECT_EQ(json["uptime_seconds"], 2.0);
  EXPECT_EQ(json["connections"]["now"], 1);
  EXPECT_NE(get("GET /metrics HTTP/1.1\r\n\r\n").find("\ndlaunch_store_requests_total{kind=\"set\"} 1\n"),
            std::string::npos);
  const std::string head = get("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_EQ(head.find("Content-Length: 0"), std::string::npos);
  EXPECT_TRUE(get("GET / HTTP/1.1\r\n\r\n").ends_with("known pages: /healthz, /status and /metrics\n"));
  page.add("/more", "text/html", [](std::string_view query) { return "query " + std::string(query); });
  const std::string more = get("GET /more?a=1?2 HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(more.ends_with("\r\n\r\nquery a=1?2")) << more;
  EXPECT_NE(more.find("\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; "),
            std::string::npos);
  EXPECT_TRUE(get("GET /more HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nquery "));
  EXPECT_EQ(status.find("Content-Security-Policy"), std::string::npos) << "JSON is no page";
  EXPECT_TRUE(get("POST /status HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
}

}  // namespace
}  // namespace dlaunch::store
