// One end of a connection: bytes to and from a descriptor that does not block, plain or in TLS, and
// waits that another thread can end.

#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <memory>

#if defined(__linux__)
#include <linux/errqueue.h>
#include <sys/eventfd.h>
#endif

#include "links/tls.h"

namespace osiris::links {

#if !defined(MSG_NOSIGNAL)
#define MSG_NOSIGNAL 0
#endif

/// Wakes a thread that waits in `poll`.
class Bell {
 public:
  Bell() {
#if defined(__linux__)
    ends_[0] = ends_[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
#else
    if (pipe(ends_) == 0) {
      for (const int end : ends_) fcntl(end, F_SETFL, O_NONBLOCK), fcntl(end, F_SETFD, FD_CLOEXEC);
    }
#endif
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  ~Bell() {
    if (ends_[1] != ends_[0]) close(ends_[1]);
    if (ends_[0] >= 0) close(ends_[0]);
  }
  bool isThere() const { return ends_[0] >= 0; }
  int descriptor() const { return ends_[0]; }
  void ring() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t done = write(ends_[1], &one, sizeof one);
  }
  void silence() {
    uint64_t rings[8];
    while (read(ends_[0], rings, sizeof rings) > 0 && ends_[0] != ends_[1]) {
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

class Channel {
 public:
  /// Owns the descriptor. `key`: of TLS, or nullptr.
  Channel(int descriptor, const uint8_t* key, bool isClient) : descriptor_(descriptor) {
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    const auto set = [&](int level, int option, int value) {
      return setsockopt(descriptor, level, option, &value, sizeof value) == 0;
    };
    sockaddr_storage name{};
    socklen_t bytes = sizeof name;
    getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &bytes);
    if (name.ss_family == AF_UNIX) {
      set(SOL_SOCKET, SO_SNDBUF, 4 << 20);  // The system may allow less. TCP sizes its own.
    } else {
      set(IPPROTO_TCP, TCP_NODELAY, 1);
      set(SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(__linux__)
      // A host that vanished is noticed, even if the bridge's deadlines are long.
      set(IPPROTO_TCP, TCP_KEEPIDLE, 5), set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
      set(IPPROTO_TCP, TCP_KEEPCNT, 3), set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
#endif
#if defined(SO_ZEROCOPY)
      pins_ = key == nullptr && set(SOL_SOCKET, SO_ZEROCOPY, 1);
#endif
    }
    if (key != nullptr) tls_ = std::make_unique<Tls>(descriptor, key, isClient);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() {
    tls_.reset();
    close(descriptor_);
  }

  /// > 0: bytes; 0: the other end closed; else negative: `again` or `failed`.
  static constexpr ssize_t again = -1, failed = -2;

  ssize_t read(iovec* spans, int count) {
    if (tls_ != nullptr) return inTls([&] { return tls_->read(spans->iov_base, spans->iov_len); });
    wants_ = POLLIN;
    return bare([&] { return readv(descriptor_, spans, count); });
  }

  /// Writes some of the spans. `isLasting`: the bytes stay unchanged until the receiver has them.
  ssize_t write(iovec* spans, int count, bool isLasting = false) {
    if (tls_ != nullptr) return inTls([&] { return tls_->write(spans->iov_base, spans->iov_len); });
    msghdr message{};
    message.msg_iov = spans;
    message.msg_iovlen = count;
    int flags = MSG_NOSIGNAL;
#if defined(MSG_ZEROCOPY)
    if (isLasting && pins_) flags |= MSG_ZEROCOPY;
#endif
    wants_ = POLLOUT;
    const ssize_t done = bare([&] { return sendmsg(descriptor_, &message, flags); });
    hasPinned_ = hasPinned_ || (isLasting && pins_);
    if (isLasting) takeNotices();
    if (done != failed || error_ != ENOBUFS || !pins_) return done;
    pins_ = false;  // The system pins no more of this process's memory: it copies from now on.
    return write(spans, count);
  }

  /// The handshake of TLS, within a deadline. Returns false if it failed, or `stop` was rung.
  bool handshake(Bell& stop, const std::atomic<bool>& isStopping, int64_t deadlineMs) {
    timespec now{};
    const auto nowMs = [&] {
      clock_gettime(CLOCK_MONOTONIC, &now);
      return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
    };
    const int64_t untilMs = nowMs() + deadlineMs;
    while (tls_ != nullptr && !isStopping) {
      const ssize_t done = inTls([&] { return tls_->handshake(); });
      if (done > 0) return true;
      const int64_t leftMs = untilMs - nowMs();
      if (done != again || leftMs <= 0) {
        failure_ = "its TLS handshake failed: " +
                   (done == failed ? failure_ : done == 0 ? "it was cut" : "it took too long");
        return false;
      }
      wait(wants_, stop, static_cast<int>(leftMs));
    }
    return !isStopping;
  }

  /// Waits until the descriptor is ready, the bell rings or the time is over.
  void wait(int events, Bell& bell, int timeoutMs = -1) {
    pollfd both[2] = {{descriptor_, static_cast<short>(events), 0},
                      {bell.descriptor(), POLLIN, 0}};
    poll(both, 2, timeoutMs);
    if (both[0].revents & POLLERR) takeNotices();
    if (both[1].revents != 0) bell.silence();
  }

  /// What the descriptor must be ready for, so that the last call that returned `again` goes on.
  int wants() const { return wants_; }

  /// Closes the direction from this end, after the bytes that were written to it.
  void shutWrite() { shutdown(descriptor_, SHUT_WR); }

  /// Whether lasting bytes are sent without a copy.
  bool pins() const { return pins_; }

  std::string failure() const { return failure_; }

 private:
  template <typename Run>
  ssize_t bare(Run run) {
    ssize_t done;
    do done = run();
    while (done < 0 && errno == EINTR);
    if (done >= 0) return done;
    error_ = errno;
    if (error_ == EAGAIN || error_ == EWOULDBLOCK) return again;
    failure_ = std::strerror(error_);
    return failed;
  }

  template <typename Run>
  ssize_t inTls(Run run) {
    const ssize_t done = run();
    if (done >= 0) return done;
    wants_ = done == Tls::wantsWrite ? POLLOUT : POLLIN;
    if (done != Tls::failed) return again;
    failure_ = tls_->failure();
    return failed;
  }

  /// Takes the system's notices about pinned bytes that it sent. If it copied them all the same, as
  /// it does between processes of one machine, later bytes are not pinned.
  void takeNotices() {
#if defined(MSG_ZEROCOPY) && defined(SO_EE_ORIGIN_ZEROCOPY)
    while (hasPinned_) {
      char control[128];
      msghdr message{};
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      if (recvmsg(descriptor_, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
      for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
        sock_extended_err notice;
        std::memcpy(&notice, CMSG_DATA(one), sizeof notice);
        const bool isCopied = (notice.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0;
        if (notice.ee_origin == SO_EE_ORIGIN_ZEROCOPY && isCopied) pins_ = false;
      }
    }
#endif
  }

  int descriptor_;
  std::unique_ptr<Tls> tls_;
  bool pins_ = false;
  bool hasPinned_ = false;
  int wants_ = POLLIN;
  int error_ = 0;
  std::string failure_;
};

}  // namespace osiris::links
