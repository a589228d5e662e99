#include "store/server/http_access.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

TEST(HttpHead, IsTakenApart) {
  const auto request = parse_http_head(
      "GET /job?x HTTP/1.1\r\nhOST:  Node1:29500 \r\nAuthorization: Bearer a b\r\n\r\nHost: later");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "GET");
  EXPECT_EQ(request->path, "/job?x");
  EXPECT_EQ(request->host, "Node1:29500");
  EXPECT_EQ(request->authorization, "Bearer a b");
  EXPECT_FALSE(parse_http_head("GET / HTTP/1.0\n\n")->host);
}

TEST(HttpHead, WhatIsNoRequestOrAmbiguousIsRefused) {
  for (const char* bad : {"", "GET", "GET /", "GET / FTP/1.0\r\n\r\n", "nonsense\r\n\r\n",
                          "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                          "GET / HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n"})
    EXPECT_FALSE(parse_http_head(bad)) << bad;
}

bool is_own(std::string_view host) {
  const HttpRules rules{.names = {"job.example.org"}};
  return is_own_host(rules, HttpRequest{.host = host});
}

TEST(HttpHost, AddressesAndOwnNamesAreAccepted) {
  for (const char* own :
       {"10.1.2.3", "10.1.2.3:29500", "[fe80::1]:29500", "[::1]", "localhost:1", "x.localhost", "node1",
        "NODE1:80", "job.example.org", "Job.Example.ORG.:29500", ""})
    EXPECT_TRUE(is_own(own)) << own;
  EXPECT_TRUE(is_own_host({}, HttpRequest{}));
}

TEST(HttpHost, OtherNamesAreNot) {
  for (const char* other : {"evil.example", "job.example.org.evil.example", "10.1.2.3.evil.example:29500",
                            "[evil.example]", "1.2.3", "localhost.evil.example"})
    EXPECT_FALSE(is_own(other)) << other;
}

int status_of(const HttpRules& rules, const HttpRequest& request) {
  const auto refused = refuse_http(rules, request);
  return refused ? refused->status : 0;
}

TEST(HttpSecret, IsAskedForIfThereIsOne) {
  const HttpRules rules{.secret = "s3cret"};
  EXPECT_EQ(status_of({}, {.host = "evil.example"}), 421);
  EXPECT_EQ(status_of({}, {.host = "a"}), 0);
  EXPECT_EQ(status_of(rules, {.host = "a"}), 401);
  EXPECT_EQ(status_of(rules, {.host = "evil.example", .authorization = "Bearer s3cret"}), 421);
  for (const char* wrong : {"Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Basic s3cret", "s3cret"})
    EXPECT_EQ(status_of(rules, {.host = "a", .authorization = wrong}), 401) << wrong;
  for (const char* right : {"Bearer s3cret", "bearer  s3cret"})
    EXPECT_EQ(status_of(rules, {.host = "a", .authorization = right}), 0) << right;
}

}  // namespace
}  // namespace dlaunch::store
