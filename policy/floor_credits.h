// floor_credits.h: the share of all service that each class is sure of while it has work waiting.
//
// While requests of a class wait, the class earns its floor share of whatever is served to anybody,
// and pays for what it starts: the estimate at once, corrected when the request ends. A class with
// credit is *due*: it goes before every other class and may use the whole engine, or its watermark
// could keep it out for ever. Credit is bounded both ways, so a class can neither save up for a
// burst nor fall behind for good. Whenever work begins to wait it starts from what is left of its
// running requests, as a debt: a class that fills the engine is not due besides.
//
// Promise, for any interval in which a class has work waiting:
//   served to it >= floor * served to all - (largest credit + floor * running work + largest debt)
//
// Why not promotion by age: under lasting overload the oldest request is of the lowest class, and
// strict classes turn upside down.
//
// Thread: I/O thread only. Units: service units times 10^6, integers. Cost: O(classes).
// Tests:  tests/policy/floor_credits_test.cpp, tests/sim (three classes at three times the load).
#pragma once

#include <cstdint>
#include <vector>

#include "policy/policy_set.h"

namespace turnstile::policy {

class FloorCredits {
 public:
  // `largest_units`: what the largest request may cost; bounds credit and debt.
  FloorCredits(const std::vector<ClassRules>& classes, std::int64_t largest_units);

  // `running_units`: what its running requests are still expected to cost.
  void set_backlogged(ClassIndex class_index, bool backlogged, std::int64_t running_units = 0);
  bool backlogged(ClassIndex class_index) const { return classes_[class_index].backlogged; }
  void on_served(std::int64_t units);                        // to whatever class
  void charge(ClassIndex class_index, std::int64_t units);   // negative: a correction

  bool due(ClassIndex class_index) const;
  std::int64_t credit_units(ClassIndex class_index) const;   // for metrics, rounded down

 private:
  struct PerClass {
    std::int64_t floor_ppm = 0;
    std::int64_t credit = 0;
    bool backlogged = false;
  };
  std::vector<PerClass> classes_;
  std::int64_t most_;
};

}  // namespace turnstile::policy
