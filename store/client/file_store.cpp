#include "store/client/file_store.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "store/client/error_text.h"
#include "store/client/file_record.h"
#include "store/client/file_watch.h"
#include "store/client/steady_time.h"
#include "store/protocol/decimal.h"

namespace dlaunch::store {
namespace {

using Access = LockedFile::Access;

constexpr Duration folder_timeout = std::chrono::seconds(2);  // a misspelt path is reported soon
constexpr Duration lock_timeout = std::chrono::seconds(10);
constexpr std::uint64_t read_step = 1 << 20;
constexpr std::string_view closed_key = "cleanup/";
constexpr std::string_view open_key = "refcount/";
constexpr char deleted_mark = '-';

std::string marked(std::string_view key) { return std::string(1, '/').append(key); }

}  // namespace

// One operation: opens and locks the file, and reads all of it.
class FileStore::Turn {
 public:
  // `timeout`: the call's.
  Turn(FileStore& store, Access access, Duration timeout) : store_(store) {
    if (store_.lost_) throw StoreError(*store_.lost_);
    // The file is created once, and not again after it was removed.
    if (access == Access::create && store_.known_) access = Access::write;
    const TimePoint now = steady_now();
    auto opened =
        LockedFile::open(store_.options_.path, access, deadline_after(now, std::max(timeout, lock_timeout)),
                         deadline_after(now, std::min(timeout, folder_timeout)));
    if (!opened) {
      if (opened.error().kind != ErrorKind::not_found) fail(std::move(opened).error());
      if (store_.known_) fail_permanently("it was removed while in use");
      if (access != Access::read) fail(std::move(opened).error());
      return;  // the file does not exist yet
    }
    file_.emplace(std::move(*opened));
    if (!store_.known_) store_.known_ = file_->identity();
    if (!store_.known_) fail({ErrorKind::io, "", "", "the process has no file descriptor left", ""});
    if (!file_->is(store_.known_)) fail_permanently("it was replaced while in use");
    catch_up();
  }

  // REQUIRES: access was create or write.
  void write(std::string_view key, std::string_view value) {
    const FileRecord record{key, value};
    write({&record, 1});
  }
  void write(std::span<const FileRecord> records) {
    std::string bytes;
    for (const FileRecord& record : records) {
      if (record.key.size() > limits().key_bytes || record.value.size() > limits().value_bytes)
        fail({ErrorKind::limit, "", "",
              "cannot store key " + quoted(record.key.substr(1)) + ": longer than the limit", ""});
      encode_file_record(record, bytes);
    }
    if (auto stored = file_->append(as_byte_span(bytes)); !stored) {
      stored.error().why = "cannot write: " + stored.error().why;
      fail(std::move(stored).error());
    }
    store_.read_to_ = file_->size();
    for (const FileRecord& record : records) apply(record);
  }

  std::int64_t add(std::string_view key, std::int64_t amount) {
    const auto at = store_.values_.find(key);
    const auto before = at == store_.values_.end() ? std::int64_t{0} : leading_decimal(at->second);
    if (!before)
      fail({ErrorKind::invalid, "", "",
            "cannot add to key " + quoted(key.substr(1)) + ": its value is not a number", ""});
    const std::int64_t sum = wrapping_add(*before, amount);
    write(key, std::to_string(sum));
    return sum;
  }

 private:
  [[nodiscard]] const StoreLimits& limits() const { return store_.options_.limits; }

  // Applies the records added since the last time.
  void catch_up() {
    if (file_->size() < store_.read_to_) {
      fail_permanently("it became shorter, from " + std::to_string(store_.read_to_) + " bytes to " +
                       std::to_string(file_->size()));
    }
    std::string bytes;
    std::uint64_t wanted = read_step;
    while (store_.read_to_ < file_->size()) {
      const std::uint64_t left = file_->size() - store_.read_to_;
      bytes.resize(static_cast<std::size_t>(std::min(wanted, left)));
      if (auto done = file_->read(store_.read_to_, bytes.data(), bytes.size()); !done)
        fail(std::move(done).error());
      const std::uint64_t missing = apply_all(bytes);
      if (missing > file_->size() - store_.read_to_) bad_record("is cut off: its writer must have died");
      wanted = std::max(read_step, missing);
    }
  }

