// The pool of helpers (pool.h).

#include "threads/pool.h"

#include <new>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "threads/lock.h"

// A glibc of 2.34 and newer has these functions twice: by the name of an older version they are
// found in every glibc that the package supports. Sanitizers replace them by their plain names.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__x86_64__)
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_create,pthread_create@GLIBC_2.17");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.17");
#endif
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
  helpers_.reserve(static_cast<size_t>(helpers));
  const auto help = [](void* pool) -> void* {
    static_cast<Pool*>(pool)->help();
    return nullptr;
  };
  for (int64_t i = 0; i < helpers; i++) {
    pthread_t helper;
    if (pthread_create(&helper, nullptr, help, this) != 0) return;
    helpers_.push_back(helper);
  }
}

Pool::~Pool() {
  {
    const Lock lock(mutex_);
    isClosed_ = true;
  }
  pthread_cond_broadcast(&opened_);
  for (const pthread_t helper : helpers_) pthread_join(helper, nullptr);  // P3
  pthread_cond_destroy(&opened_);
  pthread_cond_destroy(&ended_);
  pthread_mutex_destroy(&mutex_);
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
    { const Lock lock(mutex_); }
    for (; woken > 0; woken--) pthread_cond_signal(&opened_);
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
      { const Lock lock(mutex_); }
      pthread_cond_signal(&ended_);
    }
    seen = open_.load();
  }
}

void Pool::awaitEnd() {
  for (int i = 0; i < spins; i++) {
    if (unfinished_.load(std::memory_order_acquire) == 0) return;
    pause();
  }
  const Lock lock(mutex_);
  isAwaited_.store(true);
  while (unfinished_.load() != 0) pthread_cond_wait(&ended_, &mutex_);
  isAwaited_.store(false);
}

void Pool::help() {
#if defined(__linux__)
  prctl(PR_SET_NAME, "osiris-helper");  // At most 15 characters.
#endif
  for (;;) {
    uint64_t seen = 0;
    for (int i = 0; i < spins && (seen & partsMask) == 0; i++) {
      seen = open_.load();
      pause();
    }
    if ((seen & partsMask) == 0) {
      const Lock lock(mutex_);
      sleeping_.fetch_add(1);
      for (seen = open_.load(); !isClosed_ && (seen & partsMask) == 0; seen = open_.load()) {
        pthread_cond_wait(&opened_, &mutex_);
      }
      sleeping_.fetch_sub(1);
      if (isClosed_) return;
    }
    claimParts(seen >> 32);
  }
}

}  // namespace osiris
