// The threads of direct links (links.h).

#include "links/links.h"

#if defined(__linux__)
#include <sys/prctl.h>
#endif

// As in threads/pool.cc.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__x86_64__)
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setstacksize,pthread_attr_setstacksize@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_create,pthread_create@GLIBC_2.17");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.17");
__asm__(".symver pthread_attr_setstacksize,pthread_attr_setstacksize@GLIBC_2.17");
#endif
#endif

namespace osiris::links {

namespace {

constexpr size_t stackBytes = 256 << 10;
/// Payloads from here on are sent without a copy, where the system can.
constexpr size_t lastingBytesMin = 64 << 10;
/// Small frames that are sent in one call, and most of its spans, as the system limits them.
constexpr size_t batchMax = 64;
constexpr size_t spansMax = 1024;
constexpr uint32_t farewellMark = 0x4c534f00;  // As in link-frames.ts.

struct ReportHead {
  uint32_t bytes, kind, connection;
  int32_t ending;
};

}  // namespace

Reports::~Reports() {
  pthread_cond_destroy(&drained_);
  pthread_mutex_destroy(&mutex_);
}

void Reports::add(Report report) {
  const Lock lock(mutex_);
  waiting_[report.connection]++;
  queue_.push_back(std::move(report));
}

void Reports::wake() {
  {
    const Lock lock(mutex_);
    if (isWoken_ || queue_.empty()) return;
    isWoken_ = true;  // L3
  }
  wake_(of_);
}

void Reports::awaitRoom(uint32_t connection, const std::atomic<bool>& isStopping) {
  const Lock lock(mutex_);
  while (waiting_[connection] >= reportsMax && !isStopping) pthread_cond_wait(&drained_, &mutex_);
}

void Reports::release() {
  const Lock lock(mutex_);
  pthread_cond_broadcast(&drained_);
}

int64_t Reports::drain(uint8_t* to, int64_t bytesMax) {
  const Lock lock(mutex_);
  isWoken_ = false;
  int64_t bytes = 0;
  while (!queue_.empty()) {
    const Report& one = queue_.front();
    const int64_t size = sizeof(ReportHead) + one.bytes.size();
    if (bytes + size > bytesMax) break;
    const ReportHead head{static_cast<uint32_t>(one.bytes.size()), static_cast<uint32_t>(one.kind),
                          one.connection, static_cast<int32_t>(one.ending)};
    std::memcpy(to + bytes, &head, sizeof head);
    if (!one.bytes.empty()) {
      std::memcpy(to + bytes + sizeof head, one.bytes.data(), one.bytes.size());
    }
    bytes += size;
    if (--waiting_[one.connection] == 0) waiting_.erase(one.connection);
    queue_.pop_front();
  }
  pthread_cond_broadcast(&drained_);
  return bytes;
}

Connection::Connection(uint32_t id, std::unique_ptr<Channel> channel, Reports& reports,
                       int64_t openMs)
    : id_(id), channel_(std::move(channel)), reports_(reports), openMs_(openMs) {}

bool Connection::start() {
  if (!bell_.isThere()) return false;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stackBytes);
  const auto run = [](void* of) -> void* {
#if defined(__linux__)
    prctl(PR_SET_NAME, "osiris-link");
#endif
    static_cast<Connection*>(of)->run();
    return nullptr;
  };
  isRunning_ = pthread_create(&thread_, &attributes, run, this) == 0;
  pthread_attr_destroy(&attributes);
  return isRunning_;
}

void Connection::stop() {
  isStopping_ = true;
  bell_.ring();
  reports_.release();
  if (isRunning_) pthread_join(thread_, nullptr);
  isRunning_ = false;
}

void Connection::report(Ending ending, const std::string& reason) {
  if (isStopping_) return;
  reports_.add({Kind::ended, id_, ending, {reason.begin(), reason.end()}});
  reports_.wake();
}

void Receiver::run() {
  if (!channel_->handshake(bell_, isStopping_, openMs_)) {
    return report(Ending::cut, channel_->failure());
  }
  iovec spans[Intake::spansMax];
  while (!isStopping_) {
    const int count = intake_.spans(spans);
    const ssize_t done = channel_->read(spans, count);
    if (done == Channel::again) {
      channel_->wait(channel_->wants(), bell_);
      continue;
    }
    if (done <= 0) return report(Ending::cut, channel_->failure());
    const Ending ending = intake_.take(done, [&](const uint8_t* header, int64_t bytes) {
      reports_.add({Kind::arrived, id_, Ending::none, {header, header + bytes}});
    });
    reports_.wake();
    if (ending != Ending::none) {
      bid(ending);
      return report(ending, "");
    }
    reports_.awaitRoom(id_, isStopping_);
  }
  bid(Ending::closed);
}

