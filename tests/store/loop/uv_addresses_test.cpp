#include "store/loop/uv_addresses.h"

#include <gtest/gtest.h>

#include <string>

namespace dlaunch::store {
namespace {

// The address as text, after having been a socket's address.
std::string there_and_back(const Address& address) {
  sockaddr_storage storage{};
  if (!parse_numeric(address, storage)) return "a name";
  return to_string(to_address(raw(storage)));
}

TEST(UvAddresses, NumbersAreReadAndWritten) {
  EXPECT_EQ(there_and_back({"10.0.0.1", 80}), "10.0.0.1:80");
  EXPECT_EQ(there_and_back({"::1", 65535}), "[::1]:65535");
  EXPECT_EQ(there_and_back({"2001:db8:0::7", 1}), "[2001:db8::7]:1");
  for (const char* name : {"localhost", "", "10.0.0", "10.0.0.256", "[::1]", ":::"})
    EXPECT_EQ(there_and_back({name, 80}), "a name") << name;
}

TEST(UvAddresses, AMappedAddressIsShownAsUsersKnowIt) {
  EXPECT_EQ(there_and_back({"::ffff:10.0.0.1", 80}), "10.0.0.1:80");
}

TEST(UvAddresses, OnlyAddressesThatTcpCanUseAreListed) {
  sockaddr_storage four{};
  sockaddr_storage six{};
  sockaddr local{};
  local.sa_family = AF_UNIX;
  ASSERT_TRUE(parse_numeric({"10.0.0.1", 1}, four));
  ASSERT_TRUE(parse_numeric({"::1", 1}, six));
  addrinfo last{};
  last.ai_family = AF_INET6;
  last.ai_addr = reinterpret_cast<sockaddr*>(&six);
  last.ai_addrlen = sizeof(sockaddr_in6);
  addrinfo other{};
  other.ai_family = AF_UNIX;
  other.ai_addr = &local;
  other.ai_addrlen = sizeof local;
  other.ai_next = &last;
  addrinfo first{};
  first.ai_family = AF_INET;
  first.ai_addr = reinterpret_cast<sockaddr*>(&four);
  first.ai_addrlen = sizeof(sockaddr_in);
  first.ai_next = &other;
  const auto list = to_list(&first, 7);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(to_string(to_address(raw(list[0]))), "10.0.0.1:7") << "with the port that was requested";
  EXPECT_EQ(to_string(to_address(raw(list[1]))), "[::1]:7");
  EXPECT_TRUE(to_list(nullptr, 7).empty());
}

TEST(UvAddresses, TheEndOfAConnectionHasAKind) {
  EXPECT_EQ(close_kind(UV_EOF), CloseKind::closed_by_peer);
  EXPECT_EQ(close_kind(UV_ECONNRESET), CloseKind::reset);
  EXPECT_EQ(close_kind(UV_EPIPE), CloseKind::reset);
  EXPECT_EQ(close_kind(UV_ECONNREFUSED), CloseKind::refused);
  EXPECT_EQ(close_kind(UV_ETIMEDOUT), CloseKind::timed_out);
  for (const int ours : {UV_ENOMEM, UV_ENOBUFS, UV_EMFILE, UV_ENFILE})
    EXPECT_EQ(close_kind(ours), CloseKind::failed);
  for (const int other : {UV_EHOSTUNREACH, UV_ENETUNREACH, UV_EAI_NONAME})
    EXPECT_EQ(close_kind(other), CloseKind::unreachable);
}

TEST(UvAddresses, AFailedConnectExplainsWhatToCheck) {
  const auto text = [](int status) { return connect_failure(status, describe(status)); };
  EXPECT_TRUE(text(UV_ETIMEDOUT).starts_with("no answer (the host is down, or a firewall"));
  EXPECT_TRUE(
      text(UV_ECONNREFUSED).ends_with("nothing listens on that port: not started yet, or another port)"));
  EXPECT_EQ(text(UV_EAI_NONAME), "name not known (check its spelling, /etc/hosts and DNS)");
  EXPECT_EQ(text(UV_EAI_AGAIN), "the name service does not answer");
  EXPECT_EQ(text(UV_EADDRNOTAVAIL), "not an address of this machine");
}

}  // namespace
}  // namespace dlaunch::store
