#include "launcher/remote/host_file.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Hosts = std::vector<HostEntry>;

Hosts listed(const std::string& list) {
  auto hosts = parse_hosts(list, "--hosts");
  EXPECT_TRUE(hosts.ok()) << list << ": " << (hosts.ok() ? "" : hosts.error().message());
  return hosts.ok() ? *hosts : Hosts{};
}
Hosts in_file(const std::string& text) {
  auto hosts = parse_host_file(text, "f");
  EXPECT_TRUE(hosts.ok()) << text << ": " << (hosts.ok() ? "" : hosts.error().message());
  return hosts.ok() ? *hosts : Hosts{};
}
template <class T>
std::string refused(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error().message();
}

TEST(HostFile, AListNamesHostsAndHowManyWorkers) {
  EXPECT_EQ(listed("a"), (Hosts{{"a", 0}}));
  EXPECT_EQ(listed("b,a.example:8,10.0.0.1"), (Hosts{{"b", 0}, {"a.example", 8}, {"10.0.0.1", 0}}));
  EXPECT_EQ(listed("c[09-11]:2,d"), (Hosts{{"c09", 2}, {"c10", 2}, {"c11", 2}, {"d", 0}}));
  EXPECT_EQ(listed("r[1-2]n[1,3]"), (Hosts{{"r1n1", 0}, {"r1n3", 0}, {"r2n1", 0}, {"r2n3", 0}}));
  EXPECT_EQ(listed("alice@a:4"), (Hosts{{"alice@a", 4}}));
  EXPECT_EQ(listed("fe80::1,[fe80::2],[fe80::3%eth0]:2"),
            (Hosts{{"fe80::1", 0}, {"fe80::2", 0}, {"fe80::3%eth0", 2}}));
}

TEST(HostFile, AHostThatIsNamedAgainHasTheSum) {
  EXPECT_EQ(listed("a,b,a,a"), (Hosts{{"a", 3}, {"b", 0}}));
  EXPECT_EQ(listed("a:2,a:3,b,b:4"), (Hosts{{"a", 5}, {"b", 5}}));
  EXPECT_EQ(in_file("a\na\nb\nb\n"), (Hosts{{"a", 2}, {"b", 2}}));  // as PBS writes it
}

TEST(HostFile, MalformedListIsReported) {
  EXPECT_EQ(refused(parse_hosts("a,,b", "--hosts")),
            "--hosts: '' is not a host; write HOST, HOST:WORKERS, or ranges as in node[01-16]");
  EXPECT_NE(refused(parse_hosts("", "--hosts")).find("'' is not a host"), std::string::npos);
  EXPECT_NE(refused(parse_hosts("a:0", "--hosts")).find("0 is out of range"), std::string::npos);
  EXPECT_NE(refused(parse_hosts("a:x", "--hosts")).find("'x' is not a number"), std::string::npos);
  EXPECT_NE(refused(parse_hosts("a:65536,a:1", "--hosts")).find("a has more than 65536"), std::string::npos);
  EXPECT_NE(refused(parse_hosts("a[1-99999]", "--hosts")).find("more than 65536 hosts"), std::string::npos);
  for (const char* bad : {"-oProxyCommand=x", "a b", "a;b", "$(x)", "a@", "@a", "u@-x", "-u@a", "a/b", "c[1-",
                          "c]", "[fe80::1]x", "[]", "a\nb", "c[1:2-3,4]-1:2"})
    EXPECT_NE(refused(parse_hosts(bad, "--hosts")).find("is not a host"), std::string::npos) << bad;
}

TEST(HostFile, AFileIsReadAsOthersReadIt) {
  EXPECT_EQ(
      in_file("# a cluster\n\na slots=4\n  b:2   # two\nc\r\n\td slots = 3 max_slots=8\nn[1-2] slots=6"),
      (Hosts{{"a", 4}, {"b", 2}, {"c", 0}, {"d", 3}, {"n1", 6}, {"n2", 6}}));
  EXPECT_EQ(in_file("a max-slots=9\nb max_slots=2 slots=1\n"), (Hosts{{"a", 0}, {"b", 1}}));
  EXPECT_EQ(in_file("a#b\n"), (Hosts{{"a", 0}}));
}

TEST(HostFile, AMistakeIsNamedWithItsLine) {
  EXPECT_EQ(refused(parse_host_file("a\nb slot=2\n", "my hosts")),
            "my hosts, line 2: 'slot=2' is not understood; a line is HOST, HOST slots=N or HOST:N");
  EXPECT_EQ(refused(parse_host_file("a slots=x", "f")),
            "f, line 1: slots: 'x' is not a number; see dlaunch --help");
  EXPECT_EQ(refused(parse_host_file("a:2 slots=2", "f")), "f, line 1: 'a:2' gives its slots twice");
  EXPECT_EQ(refused(parse_host_file("a\n\n-x\n", "f")).find("f, line 3: '-x' is not a host"), 0U);
  EXPECT_EQ(refused(parse_host_file("a slots", "f")).find("f, line 1: slots: '' is not a number"), 0U);
  EXPECT_EQ(refused(parse_host_file("# nothing\n", "f")), "f names no host; write one host a line");
  EXPECT_EQ(refused(parse_host_file("", "f")), "f names no host; write one host a line");
}

TEST(HostFile, AUserIsNoPartOfTheHost) {
  EXPECT_EQ(bare_host("alice@a"), "a");
  EXPECT_EQ(bare_host("a"), "a");
}

}  // namespace
}  // namespace dlaunch::launcher
