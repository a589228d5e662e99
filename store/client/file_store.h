// A store in a file that processes of one or several machines share: PyTorch's FileStore, in its format and
// with its locks (store/client/file_record.h, store/client/locked_file.h), so that both can use one file at a
// time.
//
// The file only grows, and every store reads all of it; it is for a handful of small values. Keys and values
// are bounded as a server's are (store/protocol/limits.h). What others wrote is not trusted: a record that
// cannot be one, or that is cut off because its writer died, ends in a StoreError (io) with its offset.
//
// The end of the file's life. A store counts itself in the key "cleanup/" when it is destroyed, and in
// "refcount/" while it lives; the one that finds at least `world_size` of the first and none of the second
// removes the file. That is what PyTorch 2.x does. PyTorch 1.13 knows no "refcount/" and removes the file as
// soon as exactly `world_size` stores were destroyed. The two get along as long as there are as many stores
// as `world_size` says, and no fewer: only num_keys shows a 1.13 process one key more. FileStoreUsers says
// which way is followed.
//
// A store belongs to the file that it found first. When that is removed or replaced every later call fails
// (io): a store object never joins another job's file behind its user's back.
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

namespace dlaunch {

class FileWatch;

enum class FileStoreUsers {
  counted,      // as PyTorch 2.x: safe with 1.13 too
  not_counted,  // as PyTorch 1.13: nothing is written before the first call. Unsafe beside 2.x, whose stores
                // do not know then that this one lives
};

struct FileStoreOptions {
  std::string path;
  std::int64_t world_size = -1;  // stores that will use the file in all; negative: it is never removed
  Duration timeout = std::chrono::seconds(300);
  FileStoreUsers users = FileStoreUsers::counted;
  StoreLimits limits = {};
};

// Usable by several threads, and by both sides of a fork with an object each. While one thread waits the
// others go on.
class FileStore final : public Store {
 public:
  // Makes the file unless users are not counted. Throws StoreError as the calls do.
  explicit FileStore(FileStoreOptions options);
  // Counts itself out, and removes the file if it is the last. Waits 10 s at most for the lock.
  ~FileStore() override;

  // Of all calls: a file that is not there yet is an empty store. `timeout` bounds how long keys are waited
  // for; others that keep the file locked are borne with for 10 s at least, and a folder that is not there is
  // waited for no longer than 2 s. Kinds of failure: timeout, limit,
  // invalid (no number), and io, after which nothing was stored: a full disk leaves no torn record behind.
  using Store::wait;
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  void wait(std::span<const std::string> keys, Duration timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t num_keys() override;  // all of the file's, "refcount/" and "cleanup/" too
  bool delete_key(std::string_view key) override;
  void set_timeout(Duration timeout) override;
  [[nodiscard]] Duration timeout() const override;

  // These PyTorch's FileStore lacks; what they write it understands.
  std::vector<std::string> multi_get(std::span<const std::string> keys) override;
  // All of them or none.
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override;
  void append(std::string_view key, std::string_view value) override;  // writes the whole value once more
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
  Values values_;  // by marked key: what the file's first `read_to_` bytes say
  std::uint64_t read_to_ = 0;
  FileIdentity known_;  // of the file that this store belongs to; none: not found yet
  std::optional<Error> lost_;
  std::vector<std::unique_ptr<FileWatch>> idle_watches_;  // one more for each thread that waits at a time
};

}  // namespace dlaunch