/// Sends the reason for which this end closes the connection. The message may be lost.
void Receiver::bid(Ending ending) {
  uint8_t farewell[4];
  store(farewell, farewellMark + static_cast<uint32_t>(ending));
  iovec span{farewell, sizeof farewell};
  channel_->write(&span, 1);
  channel_->shutWrite();
}

Sender::~Sender() { pthread_mutex_destroy(&mutex_); }

bool Sender::send(Outgoing frame) {
  {
    const Lock lock(mutex_);
    if (queue_.size() >= framesMax) return false;
    queue_.push_back(std::move(frame));
    if (queue_.size() > 1) return true;  // Its thread was woken for the frames before.
  }
  bell_.ring();
  return true;
}

/// The next frames to send in one call: several small ones, or one. One that lasts comes alone: the
/// headers of others would be pinned with its payload, and freed before they are sent.
std::vector<Outgoing> Sender::takeFrames() {
  std::vector<Outgoing> frames;
  size_t spans = 0, bytes = 0;
  const Lock lock(mutex_);
  while (!queue_.empty() && frames.size() < batchMax) {
    Outgoing& next = queue_.front();
    spans += 1 + next.payload.size();
    for (const iovec& part : next.payload) bytes += part.iov_len;
    if (!frames.empty() && (spans > spansMax || bytes >= lastingBytesMin)) break;
    frames.push_back(std::move(next));
    queue_.pop_front();
  }
  return frames;
}

void Sender::run() {
  if (!channel_->handshake(bell_, isStopping_, openMs_)) {
    return report(Ending::cut, channel_->failure());
  }
  reports_.add({Kind::opened, id_, Ending::none, {}});
  reports_.wake();
  std::vector<iovec> spans;
  while (!isStopping_) {
    std::vector<Outgoing> frames = takeFrames();
    if (frames.empty()) {
      if (isEnded()) return;
      channel_->wait(POLLIN, bell_);
      continue;
    }
    spans.clear();
    size_t payloadBytes = 0;
    for (Outgoing& frame : frames) {
      payloadBytes = 0;
      uint32_t crc = 0;
      spans.push_back({frame.header.data(), frame.header.size()});
      for (const iovec& part : frame.payload) {
        crc = crc32c(static_cast<const uint8_t*>(part.iov_base), part.iov_len, crc);
        payloadBytes += part.iov_len;
        spans.push_back(part);
      }
      sealHeader(frame.header.data(), frame.header.size(), payloadBytes, crc);
    }
    // A header does not last: it is sent with a copy, before its payload.
    const bool lasts = payloadBytes >= lastingBytesMin && channel_->pins();
    if (lasts && !writeAll(spans.data(), 1, false)) return;
    const int first = lasts ? 1 : 0;
    if (!writeAll(spans.data() + first, static_cast<int>(spans.size()) - first, lasts)) return;
  }
}

/// Writes all bytes. Reports the end of the connection and returns false if it ended.
bool Sender::writeAll(iovec* spans, int count, bool isLasting) {
  while (!isStopping_) {
    for (; count > 0 && spans->iov_len == 0; spans++) count--;
    if (count == 0) return true;
    ssize_t done = channel_->write(spans, count, isLasting);
    if (done == Channel::again) {
      const int wants = channel_->wants();
      if (isEnded()) return false;
      channel_->wait(wants | POLLIN, bell_);
      continue;
    }
    if (done <= 0) {
      if (!isEnded()) report(Ending::cut, channel_->failure());
      return false;
    }
    for (; done > 0; spans++, count--) {
      const size_t some = std::min<size_t>(done, spans->iov_len);
      done -= some;
      if (some < spans->iov_len) {
        spans->iov_base = static_cast<uint8_t*>(spans->iov_base) + some;
        spans->iov_len -= some;
        break;
      }
    }
  }
  return false;
}

/// Whether the receiver, which sends nothing else, ended the connection; its reason is reported.
bool Sender::isEnded() {
  for (;;) {
    iovec span{farewell_ + farewellBytes_, sizeof farewell_ - farewellBytes_};
    const ssize_t done = channel_->read(&span, 1);
    if (done == Channel::again) return false;
    if (done > 0) farewellBytes_ += done;
    const bool isOver = farewellBytes_ == sizeof farewell_;
    if (done > 0 && !isOver) continue;
    const uint32_t number = load<uint32_t>(farewell_) - farewellMark;
    const bool isKnown = farewellBytes_ == 4 && number <= static_cast<uint32_t>(Ending::order);
    if (isKnown) report(static_cast<Ending>(number), "");
    else report(Ending::cut, channel_->failure());
    return true;
  }
}

}  // namespace osiris::links
