// A store in a file that processes of one or several machines share: PyTorch's FileStore, in its format and
// with its locks (store/client/file_record.h, store/client/locked_file.h), so that both can use one file at
// the same time.
//
// The file only grows, and every store reads all of it; it is for few small values. Keys and values have a
// server's bounds (store/protocol/limits.h). The file's bytes are not trusted: a record that is invalid, or
// cut off because its writer died, ends in a StoreError (io) with its offset.
//
// The end of the file's life. A store counts itself in the key "refcount/" while it lives, and in "cleanup/"
// when it is destroyed; the one that finds at least `world_size` in "cleanup/" and none in "refcount/"
// removes the file. PyTorch 2.x does the same. PyTorch 1.13 knows no "refcount/" and removes the file as soon
// as exactly `world_size` stores were destroyed. The two work together if there are at least `world_size`
// stores; only num_keys shows a 1.13 process one key more. FileStoreUsers selects the rule.
//
// A store belongs to the file that it found first. If that is removed or replaced, every later call fails
// (io): a store object never silently joins another job's file.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "store/client/locked_file.h"
#include "store/client/store.h"
#include "store/protocol/limits.h"

namespace dlaunch::store {

class FileWatch;

enum class FileStoreUsers {
  counted,      // as PyTorch 2.x: safe with 1.13 too
  not_counted,  // as PyTorch 1.13: writes nothing before the first call. Unsafe beside 2.x, whose stores do
                // not know then that this one lives
};

struct FileStoreOptions {
  std::string path;
  std::int64_t world_size = -1;  // stores that will use the file in all; negative: the file is never removed
  Duration timeout = std::chrono::seconds(300);
  FileStoreUsers users = FileStoreUsers::counted;
  StoreLimits limits = {};
};

// Usable by several threads, and by both sides of a fork with one object each. While one thread waits the
// others continue.
class FileStore final : public Store {
 public:
  // Makes the file, unless users are not counted. Throws StoreError as the calls do.
  explicit FileStore(FileStoreOptions options);
  // Removes itself from the count, and removes the file if it is the last. Waits at most 10 s for the lock.
  ~FileStore() override;

  // For all calls: a missing file is an empty store. `timeout` bounds waits for keys; waits for the file's
  // lock may take 10 s, and waits for a missing folder 2 s. Kinds of failure: timeout, limit, invalid (not a
  // number), and io, after which nothing was stored: a full disk leaves no torn record behind.
  using Store::wait;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  void wait(std::span<const std::string> keys, Duration timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t num_keys() override;  // all of the file's, with "refcount/" and "cleanup/"
  bool delete_key(std::string_view key) override;
  void set_timeout(Duration timeout) override;
  [[nodiscard]] Duration timeout() const override;

  // PyTorch's FileStore lacks these calls, but understands what they write.
  std::vector<std::string> multi_get(std::span<const std::string> keys) override;
  // All or none.
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override;
  void append(std::string_view key, std::string_view value) override;  // writes the whole value again
  std::vector<std::string> list_keys() override;                       // users' keys

  [[nodiscard]] const std::string& path() const { return options_.path; }

 private:
  class Turn;
  class WatchLoan;
  using Values = std::map<std::string, std::string, std::less<>>;

  void await(Duration timeout, const std::string& for_what, const std::function<bool()>& condition);
  [[nodiscard]] bool all_exist(std::span<const std::string> keys) const;

  const FileStoreOptions options_;
  mutable std::mutex mutex_;  // not held while waiting for keys
  // Protected by mutex_:
  Duration timeout_;
  Values values_;  // by marked key: the content of the file's first `read_to_` bytes
  std::uint64_t read_to_ = 0;
  FileIdentity known_;  // of this store's file; none: not found yet
  std::optional<Error> lost_;
  std::vector<std::unique_ptr<FileWatch>> idle_watches_;  // at most one for each thread that waits at a time
};

}  // namespace dlaunch::store
