// Environment and store: mostly the errors when something is missing.

#include "runtime/rendezvous/bootstrap.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/rendezvous/key_value_store.h"
#include "store/client/hash_store.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Environment environment(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

const Variables complete = {
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}};

Variables with(std::string name, std::string value) {
  Variables variables = complete;
  variables[std::move(name)] = std::move(value);
  return variables;
}
Variables without(const std::string& name) {
  Variables variables = complete;
  variables.erase(name);
  return variables;
}
std::string problem(Variables variables) {
  const Result<Identity> identity = identify(environment(std::move(variables)));
  return identity ? "no error" : identity.error().message();
}

TEST(Identify, ReadsTheWorkersEnvironment) {
  const Result<Identity> identity = identify(environment(complete));
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->rank, 2);
  EXPECT_EQ(identity->world_size, 4);
  EXPECT_EQ(identity->master, (Address{"host", 29500}));
  EXPECT_EQ(identity->round, "0");
}

TEST(Identify, TakesTheRoundFromTheLauncher) {
  EXPECT_EQ(identify(environment(with("TORCHELASTIC_RESTART_COUNT", "3")))->round, "3");
  Variables both = with("TORCHELASTIC_RESTART_COUNT", "3");
  both["DLAUNCH_ROUND"] = "5";
  EXPECT_EQ(identify(environment(both))->round, "5");
}

TEST(Identify, OfAProgramThatDlaunchHasStartedSomethingChangedTheVariable) {
  Variables variables = with("WORLD_SIZE", "abc");
  variables["DLAUNCH_JOB_ID"] = "j";
  EXPECT_EQ(
      problem(std::move(variables)),
      "cannot find the other ranks: the environment variable WORLD_SIZE is 'abc', not a number; dlaunch had "
      "set it: something between dlaunch and this program changed it");
}

TEST(Identify, NamesTheVariableThatIsMissingOrWrong) {
  const std::string start = "cannot find the other ranks: the environment variable ";
  const std::string end = "; start the program with dlaunch, which sets it";
  EXPECT_EQ(problem({}), start + "WORLD_SIZE is not set" + end);
  EXPECT_EQ(problem(without("RANK")), start + "RANK is not set" + end);
  EXPECT_EQ(problem(without("MASTER_ADDR")), start + "MASTER_ADDR is not set" + end);
  EXPECT_EQ(problem(without("MASTER_PORT")), start + "MASTER_PORT is not set" + end);
  EXPECT_EQ(problem(with("RANK", "two")), start + "RANK is 'two', not a number" + end);
  EXPECT_EQ(problem(with("RANK", "2 ")), start + "RANK is '2 ', not a number" + end);
  EXPECT_EQ(problem(with("RANK", "")), start + "RANK is '', not a number" + end);
  EXPECT_EQ(problem(with("RANK", "4")), start + "RANK is 4, not between 0 and 3" + end);
  EXPECT_EQ(problem(with("RANK", "-1")), start + "RANK is -1, not between 0 and 3" + end);
  EXPECT_EQ(problem(with("WORLD_SIZE", "0")), start + "WORLD_SIZE is 0, not between 1 and 16777216" + end);
  EXPECT_EQ(problem(with("WORLD_SIZE", "99999999999999999999")),
            start + "WORLD_SIZE is '99999999999999999999', not a number" + end);
  EXPECT_EQ(problem(with("MASTER_PORT", "70000")),
            start + "MASTER_PORT is 70000, not between 1 and 65535" + end);
  EXPECT_EQ(problem(with("MASTER_ADDR", "")), start + "MASTER_ADDR is empty" + end);
}

TEST(Identify, WhatTheProgramGivesTakesPrecedence) {
  const auto given = [](std::optional<int> rank, std::optional<int> size, const Variables& variables) {
    return identify(environment(variables), {rank, size});
  };
  Variables no_numbers = without("RANK");
  no_numbers.erase("WORLD_SIZE");
  const Result<Identity> both = given(1, 3, no_numbers);
  ASSERT_TRUE(both.ok()) << both.error().message();
  EXPECT_EQ(both->rank, 1);
  EXPECT_EQ(both->world_size, 3);
  EXPECT_EQ(both->master, (Address{"host", 29500}));
  EXPECT_EQ(given(1, {}, without("RANK"))->rank, 1);
  EXPECT_EQ(given(1, {}, complete)->rank, 1);
  EXPECT_EQ(given({}, 8, complete)->world_size, 8);
  EXPECT_EQ(given({}, 8, complete)->rank, 2);
  EXPECT_EQ(given(7, 3, complete).error().message(),
            "cannot use the rank that was given 7: not between 0 and 2");
  EXPECT_EQ(given(-2, {}, complete).error().message(),
            "cannot use the rank that was given -2: not between 0 and 3");
  EXPECT_EQ(given({}, 0, complete).error().message(),
            "cannot use the world_size that was given 0: not between 1 and 16777216");
  EXPECT_NE(given({}, 2, complete).error().message().find("RANK is 2, not between 0 and 1"),
            std::string::npos);
}

