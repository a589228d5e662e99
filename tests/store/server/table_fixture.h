// A table and three clients, with short forms of their requests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "store/server/table.h"
#include "tests/store/server/requests.h"

namespace dlaunch::test {

using namespace store;

// Its answers are written to its inbox, as a server would send them.
struct TestClient : Table::Client {
  std::string inbox;
  bool refused = false;
};

class TableTest : public testing::Test {
 protected:
  // Applies the request for the client; returns the answers that it has now.
  std::string ask(TestClient& client, const Request& request) {
    deliver(&client, table.apply(client, request));
    return take(client);
  }
  void leave(TestClient& client) { deliver(nullptr, table.forget(client)); }
  static std::string take(TestClient& client) { return std::exchange(client.inbox, {}); }

  static void deliver(TestClient* requester, const Table::Outcome& outcome) {
    if (requester != nullptr) {
      requester->inbox += encoded(outcome.answer);
      requester->refused = outcome.answer.kind == Answer::Kind::refused;
    }
    for (Table::Client* client : outcome.woken)
      static_cast<TestClient*>(client)->inbox += byte(answer_stop_waiting);
    for (const Table::WatchNotification& notification : outcome.notifications) {
      static_cast<TestClient*>(notification.client)->inbox +=
          byte(static_cast<std::uint8_t>(notification.event)) + text(notification.key) +
          text(notification.old_value.view()) + text(notification.new_value.view());
    }
  }

  Request set(std::string_view key, std::string_view value = "v") {
    return request(RequestKind::set, key, value);
  }
  Request get(std::string_view key) { return request(RequestKind::get, key); }
  Request add(std::string_view key, std::int64_t amount) { return numbered(RequestKind::add, key, amount); }
  Request wait(Texts keys) { return listing(RequestKind::wait, std::move(keys)); }
  Request check(Texts keys) { return listing(RequestKind::check, std::move(keys)); }
  Request remove(std::string_view key) { return request(RequestKind::delete_key, key); }
  Request push(std::string_view key, std::string_view value) {
    return request(RequestKind::queue_push, key, value);
  }
  Request pop(std::string_view key) { return request(RequestKind::queue_pop, key); }
  Request barrier(std::string_view key, std::int64_t size) {
    return numbered(RequestKind::barrier, key, size);
  }

  const std::string ready = byte(answer_ready);
  const std::string not_ready = byte(answer_not_ready);
  const std::string stop = byte(answer_stop_waiting);
  const std::string cancelled = byte(answer_wait_cancelled);

  Table table{StoreLimits{}};
  TestClient a;
  TestClient b;
  TestClient c;
};

}  // namespace dlaunch::test
