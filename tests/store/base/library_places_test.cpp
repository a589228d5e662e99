#include "store/base/library_places.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dlaunch::store {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
using Names = std::vector<std::string>;

VariableLookup environment(Variables variables) {
  return [all = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = all.find(name);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  };
}

bool has_python(const std::string& path) { return path == "/opt/venv/bin/python3"; }

TEST(LibraryPlaces, TheLoaderIsAskedFirst) {
  EXPECT_EQ(library_places({"liba.so.2", "liba.so.1"}, {"a/lib"}, {}, environment({})),
            (Names{"liba.so.2", "liba.so.1"}));
}

TEST(LibraryPlaces, ThenTheFolderOfCudaAndTheWheels) {
  EXPECT_EQ(library_places({"liba.so"}, {"a/lib", "b/lib"}, {"/p/nvidia"},
                           environment({{"CUDA_HOME", "/cuda"}, {"CUDA_PATH", "/cuda"}})),
            (Names{"liba.so", "/cuda/lib64/liba.so", "/p/nvidia/a/lib/liba.so", "/p/nvidia/b/lib/liba.so"}));
}

TEST(PythonPrefixes, AreThoseOfTheEnvironmentAndOfTheFirstPythonInPath) {
  EXPECT_EQ(python_prefixes(environment({}), has_python), Names{});
  EXPECT_EQ(python_prefixes(environment({{"PATH", "/bin::/opt/venv/bin:/usr/bin"}}), has_python),
            Names{"/opt/venv"});
  EXPECT_EQ(
      python_prefixes(
          environment({{"PATH", "/opt/venv/bin"}, {"VIRTUAL_ENV", "/opt/venv"}, {"CONDA_PREFIX", "/conda"}}),
          has_python),
      (Names{"/opt/venv", "/conda"}));
}

}  // namespace
}  // namespace dlaunch::store