TEST(Identify, WithoutAnEnvironmentBothAreNeeded) {
  EXPECT_EQ(identify(GivenRank{1, 2})->rank, 1);
  EXPECT_EQ(identify(GivenRank{1, 2})->world_size, 2);
  const auto reason = [](const GivenRank& given) { return identify(given).error().message(); };
  EXPECT_NE(reason({}).find("needs a rank and a world_size: both are missing"), std::string::npos)
      << reason({});
  EXPECT_NE(reason({0, {}}).find("the world_size is missing"), std::string::npos);
  EXPECT_NE(reason({{}, 2}).find("the rank is missing"), std::string::npos);
  EXPECT_NE(reason({2, 2}).find("rank that was given 2: not between 0 and 1"), std::string::npos);
}

TEST(Bootstrap, AMemberOfAGroupWithoutASizeMayHaveNoRank) {
  Variables variables = without("WORLD_SIZE");
  const auto member = [&](const GivenRank& given) {
    const Environment found = environment(variables);
    return identify_member(&found, given);
  };
  EXPECT_EQ(member({})->rank, 2);
  EXPECT_EQ(member({})->world_size, -1);
  EXPECT_EQ(member({.rank = 70})->rank, 70);
  variables.erase("RANK");
  EXPECT_EQ(member({})->rank, -1);
  EXPECT_EQ(member({})->master.host, "host");
  variables["RANK"] = "many";
  EXPECT_FALSE(member({}));
  EXPECT_FALSE(member({.rank = -2}));
  variables.erase("MASTER_ADDR");
  EXPECT_FALSE(member({.rank = 1}));
  EXPECT_EQ(identify_member(nullptr, {})->rank, -1);
  EXPECT_EQ(identify_member(nullptr, {.rank = 5})->rank, 5);
}

TEST(ParseInitMethod, TakesRankAndWorldSizeFromTheUrl) {
  const auto tcp = parse_init_method("tcp://10.1.1.20:23456?rank=3&world_size=4");
  ASSERT_TRUE(tcp.ok()) << tcp.error().message();
  EXPECT_EQ(tcp->address, (Address{"10.1.1.20", 23456}));
  EXPECT_EQ(tcp->given.rank, 3);
  EXPECT_EQ(tcp->given.world_size, 4);
  EXPECT_EQ(parse_init_method("tcp://[::1]:1?world_size=4&rank=0")->address, (Address{"::1", 1}));
  const auto file = parse_init_method("file:///mnt/meet?world_size=2");
  EXPECT_EQ(file->path, "/mnt/meet");
  EXPECT_EQ(file->given.rank, std::nullopt);
  EXPECT_EQ(file->given.world_size, 2);
  EXPECT_EQ(parse_init_method("env://?rank=1")->given.rank, 1);
  EXPECT_EQ(parse_init_method("env://?")->given.rank, std::nullopt);
  EXPECT_TRUE(parse_init_method("tcp://host:1?rank=0&use_libuv=0").ok());
  const auto why = [](const char* url) { return parse_init_method(url).error().message(); };
  EXPECT_NE(why("env://?ranks=1").find("unknown parameter 'ranks'; known are rank and world_size"),
            std::string::npos);
  EXPECT_NE(why("env://?rank=one").find("the parameter rank is 'one', not a number"), std::string::npos);
  EXPECT_NE(why("env://?rank=").find("the parameter rank is '', not a number"), std::string::npos);
  EXPECT_NE(why("env://?rank").find("the parameter rank is '', not a number"), std::string::npos);
  EXPECT_NE(why("env://?rank=1&rank=1").find("the parameter rank is given twice"), std::string::npos);
  EXPECT_NE(why("env://?world_size=99999999999").find("not a number"), std::string::npos);
  EXPECT_NE(why("env://host?rank=1").find("unknown method"), std::string::npos);
}

TEST(ParseInitMethod, OptionsAndUrlMustAgree) {
  EXPECT_EQ(combine(-1, 4, {2, {}})->rank, 2);
  EXPECT_EQ(combine(-1, 4, {2, {}})->world_size, 4);
  EXPECT_EQ(combine(2, -1, {2, 4})->rank, 2);
  EXPECT_EQ(combine(-1, -1, {})->rank, std::nullopt);
  EXPECT_EQ(combine(1, -1, {2, 4}).error().message(),
            "init_process_group was given two values of rank: 1 in the call and 2 in the URL of init_method; "
            "give it once");
}

TEST(ConnectStore, ErrorNamesTheAddressWithoutServer) {
  try {
    connect_store({"127.0.0.1", 1}, deadline_after(std::chrono::milliseconds(30)));
    FAIL();
  } catch (const DistStoreError& e) {
    const std::string text = e.what();
    EXPECT_EQ(text.rfind("the store at 127.0.0.1:1 (MASTER_ADDR:MASTER_PORT) cannot be reached: ", 0), 0U)
        << text;
  }
}

TEST(BackendStore, EndsItsWaitsAtTheDeadline) {
  const auto store = backend_store(std::make_shared<HashStore>());
  store->set("key", "value");
  EXPECT_EQ(store->get("key", test::soon()), "value");
  EXPECT_THROW(store->get("other", deadline_after(std::chrono::milliseconds(10))), DistStoreError);
}

}  // namespace
}  // namespace dlaunch::internal
