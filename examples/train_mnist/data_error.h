// What is thrown when a file from outside is not what it should be.
#pragma once

#include <stdexcept>
#include <string>

namespace mnist {

// One line that names the file and says what is wrong with it: "cannot read /data/x.gz: truncated ...".
class DataError : public std::runtime_error {
 public:
  DataError(const std::string& doing, const std::string& path, const std::string& why)
      : std::runtime_error(doing + " " + path + ": " + why) {}
};

}  // namespace mnist
