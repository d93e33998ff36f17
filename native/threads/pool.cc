// The pool of helpers (pool.h).

#include "threads/pool.h"

#include <new>
#include <system_error>

#if defined(__linux__)
#include <pthread.h>
#endif

namespace osiris {

static inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

Pool::Pool(int64_t helpers) {
  for (int64_t i = 0; i < helpers; i++) {
    try {
      helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      return;
    }
  }
}

Pool::~Pool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    isClosed_ = true;
  }
  opened_.notify_all();
  for (std::thread& helper : helpers_) helper.join();  // P3
}

void Pool::run(int64_t parts, Run run, void* of) {
  run_ = run;
  of_ = of;
  parts_ = parts;
  isOutOfMemory_.store(false, std::memory_order_relaxed);
  unfinished_.store(parts, std::memory_order_relaxed);
  const uint64_t number = (open_.load(std::memory_order_relaxed) >> 32) + 1;
  open_.store(number << 32 | static_cast<uint64_t>(parts));
  // A helper counts itself as sleeping before it looks at `open_`: one of the two sees the other.
  int64_t woken = sleeping_.load();
  if (woken > parts - 1) woken = parts - 1;
  if (woken > 0) {
    { const std::lock_guard<std::mutex> lock(mutex_); }
    for (; woken > 0; woken--) opened_.notify_one();
  }
  claimParts(number & partsMask);
  awaitEnd();  // P1
  if (isOutOfMemory_.load(std::memory_order_relaxed)) throw std::bad_alloc();
}

void Pool::claimParts(uint64_t number) {
  uint64_t seen = open_.load();
  while (seen >> 32 == number && (seen & partsMask) > 0) {
    if (!open_.compare_exchange_weak(seen, seen - 1)) continue;
    try {
      run_(of_, parts_ - static_cast<int64_t>(seen & partsMask));  // P2
    } catch (const std::bad_alloc&) {
      isOutOfMemory_.store(true, std::memory_order_relaxed);
    }
    if (unfinished_.fetch_sub(1) == 1 && isAwaited_.load()) {
      { const std::lock_guard<std::mutex> lock(mutex_); }
      ended_.notify_one();
    }
    seen = open_.load();
  }
}

void Pool::awaitEnd() {
  for (int i = 0; i < spins; i++) {
    if (unfinished_.load(std::memory_order_acquire) == 0) return;
    pause();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  isAwaited_.store(true);
  ended_.wait(lock, [this] { return unfinished_.load() == 0; });
  isAwaited_.store(false);
}

void Pool::help() {
#if defined(__linux__)
  pthread_setname_np(pthread_self(), "osiris-helper");  // At most 15 characters.
#endif
  for (;;) {
    uint64_t seen = 0;
    for (int i = 0; i < spins && (seen & partsMask) == 0; i++) {
      seen = open_.load();
      pause();
    }
    if ((seen & partsMask) == 0) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleeping_.fetch_add(1);
      opened_.wait(lock, [&] {
        seen = open_.load();
        return isClosed_ || (seen & partsMask) > 0;
      });
      sleeping_.fetch_sub(1);
      if (isClosed_) return;
    }
    claimParts(seen >> 32);
  }
}

}  // namespace osiris