  // Applies the whole records that `bytes` begins with. Returns the minimum size of the first that is not
  // whole; 0: there is none.
  std::uint64_t apply_all(ByteSpan bytes) {
    while (!bytes.empty()) {
      const DecodedFileRecord next = decode_file_record(bytes, limits());
      if (next.status == DecodedFileRecord::Status::bad) bad_record("is invalid: " + std::string(next.why));
      if (next.status == DecodedFileRecord::Status::more) return next.size;
      apply(next.record);
      store_.read_to_ += next.size;
      bytes = bytes.subspan(static_cast<std::size_t>(next.size));
    }
    return 0;
  }
  std::uint64_t apply_all(const std::string& bytes) { return apply_all(as_byte_span(bytes)); }

  void apply(const FileRecord& record) {
    if (record.key.front() == deleted_mark) {
      const auto at = store_.values_.find(record.key.substr(1));
      if (at != store_.values_.end()) store_.values_.erase(at);
      return;
    }
    const auto at = store_.values_.find(record.key);
    if (at != store_.values_.end()) {
      at->second = record.value;
    } else {
      store_.values_.emplace(record.key, record.value);
    }
  }

  [[noreturn]] void bad_record(const std::string& what) {
    fail({ErrorKind::io, "", "", "the record at byte " + std::to_string(store_.read_to_) + " " + what, ""});
  }

  [[noreturn]] void fail(Error error) {
    error.kind = error.kind == ErrorKind::not_found ? ErrorKind::io : error.kind;
    error.what = "file store";
    error.where = store_.options_.path;
    throw StoreError(error);
  }

  // The file is unusable now, and every later call fails the same way.
  [[noreturn]] void fail_permanently(std::string why) {
    store_.lost_ = Error{ErrorKind::io, "file store", store_.options_.path, std::move(why), ""};
    throw StoreError(*store_.lost_);
  }

  FileStore& store_;
  std::optional<LockedFile> file_;  // none: there is no file yet
};

// A watch for one wait. Watches are kept, since the system needs several milliseconds to end one.
class FileStore::WatchLoan {
 public:
  explicit WatchLoan(FileStore& store) : store_(store) {
    const std::lock_guard lock(store_.mutex_);
    if (store_.idle_watches_.empty()) {
      watch_ = std::make_unique<FileWatch>(store_.options_.path);
    } else {
      watch_ = std::move(store_.idle_watches_.back());
      store_.idle_watches_.pop_back();
    }
  }
  ~WatchLoan() {
    const std::lock_guard lock(store_.mutex_);
    store_.idle_watches_.push_back(std::move(watch_));
  }
  WatchLoan(const WatchLoan&) = delete;
  WatchLoan& operator=(const WatchLoan&) = delete;
  FileWatch* operator->() { return watch_.get(); }

