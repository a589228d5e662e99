#include "launcher/commands/store_options.h"

#include <gtest/gtest.h>

#include <map>

namespace dlaunch::launcher {
namespace {

using Arguments = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

Result<std::variant<StoreServe, StoreRequest, PrintAndExit>> parsed(const Arguments& arguments,
                                                                    const Environment& environment = {}) {
  return parse_store_options(arguments, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}
StoreServe serve(const Arguments& arguments) {
  auto result = parsed(arguments);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() && std::holds_alternative<StoreServe>(*result) ? std::get<StoreServe>(*result)
                                                                    : StoreServe{};
}
StoreRequest request(Arguments arguments, const Environment& environment = {{"MASTER_ADDR", "h"}}) {
  auto result = parsed(arguments, environment);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() && std::holds_alternative<StoreRequest>(*result) ? std::get<StoreRequest>(*result)
                                                                      : StoreRequest{};
}
std::string mistake(const Arguments& arguments, const Environment& environment = {{"MASTER_ADDR", "h"}}) {
  auto result = parsed(arguments, environment);
  EXPECT_FALSE(result.ok());
  if (result.ok()) return "";
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  return result.error().message();
}

TEST(StoreOptions, ServesLoopbackByDefault) {
  EXPECT_EQ(serve({}).address, (Address{"127.0.0.1", 29500}));
  EXPECT_EQ(serve({"--host", "*", "--port=0"}).address, (Address{"*", 0}));
  EXPECT_EQ(serve({"--status-interval=2.5"}).status_interval, std::chrono::milliseconds(2500));
  const StoreLimits limits = serve({"--max-value=512M", "--max_key=1K", "--max-total", "2T"}).limits;
  EXPECT_EQ(limits.value_bytes, 512U << 20);
  EXPECT_EQ(limits.key_bytes, 1024U);
  EXPECT_EQ(limits.total_bytes, std::uint64_t{2} << 40);
  EXPECT_GT(limits.request_bytes, limits.value_bytes);
}

TEST(StoreOptions, EveryCommandTakesItsWords) {
  EXPECT_EQ(request({"get", "k"}).words, Arguments{"k"});
  EXPECT_EQ(request({"add", "k", "-5"}).amount, -5);
  EXPECT_EQ(request({"set", "k", "--", "--v"}).words, (Arguments{"k", "--v"}));
  EXPECT_EQ(request({"set", "k", "-"}).words, (Arguments{"k", "-"}));
  EXPECT_EQ(request({"compare-set", "k", "", "v"}).words, (Arguments{"k", "", "v"}));
  EXPECT_EQ(request({"wait", "a", "b", "--timeout=1"}).words, (Arguments{"a", "b"}));
  EXPECT_TRUE(request({"keys", "--raw"}).raw);
}

TEST(StoreOptions, OnlyWaitWaitsByItself) {
  EXPECT_EQ(request({"get", "k"}).timeout, Duration::zero());
  EXPECT_EQ(request({"wait", "k"}).timeout, std::chrono::seconds(300));
  EXPECT_EQ(request({"get", "k", "--timeout", "0.5"}).timeout, std::chrono::milliseconds(500));
}

TEST(StoreOptions, FindTheServerInTheEnvironmentOfAJob) {
  EXPECT_EQ(request({"keys", "--endpoint=[::1]:7"}).server, (Address{"::1", 7}));
  EXPECT_EQ(request({"keys"}, {{"MASTER_ADDR", "m"}}).server, (Address{"m", 29500}));
  EXPECT_EQ(request({"keys"}, {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "81"}}).server, (Address{"m", 81}));
  EXPECT_EQ(request({"keys", "--endpoint=x:1"}, {{"MASTER_ADDR", "m"}}).server, (Address{"x", 1}));
}

TEST(StoreOptions, KnowTheGenerations) {
  EXPECT_EQ(request({"keys"}).dialect, Dialect::v2_2);
  EXPECT_EQ(request({"keys", "--generation=1.13"}).dialect, Dialect::v1_13);
  EXPECT_EQ(request({"keys", "--generation=2.1"}).dialect, Dialect::v2_1);
}

TEST(StoreOptions, HelpIsNoMistake) {
  for (const Arguments& arguments :
       {Arguments{"--help"}, Arguments{"get", "--help"}, Arguments{"add", "-h"}}) {
    auto result = parsed(arguments);
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(std::holds_alternative<PrintAndExit>(*result));
  }
}

TEST(StoreOptions, EveryMistakeIsNamed) {
  EXPECT_EQ(mistake({"gte", "k"}), "store has no command 'gte'; did you mean get?");
  EXPECT_EQ(mistake({"frobnicate"}),
            "store has no command 'frobnicate'; see dlaunch store --help; to start a program named store, "
            "use dlaunch -- store");
  EXPECT_EQ(mistake({"--prot=1"}), "unknown option --prot; did you mean --port?");
  EXPECT_EQ(mistake({"--port=70000"}), "--port: 70000 is out of range; give a value from 0 to 65535");
  EXPECT_EQ(mistake({"--port=x"}), "--port: 'x' is not a number; see dlaunch --help");
  EXPECT_EQ(mistake({"--port"}), "--port needs a value; see dlaunch store --help");
  EXPECT_EQ(mistake({"--max-value=0"}),
            "--max-value: '0' is not a size; give a number of bytes, or for example 512M");
  EXPECT_EQ(mistake({"--max-value=5X"}),
            "--max-value: '5X' is not a size; give a number of bytes, or for example 512M");
  EXPECT_EQ(mistake({"--status-interval=-1"}),
            "--status-interval: -1 is out of range; give a value from 0 to 604800 s");
  EXPECT_EQ(mistake({"--port=1", "get"}),
            "'get' is not an option; a command must come before its options; see dlaunch store --help");
  EXPECT_EQ(mistake({"get"}), "get needs more arguments; dlaunch store get KEY");
  EXPECT_EQ(mistake({"get", "a", "b"}), "get takes fewer arguments; dlaunch store get KEY");
  EXPECT_EQ(mistake({"keys", "a"}), "keys takes fewer arguments; dlaunch store keys");
  EXPECT_EQ(mistake({"add", "k", "1.5"}), "add: '1.5' is not a number; see dlaunch --help");
  EXPECT_EQ(mistake({"get", "k", "--timeout=inf"}),
            "--timeout: 'inf' is not a number of seconds; see dlaunch --help");
  EXPECT_EQ(mistake({"get", "k"}, {}),
            "no server given; give --endpoint=host:port (or set MASTER_ADDR and MASTER_PORT)");
  EXPECT_EQ(mistake({"get", "k"}, {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "x"}}),
            "MASTER_PORT: 'x' is not a number; see dlaunch --help");
  EXPECT_EQ(mistake({"get", "k", "--generation=3"}),
            "--generation: unknown version '3'; give 1.13 (also 2.0), 2.1, or 2.2 (and later)");
}

}  // namespace
}  // namespace dlaunch::launcher
