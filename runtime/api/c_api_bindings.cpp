// What bindings to other languages need: groups and stores of the program, and the ends of operations without
// a callback.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/store.h"
#include "runtime/api/c_api.h"
#include "runtime/group/separate_group.h"

struct dlaunch_reply {
  std::string text;
};

struct dlaunch_completions {
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<std::uint64_t> tokens;  // protected by mutex
  };
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};

namespace {

using namespace dlaunch::internal::c;
using dlaunch::DistError;
using dlaunch::DistStoreError;

// A store of the program in its own language.
class ProgramStore : public dlaunch::KeyValueStore {
 public:
  ProgramStore(const dlaunch_store_calls& calls, void* context) : calls_(calls), context_(context) {}
  ~ProgramStore() override {
    if (calls_.release) calls_.release(context_);
  }

  void set(const std::string& key, const std::string& value) override {
    dlaunch_reply reply;
    require(calls_.set(context_, key.c_str(), value.data(), value.size(), &reply) == 0, "set", reply);
  }
  std::string get(const std::string& key) override {
    dlaunch_reply reply;
    require(calls_.get(context_, key.c_str(), &reply) == 0, "get", reply);
    return std::move(reply.text);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    dlaunch_reply reply;
    std::int64_t sum = 0;
    require(calls_.add(context_, key.c_str(), amount, &sum, &reply) == 0, "add", reply);
    return sum;
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    dlaunch_reply reply;
    require(calls_.compare_set(context_, key.c_str(), expected.data(), expected.size(), desired.data(),
                               desired.size(), &reply) == 0,
            "compare_set", reply);
    return std::move(reply.text);
  }
  bool wait_for(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    std::vector<const char*> names;
    names.reserve(keys.size());
    for (const std::string& key : keys) names.push_back(key.c_str());
    dlaunch_reply reply;
    const int answer = calls_.wait_for(context_, names.data(), names.size(), timeout.count(), &reply);
    require(answer >= 0, "wait", reply);
    return answer != 0;
  }
  bool delete_key(const std::string& key) override {
    dlaunch_reply reply;
    int existed = 0;
    require(calls_.delete_key(context_, key.c_str(), &existed, &reply) == 0, "delete_key", reply);
    return existed != 0;
  }

 private:
  static void require(bool success, const char* call, const dlaunch_reply& reply) {
    if (!success) throw DistStoreError("the program's store: " + std::string(call) + ": " + reply.text);
  }

  const dlaunch_store_calls calls_;
  void* const context_;
};

}  // namespace

void dlaunch_give_reply(dlaunch_reply* reply, const void* bytes, size_t size) {
  (void)guarded([&] {
    (void)required(reply, "the reply");
    if (size > 0) reply->text.assign(&required(static_cast<const char*>(bytes), "the bytes"), size);
  });
}

int dlaunch_make_program_store(const dlaunch_store_calls* calls, void* context, dlaunch_store** store) {
  return guarded([&] {
    (void)required(store, "the place for the store");
    *store = nullptr;
    const dlaunch_store_calls& given = required(calls, "the list of calls");
    if (!given.set || !given.get || !given.add || !given.compare_set || !given.wait_for ||
        !given.delete_key) {
      throw DistError("a call of the program's store is NULL; only release may be");
    }
    auto handle = std::make_unique<dlaunch_store>();
    handle->store = std::make_shared<ProgramStore>(given, context);
    *store = handle.release();
  });
}

int dlaunch_make_separate_group(const dlaunch_separate_group_options* given, dlaunch_group** group) {
  return guarded([&] {
    (void)required(group, "the place for the group");
    *group = nullptr;
    const dlaunch_separate_group_options& from = required(given, "the options");
    dlaunch::InitOptions options;
    options.store = required(from.store, "the store").store;
    options.rank = from.rank;
    options.world_size = from.world_size;
    if (from.backend) options.backend = from.backend;
    if (from.name) options.group_name = from.name;
    if (from.timeout_ms != 0) options.timeout = std::chrono::milliseconds(from.timeout_ms);
    std::vector<int> ranks;
    if (from.ranks && from.world_size > 0) ranks.assign(from.ranks, from.ranks + from.world_size);
    auto handle = std::make_unique<dlaunch_group>();
    handle->group = dlaunch::internal::make_separate_group(options, ranks);
    *group = handle.release();
  });
}

int dlaunch_completions_make(dlaunch_completions** queue) {
  return guarded([&] {
    (void)required(queue, "the place for the queue");
    *queue = nullptr;
    *queue = std::make_unique<dlaunch_completions>().release();
  });
}
void dlaunch_completions_free(dlaunch_completions* queue) { delete queue; }

int dlaunch_work_notify(const dlaunch_work* work, dlaunch_completions* queue, uint64_t token) {
  return guarded([&] {
    const auto into = required(queue, "the queue").queue;
    required(work, "the work").work.then([into, token](const dlaunch::Work& /*ended*/) {
      const std::lock_guard lock(into->mutex);
      into->tokens.push_back(token);
      into->filled.notify_one();
    });
  });
}

int dlaunch_completions_next(dlaunch_completions* queue, int64_t timeout_ms, uint64_t* tokens,
                             size_t capacity, size_t* count) {
  return guarded([&] {
    (void)required(count, "the place for the count");
    *count = 0;
    (void)required(tokens, "the place for the tokens");
    const auto from = required(queue, "the queue").queue;
    const auto is_filled = [&] { return !from->tokens.empty(); };
    std::unique_lock lock(from->mutex);
    if (timeout_ms == 0) {
      from->filled.wait(lock, is_filled);
    } else if (!from->filled.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_filled)) {
      return;
    }
    for (; *count < capacity && !from->tokens.empty(); ++*count) {
      tokens[*count] = from->tokens.front();
      from->tokens.pop_front();
    }
  });
}
