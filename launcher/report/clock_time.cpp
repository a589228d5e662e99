#include "launcher/report/clock_time.h"

#include <ctime>

namespace dlaunch::launcher {

std::string clock_time(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  char text[16];
  if (!localtime_r(&seconds, &parts) || std::strftime(text, sizeof text, "%H:%M:%S", &parts) == 0) return "";
  return text;
}

}  // namespace dlaunch::launcher
