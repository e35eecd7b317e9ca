// few_threads.h: a process that the system gives some more threads and then no further one.
//
// For a child that ends (EXPECT_EXIT): nothing is put back. Works by the address space that stacks
// take, which root has to obey as well; sanitizers reserve that for themselves, so they skip.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cassert>
#include <fstream>

namespace turnstile::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadsCanBeLimited = false;
#else
inline constexpr bool kThreadsCanBeLimited = true;
#endif
inline constexpr const char* kNoThreadLimit = "the sanitizer owns the address space";

inline void allow_threads(rlim_t count) {
  constexpr rlim_t kStackBytes = rlim_t{16} << 20;
  pthread_attr_t attributes;
  bool done = pthread_attr_init(&attributes) == 0 &&
              pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
              pthread_setattr_default_np(&attributes) == 0;
  rlim_t used_pages = 0;
  std::ifstream("/proc/self/statm") >> used_pages;
  const rlim_t used = used_pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  const rlim_t bytes = used + count * kStackBytes + kStackBytes / 2;
  const rlimit limit{bytes, bytes};
  done = done && used > 0 && ::setrlimit(RLIMIT_AS, &limit) == 0;
  assert(done && "the number of threads is limited");
  static_cast<void>(done);
}

}  // namespace turnstile::tests
