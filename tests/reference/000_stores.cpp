// Documents 000, 001 and 004: the key-value stores and each call of theirs, with the values that are printed.
#include <dlaunch/store.h>

#include <filesystem>
#include <thread>

#include "tests/reference/printed.h"
#include "tests/reference/processes.h"

using namespace reference;
using std::chrono::milliseconds;

namespace {

// TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=30))
std::shared_ptr<dist::TcpKeyValueStore> tcp_store() {
  return dist::make_tcp_store("127.0.0.1", 0,
                              {.world_size = 1, .is_master = true, .timeout = std::chrono::seconds(30)});
}

void set_and_get() {
  const auto store = tcp_store();
  store->set("first_key", "first_value");
  expect(store->get("first_key"), "first_value");  // Should return "first_value"
}

void add() {
  const auto store = tcp_store();
  store->add("first_key", 1);
  store->add("first_key", 6);
  expect(store->get("first_key"), "7");  // Should return 7
}

void compare_set() {
  const auto store = tcp_store();
  store->set("key", "first_value");
  store->compare_set("key", "first_value", "second_value");
  expect(store->get("key"), "second_value");  // Should return "second_value"
}

// The documents wait for 30 and 10 seconds; here it is less.
void wait() {
  const auto store = tcp_store();
  const std::vector<std::string> keys = {"bad_key"};
  raised([&] { store->wait(keys, milliseconds(100)); });
  store->set_timeout(milliseconds(100));
  raised([&] { store->wait(keys); });
  raised([&] { store->get("bad_key"); });
}

void num_keys() {
  const auto store = tcp_store();
  store->set("first_key", "first_value");
  require(store->num_keys() == 2, "This should return 2");  // one is the store's own
}

void delete_key() {
  const auto store = tcp_store();
  store->set("first_key", "");
  require(store->delete_key("first_key"), "This should return true");
  require(!store->delete_key("bad_key"), "This should return false");
}

// A server and a client, in two processes.
int server_and_client() {
  const Master port;
  return run_processes(2, [&](int process) {
    if (process == 0) {
      const auto server_store =
          dist::make_tcp_store("127.0.0.1", port.port(),
                               {.world_size = 2, .is_master = true, .timeout = std::chrono::seconds(30)});
      server_store->set("first_key", "first_value");
      server_store->wait(std::vector<std::string>{"done"});  // the server must outlive its clients
    } else {
      const auto client_store = dist::make_tcp_store("127.0.0.1", port.port(), {.world_size = 2});
      expect(client_store->get("first_key"), "first_value");
      client_store->set("done", "");
    }
  });
}

// "store can be used from other threads".
void hash_store() {
  const auto store = dist::make_hash_store();
  std::thread([&] { store->set("first_key", "first_value"); }).join();
  expect(store->get("first_key"), "first_value");
}

void file_store() {
  std::string folder = std::filesystem::temp_directory_path() / "dlaunch_reference.XXXXXX";
  require(mkdtemp(folder.data()) != nullptr, "a folder");
  {
    const auto store1 = dist::make_file_store(folder + "/filestore", 2);
    const auto store2 = dist::make_file_store(folder + "/filestore", 2);
    store1->set("first_key", "first_value");
    expect(store2->get("first_key"), "first_value");
  }
  std::filesystem::remove_all(folder);
}

void prefix_store() {
  const auto store = dist::make_hash_store();
  dist::make_prefix_store("prefix", store)->set("first_key", "first_value");
  expect(store->get("prefix/first_key"), "first_value");
}

}  // namespace

int main() {
  const int code =
      server_and_client();  // before there are threads, of which its processes would know nothing
  set_and_get();
  add();
  compare_set();
  wait();
  num_keys();
  delete_key();
  hash_store();
  file_store();
  prefix_store();
  return code;
}
