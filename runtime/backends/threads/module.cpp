#include "runtime/backends/threads/module.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "dlaunch/collective_backend.h"
#include "dlaunch/error.h"
#include "runtime/backends/threads/thread_transport.h"

namespace dlaunch::internal {

namespace {

// Mailboxes that rank 0 hands to the others, by a name that goes through the store.
class Lobby {
 public:
  static Lobby& get() {
    static Lobby& only = *new Lobby;
    return only;
  }

  std::string leave(const std::shared_ptr<Mailbox>& mailbox) {
    const std::lock_guard lock(mutex_);
    std::string name = std::to_string(getpid()) + "/" + std::to_string(++last_);
    waiting_[name] = {mailbox, mailbox->size() - 1};
    if (mailbox->size() == 1) waiting_.erase(name);
    return name;
  }

  std::shared_ptr<Mailbox> take(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(name);
    if (found == waiting_.end()) {
      throw DistBackendError("the ranks of a group with the backend threads must be threads of one process");
    }
    std::shared_ptr<Mailbox> mailbox = found->second.mailbox;
    if (--found->second.expected == 0) waiting_.erase(found);
    return mailbox;
  }

 private:
  struct Entry {
    std::shared_ptr<Mailbox> mailbox;
    int expected = 0;  // ranks that have not come yet
  };
  std::mutex mutex_;
  // protected by mutex_
  std::map<std::string, Entry> waiting_;
  std::uint64_t last_ = 0;
};

bool viable(std::string& /*reason*/) { return true; }

std::unique_ptr<Backend> create(const BackendContext& context) {
  const std::string key = "mailbox";
  std::shared_ptr<Mailbox> mailbox;
  if (context.rank == 0) {
    mailbox = std::make_shared<Mailbox>(context.size);
    context.store.set(key, Lobby::get().leave(mailbox));
  } else {
    mailbox = Lobby::get().take(context.store.get(key, context.deadline));
  }
  return std::make_unique<CollectiveBackend>(std::make_unique<ThreadTransport>(mailbox, context.rank));
}

}  // namespace

const BackendModule& threads_module() {
  static const BackendModule module = {backend_abi_version, "threads", "cpu", viable, create};
  return module;
}

}  // namespace dlaunch::internal
