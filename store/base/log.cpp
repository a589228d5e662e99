#include "store/base/log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "store/base/text.h"

namespace dlaunch::store::log {
namespace {

spdlog::level::level_enum native(Level level) {
  switch (level) {
    case Level::trace:
      return spdlog::level::trace;
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      return spdlog::level::off;
  }
  return spdlog::level::warn;
}

// Formats a line and passes it on.
class WriterSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit WriterSink(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  std::function<void(std::string_view)> write_;
};

void write_to_stderr(std::string_view line) { std::fwrite(line.data(), 1, line.size(), stderr); }

}  // namespace

void start(std::string_view name, Level level, bool colour, std::function<void(std::string_view)> write) {
  auto logger =
      std::make_shared<spdlog::logger>(std::string(name), std::make_shared<WriterSink>(std::move(write)));
  logger->set_pattern(colour ? "\033[36m%n:\033[0m %v" : "%n: %v");
  spdlog::set_default_logger(std::move(logger));
  set_level(level);
}

void stop() {
  const auto level = spdlog::get_level();
  auto logger = std::make_shared<spdlog::logger>(spdlog::default_logger()->name(),
                                                 std::make_shared<WriterSink>(write_to_stderr));
  logger->set_pattern("%n: %v");
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_level(level);
}

void set_level(Level level) { spdlog::set_level(native(level)); }
bool enabled(Level level) { return spdlog::should_log(native(level)); }

Level parse_level(std::string_view text, Level fallback) {
  const std::string word = lower(text);
  struct Word {
    std::string_view name;
    Level level;
  };
  static constexpr std::array words{
      Word{"trace", Level::trace},  Word{"debug", Level::debug},    Word{"10", Level::debug},
      Word{"info", Level::info},    Word{"20", Level::info},        Word{"warning", Level::warning},
      Word{"warn", Level::warning}, Word{"30", Level::warning},     Word{"error", Level::error},
      Word{"40", Level::error},     Word{"critical", Level::error}, Word{"50", Level::error},
      Word{"off", Level::off}};
  const auto* found = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.name == word; });
  return found == words.end() ? fallback : found->level;
}

void trace(std::string_view text) { spdlog::trace(text); }
void debug(std::string_view text) { spdlog::debug(text); }
void info(std::string_view text) { spdlog::info(text); }
void warning(std::string_view text) { spdlog::warn(text); }
void error(std::string_view text) { spdlog::error(text); }

}  // namespace dlaunch::store::log
