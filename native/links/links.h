// The native carrier of direct links (src/exchange/links/native-links.ts): a thread for every
// connection, as connections carry frames one way. A sender's thread sends straight from the
// exchange's memory, a receiver's thread receives straight into it. With 127 other hosts these are
// 254 threads, each with at most 256 KiB of stack, of which the touched pages count.
//
// What happens on connections is a queue of reports, which one thread of JavaScript drains.
//
// Invariants
//   L1. When `stop` returns, the thread of the connection has ended: it writes no more memory.
//   L2. The queue is bounded: a receiver with `reportsMax` undrained frames receives no more.
//   L3. `wake` is called once for all reports since the last `drain`, on any thread.

#pragma once

#include <pthread.h>

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "links/channel.h"
#include "links/frames.h"
#include "threads/lock.h"

namespace osiris::links {

/// The event that a report is about; native-links.ts has the same numbers.
enum class Kind : uint32_t { arrived, opened, ended };

/// An event of a connection. `bytes`: the header of the frame that arrived, or, if the connection
/// ended, the text of the error; `ending` is then the reason.
struct Report {
  Kind kind;
  uint32_t connection;
  Ending ending;
  std::vector<uint8_t> bytes;
};

/// Most undrained reports of a connection; the window of a bridge has fewer frames.
constexpr int64_t reportsMax = 4096;
/// Most frames that wait for a sender's thread; a sender that keeps to its window has fewer.
constexpr size_t framesMax = 16'384;

/// The reports of all connections.
class Reports {
 public:
  using Wake = void (*)(void* of);
  Reports(Wake wake, void* of) : wake_(wake), of_(of) {}
  Reports(const Reports&) = delete;
  ~Reports();

  /// Adds a report, without waking.
  void add(Report report);
  void wake();
  /// Waits for room for a connection's reports, until it is stopping. L2
  void awaitRoom(uint32_t connection, const std::atomic<bool>& isStopping);
  /// Wakes waiting connections, which then check whether they are stopping.
  void release();
  /// Moves reports into `to`, as native-links.ts reads them. Returns their bytes; 0: none is left.
  int64_t drain(uint8_t* to, int64_t bytesMax);

 private:
  const Wake wake_;
  void* const of_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t drained_ = PTHREAD_COND_INITIALIZER;
  std::list<Report> queue_;  // The std::deque of new compilers needs a newer C++ library.
  std::map<uint32_t, int64_t> waiting_;  // undrained reports by connection
  bool isWoken_ = false;
};

/// A thread that moves the frames of one connection.
class Connection {
 public:
  Connection(uint32_t id, std::unique_ptr<Channel> channel, Reports& reports, int64_t openMs);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  /// Returns false where the system refuses a thread.
  bool start();
  /// Ends the thread. L1
  void stop();

 protected:
  virtual void run() = 0;
  /// Reports the end, unless `stop` was called.
  void report(Ending ending, const std::string& reason);

  const uint32_t id_;
  const std::unique_ptr<Channel> channel_;
  Reports& reports_;
  const int64_t openMs_;
  Bell bell_;
  std::atomic<bool> isStopping_{false};

 private:
  pthread_t thread_;
  bool isRunning_ = false;
};

class Receiver : public Connection {
 public:
  Receiver(uint32_t id, std::unique_ptr<Channel> channel, Reports& reports, int64_t openMs,
           std::vector<Region> regions)
      : Connection(id, std::move(channel), reports, openMs), intake_(std::move(regions)) {}

 private:
  void run() override;
  void bid(Ending ending);

  Intake intake_;
};

/// A frame to send: its header, and its payload in the exchange's memory.
struct Outgoing {
  std::vector<uint8_t> header;
  std::vector<iovec> payload;
};

class Sender : public Connection {
 public:
  using Connection::Connection;
  ~Sender() override;
  /// Returns false where too many frames wait.
  bool send(Outgoing frame);

 private:
  void run() override;
  bool writeAll(iovec* spans, int count, bool isLasting);
  bool isEnded();
  std::vector<Outgoing> takeFrames();

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::list<Outgoing> queue_;
  uint8_t farewell_[5];
  size_t farewellBytes_ = 0;
};

}  // namespace osiris::links
