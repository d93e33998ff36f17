// A pool of threads that help one thread with the parts of its kernels. The thread takes part
// itself: it claims a part like its helpers do, so it never waits for a helper that the system has
// not scheduled yet, only for parts that helpers have begun.
//
// Invariants
//   P1. Every part runs exactly once, and `run` returns when all parts have run.
//   P2. A helper reads a call only after it has claimed a part of it, so never a call that is over.
//   P3. The destructor joins all helpers: none outlives the thread that owns the pool.

#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace osiris {

class Pool {
 public:
  using Run = void (*)(void* of, int64_t part);

  /// Starts up to `helpers` threads. Where the system refuses one, the pool has fewer: they change
  /// the time of a kernel, and no bit.
  explicit Pool(int64_t helpers);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();  // P3

  /// The threads that run parts: the helpers, and the caller.
  int64_t threads() const { return static_cast<int64_t>(helpers_.size()) + 1; }

  /// Calls run(of, part) for each part below `parts`. Throws std::bad_alloc where a part did.
  void run(int64_t parts, Run run, void* of);

 private:
  /// Polls before a thread sleeps: the next kernel mostly follows within some 20 us, and waking a
  /// sleeping thread takes longer than many kernels.
  static constexpr int spins = 1000;
  static constexpr uint64_t partsMask = 0xffffffff;

  void help();
  /// Runs parts of call `number` until none is left to claim.
  void claimParts(uint64_t number);
  void awaitEnd();

  // The call that is running. Written before `open_`, read after a part was claimed (P2).
  Run run_ = nullptr;
  void* of_ = nullptr;
  int64_t parts_ = 0;

  /// The number of the call in the upper half, its unclaimed parts in the lower half.
  std::atomic<uint64_t> open_{0};
  std::atomic<int64_t> unfinished_{0};
  std::atomic<bool> isOutOfMemory_{false};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> isAwaited_{false};
  // POSIX primitives, because std::thread and std::condition_variable of a new compiler need a newer
  // C++ library than the package supports (test/package-symbols.sh).
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t opened_ = PTHREAD_COND_INITIALIZER;
  pthread_cond_t ended_ = PTHREAD_COND_INITIALIZER;
  bool isClosed_ = false;
  std::vector<pthread_t> helpers_;
};

}  // namespace osiris
