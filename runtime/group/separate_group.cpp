#include "runtime/group/separate_group.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/own_process.h"
#include "runtime/base/process_end.h"
#include "runtime/group/group_impl.h"
#include "runtime/group/world.h"

namespace dlaunch::internal {

namespace {

struct SeparateWorlds {
  OwnProcess own_process;
  std::mutex mutex;
  // protected by mutex
  std::vector<std::shared_ptr<World>> worlds;
  // A program that destroys its group and makes it again with the same store must not find the first one's
  // keys.
  Generations generations;
};

// Never destroyed, like the process's own world. A forked copy of the process begins with none: the groups
// belong to the original.
SeparateWorlds& separate_worlds() {
  static std::mutex& making = *new std::mutex;
  static SeparateWorlds* of_this_process = nullptr;
  const std::lock_guard lock(making);
  if (!of_this_process || !of_this_process->own_process.is_this()) of_this_process = new SeparateWorlds;
  return *of_this_process;
}

void leave_separate_worlds() {
  SeparateWorlds& all = separate_worlds();
  std::vector<std::shared_ptr<World>> worlds;
  {
    const std::lock_guard lock(all.mutex);
    worlds = all.worlds;
  }
  for (const std::shared_ptr<World>& world : worlds) world->leave();
}

void require_ranks(const InitOptions& options, const std::vector<int>& ranks) {
  if (!options.store) throw DistError("a separate group needs a store");
  if (ranks.empty()) return;
  if (ranks.size() != static_cast<std::size_t>(std::max(options.world_size, 0))) {
    throw DistError("a separate group of " + std::to_string(options.world_size) + " ranks was given " +
                    std::to_string(ranks.size()) + " ranks");
  }
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  if (sorted.front() < 0 || std::ranges::adjacent_find(sorted) != sorted.end()) {
    throw DistError("the ranks of a separate group must be different and not negative");
  }
}

}  // namespace

ProcessGroup make_separate_group(const InitOptions& options, const std::vector<int>& ranks) {
  require_ranks(options, ranks);
  SeparateWorlds& all = separate_worlds();
  World::Separate separate{ranks, {}};
  {
    const std::lock_guard lock(all.mutex);
    separate.generations = all.generations;
  }
  const auto made = std::make_shared<World>(std::move(separate));
  const auto keep_generations = [&] {
    for (const auto& [store, generation] : made->generations()) {
      int& known = all.generations[store];
      known = std::max(known, generation);
    }
  };
  try {
    made->init(options);
  } catch (...) {
    const std::lock_guard lock(all.mutex);
    keep_generations();
    throw;
  }
  at_process_end<leave_separate_worlds>();
  const std::lock_guard lock(all.mutex);
  keep_generations();
  all.worlds.push_back(made);
  return GroupImpl::handle(made->default_group());
}

bool destroy_separate_group(const ProcessGroup& group) {
  SeparateWorlds& all = separate_worlds();
  std::shared_ptr<World> found;
  {
    const std::lock_guard lock(all.mutex);
    const auto entry = std::ranges::find_if(all.worlds, [&](const std::shared_ptr<World>& world) {
      return world->is_initialized() && GroupImpl::handle(world->default_group()) == group;
    });
    if (entry == all.worlds.end()) return false;
    found = *entry;
    all.worlds.erase(entry);
  }
  found->destroy_all();
  return true;
}

}  // namespace dlaunch::internal
