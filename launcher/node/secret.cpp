#include "launcher/node/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "launcher/machine/local_addresses.h"
#include "store/base/random.h"
#include "store/client/job_key.h"
#include "store/protocol/key_proof.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t longest_secret = 4096;

Error unusable(const std::string& file, std::string why, std::string remedy) {
  return {ErrorKind::invalid, "cannot read the secret from", file, std::move(why), std::move(remedy)};
}

Result<void> check_readers(int fd, const std::string& file) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return unusable(file, std::strerror(errno), "");
  if (S_ISDIR(about.st_mode)) return unusable(file, "it is a directory", "");
  const bool from_root = about.st_uid == 0 && geteuid() != 0;
  const mode_t others = from_root ? S_IRWXO | S_IWGRP : S_IRWXO | S_IRWXG;
  if (!S_ISREG(about.st_mode) || (about.st_mode & others) == 0) return {};
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", about.st_mode & 07777U);
  return unusable(file, "other users can read or change it (its mode is " + std::string(mode.data()) + ")",
                  "chmod 600 " + file);
}

Result<std::string> read_all(int fd, const std::string& file) {
  std::string text;
  while (text.size() <= longest_secret) {
    std::array<char, longest_secret> piece{};
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unusable(file, std::strerror(errno), "");
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return unusable(file, "it is longer than " + std::to_string(longest_secret) + " bytes", "");
}

Result<std::string> read_secret_file(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return unusable(file, std::strerror(errno), "");
  auto allowed = check_readers(fd, file);
  auto text = allowed ? read_all(fd, file) : Result<std::string>(std::move(allowed).error());
  close(fd);
  return text;
}

}  // namespace

std::string take_secret_variable() {
  constexpr const char* name = "DLAUNCH_TOKEN";
  char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  if (value == nullptr) return "";
  std::string secret = value;
  // /proc/PID/environ shows the memory that the process began with, also for children that do not exec.
  explicit_bzero(value, secret.size());
  unsetenv(name);
  return secret;
}

Result<std::string> read_secret(const std::string& token_file, std::string from_variable) {
  std::string secret = std::move(from_variable);
  if (!token_file.empty()) {
    auto read = read_secret_file(token_file);
    if (!read) return read;
    secret = std::move(*read);
  }
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty() && !token_file.empty()) return unusable(token_file, "it is empty", "");
  return secret;
}

StoreKey key_of_store(const std::string& secret, bool tls) {
  if (secret.empty()) return {};
  return {store_key(secret), [] { return random_bytes(key_nonce_size); },
          [](const std::string& host) { return local_addresses().contains(host); }, tls};
}

Result<std::string> write_store_key(const std::string& folder, const std::string& secret, bool tls) {
  const std::string path = folder + "/store_key";
  const auto cannot = [&] {
    return Error{ErrorKind::io, "cannot write the key of the job's store to", path, std::strerror(errno),
                 "free some space there, or set TMPDIR to another directory"};
  };
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return cannot();
  const std::string text = store_key_text({store_key(secret), tls});
  const bool is_written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!is_written) {
    Error failure = cannot();
    close(fd);
    return failure;
  }
  close(fd);
  return path;
}

}  // namespace dlaunch::launcher
