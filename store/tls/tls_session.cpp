#include "store/tls/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "store/base/hmac.h"

namespace dlaunch::store {
namespace {

constexpr const char* cipher = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> cipher_id{0x13, 0x01};
constexpr std::size_t read_step = 1 << 14;  // a record's size

using Session = std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)>;

template <class T>
T* required(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

Session session_of(SSL* ssl, const TlsKey& key) {
  Session session(required(SSL_SESSION_new()), &SSL_SESSION_free);
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.key.data());
  const bool good = SSL_SESSION_set1_master_key(session.get(), bytes, key.key.size()) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), SSL_CIPHER_find(ssl, cipher_id.data())) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  if (!good) throw std::bad_alloc();
  return session;
}

std::string last_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

}  // namespace

class TlsSide {
 public:
  TlsSide(bool is_server, std::vector<TlsKey> keys) : is_server_(is_server), keys_(std::move(keys)) {
    // The machine's configuration of OpenSSL is for other programs.
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
    context_ = required(SSL_CTX_new(is_server_ ? TLS_server_method() : TLS_client_method()));
    SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context_, cipher);
    SSL_CTX_set_num_tickets(context_, 0);
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_app_data(context_, this);
    if (is_server_) {
      SSL_CTX_set_psk_find_session_callback(context_, &TlsSide::find_key);
    } else {
      // Certificates are not used: only the key counts.
      SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
      SSL_CTX_set_psk_use_session_callback(context_, &TlsSide::use_key);
    }
  }
  ~TlsSide() { SSL_CTX_free(context_); }
  TlsSide(const TlsSide&) = delete;
  TlsSide& operator=(const TlsSide&) = delete;

  [[nodiscard]] SSL_CTX* context() const { return context_; }
  [[nodiscard]] bool is_server() const { return is_server_; }

 private:
  static const TlsSide& of(SSL* ssl) {
    return *static_cast<const TlsSide*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }

  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
    const std::string_view named(reinterpret_cast<const char*>(identity), size);
    const std::vector<TlsKey>& keys = of(ssl).keys_;
    const auto known =
        std::find_if(keys.begin(), keys.end(), [&](const TlsKey& k) { return k.identity == named; });
    *session = known == keys.end() ? nullptr : session_of(ssl, *known).release();
    return 1;
  }

  static int use_key(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* size,
                     SSL_SESSION** session) {
    *session = nullptr;
    if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256) return 1;
    const TlsKey& key = of(ssl).keys_.front();
    *identity = reinterpret_cast<const unsigned char*>(key.identity.data());
    *size = key.identity.size();
    *session = session_of(ssl, key).release();
    return 1;
  }

  const bool is_server_;
  const std::vector<TlsKey> keys_;
  SSL_CTX* context_ = nullptr;
};

namespace {

class TlsSession final : public SecureSession {
 public:
  explicit TlsSession(std::shared_ptr<TlsSide> side)
      : side_(std::move(side)),
        ssl_(required(SSL_new(side_->context()))),
        from_wire_(required(BIO_new(BIO_s_mem()))),
        to_wire_(required(BIO_new(BIO_s_mem()))) {
    SSL_set_bio(ssl_, from_wire_, to_wire_);
    if (side_->is_server()) {
      SSL_set_accept_state(ssl_);
    } else {
      SSL_set_connect_state(ssl_);
    }
  }
  ~TlsSession() override { SSL_free(ssl_); }
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  std::string begin() override {
    SSL_do_handshake(ssl_);
    ERR_clear_error();
    std::string wire;
    drain(wire);
    return wire;
  }

  Result<void> take(ByteSpan bytes, std::string& plain, std::string& wire) override {
    ERR_clear_error();
    if (!bytes.empty()) BIO_write(from_wire_, bytes.data(), static_cast<int>(bytes.size()));
    auto done = is_up_ ? read(plain) : shake_hands(plain);
    drain(wire);
    return done;
  }

  [[nodiscard]] bool is_up() const override { return is_up_; }

  void seal(ByteSpan plain, std::string& wire) override {
    ERR_clear_error();
    std::size_t written = 0;
    if (!plain.empty() && SSL_write_ex(ssl_, plain.data(), plain.size(), &written) != 1)
      throw std::bad_alloc();
    drain(wire);
  }

 private:
  Result<void> shake_hands(std::string& plain) {
    const int result = SSL_do_handshake(ssl_);
    if (result != 1) return has_failed(result) ? refusal() : Result<void>{};
    if (SSL_session_reused(ssl_) != 1) return refusal();  // the peer lacks the key
    is_up_ = true;
    return read(plain);
  }

  Result<void> read(std::string& plain) {
    while (true) {
      const std::size_t before = plain.size();
      plain.resize(before + read_step);
      std::size_t got = 0;
      const int result = SSL_read_ex(ssl_, plain.data() + before, read_step, &got);
      plain.resize(before + got);
      if (result == 1) continue;
      return has_failed(result) ? refusal() : Result<void>{};
    }
  }

  [[nodiscard]] bool has_failed(int result) const {
    return SSL_get_error(ssl_, result) != SSL_ERROR_WANT_READ;
  }

  [[nodiscard]] Result<void> refusal() const {
    const std::string why = last_reason();
    if (is_up_) return Error{ErrorKind::network, "", "", "the TLS connection ended: " + why, ""};
    return Error{ErrorKind::refused, "", "",
                 "the TLS handshake failed (" + why + "); both ends need the same secret",
                 "give both the same --token-file"};
  }

  void drain(std::string& wire) {
    while (const std::size_t pending = BIO_ctrl_pending(to_wire_)) {
      const std::size_t before = wire.size();
      wire.resize(before + pending);
      std::size_t got = 0;
      BIO_read_ex(to_wire_, wire.data() + before, pending, &got);
      wire.resize(before + got);
    }
  }

  std::shared_ptr<TlsSide> side_;
  SSL* ssl_;
  BIO* from_wire_;  // of ssl_
  BIO* to_wire_;    // of ssl_
  bool is_up_ = false;
};

}  // namespace

TlsKey tls_key_of_store(const std::string& store_key) {
  return {"dlaunch store", hmac_sha256(store_key, "dlaunch tls store")};
}

TlsKey tls_key_of_agents(const std::string& secret) {
  return {"dlaunch agent", hmac_sha256(secret, "dlaunch tls agent")};
}

std::shared_ptr<TlsSide> make_tls_client(TlsKey key) {
  return std::make_shared<TlsSide>(false, std::vector<TlsKey>{std::move(key)});
}

std::shared_ptr<TlsSide> make_tls_server(std::vector<TlsKey> keys) {
  return std::make_shared<TlsSide>(true, std::move(keys));
}

std::unique_ptr<SecureSession> make_tls_session(const std::shared_ptr<TlsSide>& side) {
  return std::make_unique<TlsSession>(side);
}

}  // namespace dlaunch::store
