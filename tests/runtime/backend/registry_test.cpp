// The backends of a process: registered ones and modules on disk.

#include "runtime/backend/registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/api/variable.h"

namespace dlaunch::internal {
namespace {

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
  EXPECT_EQ(Registry({}).find("odd").error().message(), "unknown backend 'odd': known backends: none");
  Registry registry({TEST_MODULES_DIR});
  ASSERT_TRUE(registry.add(good).ok());
  ASSERT_TRUE(registry.add(unplugged).ok());
  const std::string text = registry.find("odd").error().message();
  EXPECT_NE(text.find("good (usable)"), std::string::npos) << text;
  EXPECT_NE(text.find("unplugged (not usable: there is no cable)"), std::string::npos) << text;
  EXPECT_NE(text.find("example (usable)"), std::string::npos) << text;
  EXPECT_NE(
      text.find("it was built for backend ABI 4711, this library has " + std::to_string(backend_abi_version)),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("it does not export dlaunch_backend_module"), std::string::npos) << text;
}

TEST(Registry, UnusableBackendReportsItsReason) {
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
            "cannot register a backend: it was built for backend ABI 0, this library has " +
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

// Another module under its name would depend on which of them is asked for first.
TEST(Registry, ANameOfAModuleOnDiskIsTaken) {
  const BackendModule own{backend_abi_version, "Example", "cpu", works, create_nothing};
  Registry registry({TEST_MODULES_DIR});
  EXPECT_EQ(registry.add(own).error().message(), "cannot register backend example: the name is taken");
  EXPECT_NE(*registry.find("example"), &own);
}

// What made a module unusable may be over at the next call.
TEST(Registry, AsksAModuleEachTimeWhetherItIsUsable) {
  static bool is_plugged_in = false;
  const BackendModule module{backend_abi_version, "cable", "cpu", [](std::string&) { return is_plugged_in; },
                             create_nothing};
  Registry registry({});
  ASSERT_TRUE(registry.add(module).ok());
  EXPECT_EQ(registry.find("cable").error().message(),
            "backend 'cable' cannot be used: it reports that it does not work here");
  is_plugged_in = true;
  EXPECT_TRUE(registry.find("cable").ok());
}

TEST(PlainName, IsInLowerCase) {
  EXPECT_EQ(plain_name("GLOO_2"), "gloo_2");
  EXPECT_EQ(plain_name(""), "");
  EXPECT_EQ(plain_name("\xc3\x84"), "\xc3\x84");  // no letter of ASCII
}

TEST(BackendFolders, AreThoseOfTheVariableInItsOrder) {
  const auto named = [](const char* value) {
    const test::Variable path("DLAUNCH_BACKEND_PATH", value);
    std::vector<std::string> folders = backend_folders();
    EXPECT_FALSE(folders.empty());
    EXPECT_TRUE(folders.back().ends_with("/dlaunch")) << folders.back();
    folders.pop_back();  // beside this library
    return folders;
  };
  using Folders = std::vector<std::string>;
  EXPECT_EQ(named("/a"), Folders{"/a"});
  EXPECT_EQ(named("/b:/a:relative"), (Folders{"/b", "/a", "relative"}));
  EXPECT_EQ(named(":/a::/b:"), (Folders{"/a", "/b"}));
  EXPECT_EQ(named(""), Folders{});
}

}  // namespace
}  // namespace dlaunch::internal
