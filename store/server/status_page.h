// A store server's HTTP pages: /status (JSON) and /metrics (Prometheus' text format 0.0.4).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "store/base/io.h"
#include "store/server/protocol_mux.h"
#include "store/server/server.h"

namespace dlaunch::store {

// One JSON object, two blanks of indentation, a line end.
std::string status_json(const StoreStats& stats, const StoreLimits& limits, Duration uptime);
// Family by family: HELP, TYPE, samples.
std::string metrics_text(const StoreStats& stats, const StoreLimits& limits, Duration uptime);

// Answers for the given server. On the server's thread.
class StatusPage final : public HttpHandler {
 public:
  // REQUIRES: `clock` outlives it. Uptime counts from here.
  explicit StatusPage(const Clock& clock) : clock_(clock), began_(clock.now()) {}

  // REQUIRES: `server` and `limits` outlive its answers. Before this call, answers 503.
  void show(const StoreServer& server, const StoreLimits& limits) {
    server_ = &server;
    limits_ = limits;
  }

  // Adds a page and its content type: "/job" with JSON, for instance. `text` gets the query, what is behind
  // the
  // "?" of the path.
  void add(std::string path, std::string content_type, std::function<std::string(std::string_view)> text) {
    more_[std::move(path)] = {std::move(content_type), std::move(text)};
  }
  // Families that follow the store's in /metrics.
  void add_metrics(std::function<std::string()> families) { more_metrics_ = std::move(families); }

  HttpAnswer on_http_get(std::string_view path) override;

 private:
  const Clock& clock_;
  const TimePoint began_;
  const StoreServer* server_ = nullptr;
  StoreLimits limits_;
  struct Page {
    std::string content_type;
    std::function<std::string(std::string_view query)> text;
  };
  std::map<std::string, Page, std::less<>> more_;
  std::function<std::string()> more_metrics_;
};

}  // namespace dlaunch::store
