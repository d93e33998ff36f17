// TLS 1.3 with a pre-shared key, by the OpenSSL that is linked into Node. The symbols are weak: the
// addon needs no library, and loads where a Node has none of them. They are those of OpenSSL 3.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <string>

extern "C" {
#define OSIRIS_SSL(result, name, ...) result name(__VA_ARGS__) __attribute__((weak))
typedef unsigned int (*OsirisPskClient)(void* ssl, const char* hint, char* identity,
                                        unsigned int identityMax, unsigned char* key,
                                        unsigned int keyMax);
typedef unsigned int (*OsirisPskServer)(void* ssl, const char* identity, unsigned char* key,
                                        unsigned int keyMax);
OSIRIS_SSL(unsigned long, OpenSSL_version_num, void);
OSIRIS_SSL(const void*, TLS_method, void);
OSIRIS_SSL(void*, SSL_CTX_new, const void* method);
OSIRIS_SSL(void, SSL_CTX_free, void* context);
OSIRIS_SSL(long, SSL_CTX_ctrl, void* context, int command, long number, void* pointer);
OSIRIS_SSL(int, SSL_CTX_set_ciphersuites, void* context, const char* names);
OSIRIS_SSL(int, SSL_CTX_set_num_tickets, void* context, size_t count);
OSIRIS_SSL(void, SSL_CTX_set_default_read_buffer_len, void* context, size_t bytes);
OSIRIS_SSL(void, SSL_CTX_set_psk_client_callback, void* context, OsirisPskClient callback);
OSIRIS_SSL(void, SSL_CTX_set_psk_server_callback, void* context, OsirisPskServer callback);
OSIRIS_SSL(void*, SSL_new, void* context);
OSIRIS_SSL(void, SSL_free, void* ssl);
OSIRIS_SSL(int, SSL_set_fd, void* ssl, int descriptor);
OSIRIS_SSL(int, SSL_set_ex_data, void* ssl, int index, void* data);
OSIRIS_SSL(void*, SSL_get_ex_data, const void* ssl, int index);
OSIRIS_SSL(void, SSL_set_connect_state, void* ssl);
OSIRIS_SSL(void, SSL_set_accept_state, void* ssl);
OSIRIS_SSL(int, SSL_do_handshake, void* ssl);
OSIRIS_SSL(int, SSL_read, void* ssl, void* bytes, int count);
OSIRIS_SSL(int, SSL_write, void* ssl, const void* bytes, int count);
OSIRIS_SSL(int, SSL_get_error, const void* ssl, int result);
OSIRIS_SSL(int, SSL_key_update, void* ssl, int kind);
OSIRIS_SSL(void, ERR_clear_error, void);
OSIRIS_SSL(unsigned long, ERR_get_error, void);
OSIRIS_SSL(void, ERR_error_string_n, unsigned long error, char* text, size_t bytes);
#undef OSIRIS_SSL
}

namespace osiris::links {

constexpr size_t keyBytes = 32;

/// One TLS connection over a descriptor. Used by one thread.
class Tls {
 public:
  /// Whether this process has OpenSSL 3.
  static bool isThere() {
    return OpenSSL_version_num != nullptr && SSL_CTX_set_psk_server_callback != nullptr &&
           SSL_key_update != nullptr && OpenSSL_version_num() >> 28 == 3;
  }

  Tls(int descriptor, const uint8_t* key, bool isClient) {
    std::memcpy(key_, key, keyBytes);
    context_ = SSL_CTX_new(TLS_method());
    SSL_CTX_ctrl(context_, setMinVersion, tls13, nullptr);
    SSL_CTX_ctrl(context_, setMode, partialWrites | movingBuffer, nullptr);
    SSL_CTX_ctrl(context_, setReadAhead, 1, nullptr);
    // Several records a system call.
    SSL_CTX_set_default_read_buffer_len(context_, 128 << 10);
    SSL_CTX_set_ciphersuites(context_, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(context_, 0);
    SSL_CTX_set_psk_client_callback(context_, tellKey);
    SSL_CTX_set_psk_server_callback(context_, findKey);
    ssl_ = SSL_new(context_);
    SSL_set_ex_data(ssl_, 0, key_);
    SSL_set_fd(ssl_, descriptor);
    isClient ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }

  /// The result of a call: > 0: success; 0: the other end closed the connection; else one of these.
  enum Outcome : ssize_t { failed = -1, wantsRead = -2, wantsWrite = -3 };

  ssize_t handshake() { return call([&] { return SSL_do_handshake(ssl_); }); }

  ssize_t read(void* bytes, size_t count) {
    return call([&] { return SSL_read(ssl_, bytes, static_cast<int>(count)); });
  }

  ssize_t write(const void* bytes, size_t count) {
    // A key of AES-GCM may protect about 2^24 records. The new one comes with the next record.
    if (sentBytes_ > keyBytesMax && SSL_key_update(ssl_, 0) == 1) sentBytes_ = 0;
    const ssize_t done = call([&] { return SSL_write(ssl_, bytes, static_cast<int>(count)); });
    if (done > 0) sentBytes_ += done;
    return done;
  }

  /// Why a call failed.
  const std::string& failure() const { return failure_; }

 private:
  static constexpr int setMode = 33, setReadAhead = 41, setMinVersion = 123;
  static constexpr long tls13 = 0x0304, partialWrites = 1, movingBuffer = 2;
  static constexpr uint64_t keyBytesMax = uint64_t{1} << 37;

  template <typename Run>
  ssize_t call(Run run) {
    ERR_clear_error();
    const int done = run();
    if (done > 0) return done;
    switch (SSL_get_error(ssl_, done)) {
      case 2: return wantsRead;
      case 3: return wantsWrite;
      case 6: return 0;
    }
    char text[256] = "the connection was cut";
    if (const unsigned long error = ERR_get_error(); error != 0) {
      ERR_error_string_n(error, text, sizeof text);
    }
    failure_ = text;
    return failed;
  }

  static unsigned int tellKey(void* ssl, const char*, char* identity, unsigned int identityMax,
                              unsigned char* key, unsigned int keyMax) {
    if (identityMax < 7 || keyMax < keyBytes) return 0;
    std::memcpy(identity, "osiris", 7);
    return findKey(ssl, identity, key, keyMax);
  }
  static unsigned int findKey(void* ssl, const char*, unsigned char* key, unsigned int keyMax) {
    if (keyMax < keyBytes) return 0;
    std::memcpy(key, SSL_get_ex_data(ssl, 0), keyBytes);
    return keyBytes;
  }

  uint8_t key_[keyBytes];
  void* context_;
  void* ssl_;
  uint64_t sentBytes_ = 0;
  std::string failure_;
};

}  // namespace osiris::links
