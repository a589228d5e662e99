#include "store/base/log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

namespace dlaunch::log {
namespace {

spdlog::level::level_enum native(Level level) {
  switch (level) {
    case Level::trace: return spdlog::level::trace;
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
    case Level::off: return spdlog::level::off;
  }
  return spdlog::level::warn;
}

}  // namespace

void start(std::string_view name, Level level) {
  // The sink colours on a terminal only, and writes without buffering: a line is out when the call returns.
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>();
  auto logger = std::make_shared<spdlog::logger>(std::string(name), std::move(sink));
  logger->set_pattern("%n: %^%l%$: %v");
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  set_level(level);
}

void set_level(Level level) { spdlog::set_level(native(level)); }
bool enabled(Level level) { return spdlog::should_log(native(level)); }

Level parse_level(std::string_view text, Level fallback) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  struct Word {
    std::string_view name;
    Level level;
  };
  static constexpr std::array words{Word{"trace", Level::trace},     Word{"debug", Level::debug},   Word{"10", Level::debug},
                                    Word{"info", Level::info},       Word{"20", Level::info},       Word{"warning", Level::warning},
                                    Word{"warn", Level::warning},    Word{"30", Level::warning},    Word{"error", Level::error},
                                    Word{"40", Level::error},        Word{"critical", Level::error}, Word{"50", Level::error},
                                    Word{"off", Level::off}};
  const auto* found = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.name == word; });
  return found == words.end() ? fallback : found->level;
}

void trace(std::string_view text) { spdlog::trace(text); }
void debug(std::string_view text) { spdlog::debug(text); }
void info(std::string_view text) { spdlog::info(text); }
void warning(std::string_view text) { spdlog::warn(text); }
void error(std::string_view text) { spdlog::error(text); }

}  // namespace dlaunch::log
