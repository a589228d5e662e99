// Environment, store, and the list of backends: mostly what is said when something is missing.

#include "runtime/bootstrap.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "runtime/key_value_store.h"
#include "runtime/registry.h"
#include "store/hash_store.h"
#include "tests/runtime/thread_transport.h"

namespace dlaunch {
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

TEST(Identify, TakesTheRoundFromWhoeverStartedIt) {
  EXPECT_EQ(identify(environment(with("TORCHELASTIC_RESTART_COUNT", "3")))->round, "3");
  Variables both = with("TORCHELASTIC_RESTART_COUNT", "3");
  both["DLAUNCH_ROUND"] = "5";
  EXPECT_EQ(identify(environment(both))->round, "5");
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

TEST(ConnectStore, SaysWhereNobodyAnswered) {
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

bool works(std::string&) { return true; }
bool has_no_cable(std::string& reason) {
  reason = "there is no cable";
  return false;
}
std::unique_ptr<Backend> create_nothing(const BackendContext&) { return nullptr; }

const BackendModule good{backend_abi_version, "Good", "cpu", works, create_nothing};
const BackendModule unplugged{backend_abi_version, "unplugged", "cpu", has_no_cable, create_nothing};

TEST(Registry, FindsWhatWasAddedInAnyCase) {
  Registry registry({});
  ASSERT_TRUE(registry.add(good).ok());
  for (const char* const name : {"good", "GOOD", "Good"}) {
    const auto found = registry.find(name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, &good);
  }
}

TEST(Registry, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(Registry({}).find("odd").error().message(), "unknown backend 'odd': known are: none");
  Registry registry({TEST_MODULES_DIR});
  ASSERT_TRUE(registry.add(good).ok());
  ASSERT_TRUE(registry.add(unplugged).ok());
  const std::string text = registry.find("odd").error().message();
  EXPECT_NE(text.find("good (usable)"), std::string::npos) << text;
  EXPECT_NE(text.find("unplugged (not usable: there is no cable)"), std::string::npos) << text;
  EXPECT_NE(text.find("example (usable)"), std::string::npos) << text;
  EXPECT_NE(text.find("it was made for backend ABI 4711, this is " + std::to_string(backend_abi_version)),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("it does not export dlaunch_backend_module"), std::string::npos) << text;
}

TEST(Registry, WhatIsNotViableSaysWhy) {
  Registry registry({});
  ASSERT_TRUE(registry.add(unplugged).ok());
  EXPECT_EQ(registry.find("unplugged").error().message(),
            "backend 'unplugged' cannot be used: there is no cable");
}

TEST(Registry, RefusesWhatItCannotUse) {
  Registry registry({});
  ASSERT_TRUE(registry.add(good).ok());
  EXPECT_EQ(registry.add(good).error().message(), "cannot register backend good: the name is taken");
  const BackendModule incomplete{backend_abi_version, "half", "cpu", works, nullptr};
  EXPECT_EQ(registry.add(incomplete).error().message(), "cannot register a backend: its table is incomplete");
  const BackendModule old{0, "old", "cpu", works, create_nothing};
  EXPECT_EQ(registry.add(old).error().message(),
            "cannot register a backend: it was made for backend ABI 0, this is " +
                std::to_string(backend_abi_version));
}

TEST(Registry, LoadsModulesFromDisk) {
  Registry registry({"/nonexistent", TEST_MODULES_DIR});
  const auto found = registry.find("example");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_STREQ((*found)->name, "example");
  EXPECT_EQ(*registry.find("EXAMPLE"), *found);
  EXPECT_FALSE(registry.find("../modules/backend_example").ok());
  EXPECT_NE(registry.find("silent").error().message().find("backend_silent.so"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch
