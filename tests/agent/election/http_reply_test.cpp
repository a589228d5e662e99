#include "agent/election/http_reply.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

// Whole, and byte by byte.
void expect_body(const std::string& text, int status, const std::string& body) {
  for (const std::size_t piece : {text.size(), std::size_t{1}}) {
    HttpReply reply;
    std::string read;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      ASSERT_TRUE(reply.append(as_byte_span(std::string_view(text).substr(at, piece))).ok());
      read += reply.take_body();
    }
    EXPECT_TRUE(reply.complete());
    EXPECT_EQ(reply.status(), status);
    EXPECT_EQ(read, body);
  }
}

bool is_refused(const std::string& text) {
  HttpReply reply;
  return !reply.append(as_byte_span(text)).ok();
}

TEST(HttpReply, ABodyHasALengthOrChunksOrIsMissing) {
  expect_body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
  expect_body("HTTP/1.1 404 Not Found\r\nX: y\r\n\r\n", 404, "");
  expect_body(
      "HTTP/1.1 200 OK\r\nTRANSFER-ENCODING:  Chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nX: y\r\n\r\n",
      200, "hello");
}

TEST(HttpReply, AStreamIsReadAsItComes) {
  HttpReply reply;
  ASSERT_TRUE(
      reply.append(as_byte_span("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb")).ok());
  EXPECT_TRUE(reply.has_head());
  EXPECT_FALSE(reply.complete());
  EXPECT_EQ(reply.take_body(), "a\nb");
}

TEST(HttpReply, MalformedReplyIsRejected) {
  EXPECT_TRUE(is_refused("SSH-2.0-OpenSSH\r\n\r\n"));
  EXPECT_TRUE(is_refused("HTTP/1.1 abc\r\n\r\n"));
  EXPECT_TRUE(is_refused("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"));
  EXPECT_TRUE(is_refused("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"));
  EXPECT_TRUE(is_refused("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"));
  EXPECT_TRUE(is_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"));
  EXPECT_TRUE(is_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n"));
  EXPECT_TRUE(is_refused(std::string(HttpReply::max_head + 1, 'x')));
}

}  // namespace
}  // namespace dlaunch::agent