 private:
  FileStore& store_;
  std::unique_ptr<FileWatch> watch_;
};

FileStore::FileStore(FileStoreOptions options) : options_(std::move(options)), timeout_(options_.timeout) {
  if (options_.users == FileStoreUsers::counted) Turn(*this, Access::create, timeout_).add(open_key, 1);
}

FileStore::~FileStore() {
  try {
    if (access(options_.path.c_str(), F_OK) == 0) {  // else another process has removed the file already
      Turn turn(*this, Access::write, Duration::zero());
      const std::int64_t closed = turn.add(closed_key, 1);
      const bool counted = options_.users == FileStoreUsers::counted;
      const std::int64_t open = counted ? turn.add(open_key, -1) : 0;
      const bool all_closed = counted ? closed >= options_.world_size : closed == options_.world_size;
      // Still locked, so no store writes into a file that is removed, except PyTorch's.
      if (options_.world_size >= 0 && open == 0 && all_closed) unlink(options_.path.c_str());
    }
  } catch (const StoreError&) {
    // A destructor cannot report it, and a file that stays harms no other job.
  }
}

void FileStore::set(std::string_view key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  Turn(*this, Access::create, timeout_).write(marked(key), value);
}

std::string FileStore::get(std::string_view key) {
  const std::string name(key);
  return multi_get({&name, 1}).front();
}

std::int64_t FileStore::add(std::string_view key, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  return Turn(*this, Access::create, timeout_).add(marked(key), amount);
}

std::string FileStore::compare_set(std::string_view key, std::string_view expected,
                                   std::string_view desired) {
  const std::lock_guard lock(mutex_);
  Turn turn(*this, Access::create, timeout_);
  const std::string name = marked(key);
  const auto at = values_.find(name);
  if (at == values_.end() && !expected.empty()) return std::string(expected);
  if (at != values_.end() && at->second != expected) return at->second;
  turn.write(name, desired);
  return std::string(desired);
}

void FileStore::wait(std::span<const std::string> keys, Duration timeout) {
  await(timeout, describe_keys(keys), [&] { return all_exist(keys); });
}

bool FileStore::check(std::span<const std::string> keys) {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this, Access::read, timeout_);
  return all_exist(keys);
}

std::int64_t FileStore::num_keys() {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this, Access::read, timeout_);
  return static_cast<std::int64_t>(values_.size());
}

bool FileStore::delete_key(std::string_view key) {
  const std::lock_guard lock(mutex_);
  Turn turn(*this, Access::create, timeout_);
  const std::string name = marked(key);
  if (!values_.contains(name)) return false;
  turn.write(std::string(1, deleted_mark).append(name), "");
  return true;
}

void FileStore::set_timeout(Duration timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

Duration FileStore::timeout() const {
  const std::lock_guard lock(mutex_);
  return timeout_;
}

std::vector<std::string> FileStore::multi_get(std::span<const std::string> keys) {
  std::vector<std::string> values;
  await(timeout(), describe_keys(keys), [&] {
    if (!all_exist(keys)) return false;
    for (const std::string& key : keys) values.push_back(values_.at(marked(key)));
    return true;
  });
  return values;
}

void FileStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  std::vector<std::string> names;
  std::vector<FileRecord> records;
  names.reserve(keys.size());
  records.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    names.push_back(marked(keys[i]));
    records.push_back({names.back(), values[i]});
  }
  const std::lock_guard lock(mutex_);
  Turn(*this, Access::create, timeout_).write(records);
}

void FileStore::append(std::string_view key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  Turn turn(*this, Access::create, timeout_);
  const std::string name = marked(key);
  const auto at = values_.find(name);
  turn.write(name, at == values_.end() ? std::string(value) : at->second + std::string(value));
}

std::vector<std::string> FileStore::list_keys() {
  const std::lock_guard lock(mutex_);
  const Turn turn(*this, Access::read, timeout_);
  std::vector<std::string> keys;
  for (const auto& [name, value] : values_) {
    if (name.starts_with('/')) keys.push_back(name.substr(1));
  }
  return keys;
}

bool FileStore::all_exist(std::span<const std::string> keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [this](const std::string& key) { return values_.contains(marked(key)); });
}

// Looks first, and watches only if it must wait.
void FileStore::await(Duration timeout, const std::string& for_what, const std::function<bool()>& condition) {
  const TimePoint deadline = deadline_after(steady_now(), timeout);
  std::optional<WatchLoan> watch;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      const Turn turn(*this, Access::read, timeout);
      if (condition()) return;
    }
    if (steady_now() >= deadline)
      throw StoreError(timeout_error("file store " + options_.path, timeout, for_what));
    if (watch) {
      (*watch)->await(deadline);
    } else {
      watch.emplace(*this);  // then look again: the watch sees only later changes
    }
  }
}

}  // namespace dlaunch::store
