// one_of_many.h: a process that may do everything, as in a container, for once may not.
//
// Thread: changes the whole process; for tests that run nothing beside it.
#pragma once

#include <unistd.h>

#include <cstdlib>

namespace turnstile::gateway {

class OneOfMany {
 public:
  OneOfMany() : was_root_(::geteuid() == 0 && ::seteuid(65'534) == 0) {}
  ~OneOfMany() {
    if (was_root_ && ::seteuid(0) != 0) std::abort();
  }
  OneOfMany(const OneOfMany&) = delete;
  OneOfMany& operator=(const OneOfMany&) = delete;

 private:
  bool was_root_;
};

}  // namespace turnstile::gateway
