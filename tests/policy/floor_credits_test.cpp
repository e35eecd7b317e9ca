#include "policy/floor_credits.h"

#include <gtest/gtest.h>

namespace turnstile::policy {
namespace {

std::vector<ClassRules> two_classes(std::int64_t floor_ppm) {
  std::vector<ClassRules> classes(2);
  classes[1].floor_ppm = floor_ppm;
  return classes;
}

TEST(FloorCredits, EarnsItsShareWhileItWaitsAndPaysWhatItStarts) {
  FloorCredits floors(two_classes(100'000), 1000);
  floors.set_backlogged(1, true);
  EXPECT_FALSE(floors.due(1)) << "it starts from nothing";
  floors.on_served(100);
  EXPECT_TRUE(floors.due(1));
  EXPECT_EQ(floors.credit_units(1), 10);
  floors.charge(1, 30);
  EXPECT_FALSE(floors.due(1));
  floors.on_served(200);
  EXPECT_FALSE(floors.due(1)) << "paid back to the unit is not credit";
  floors.on_served(1);
  EXPECT_TRUE(floors.due(1));
  floors.charge(1, 20);
  floors.charge(1, -25);  // it was shorter than expected
  EXPECT_TRUE(floors.due(1));
}

TEST(FloorCredits, NothingIsEarnedOrKeptWithoutWork) {
  FloorCredits floors(two_classes(100'000), 1000);
  floors.on_served(1000);
  floors.set_backlogged(1, true);
  EXPECT_FALSE(floors.due(1));
  floors.on_served(1000);
  floors.set_backlogged(1, true);
  EXPECT_TRUE(floors.due(1)) << "work that goes on waiting keeps its credit";
  floors.set_backlogged(1, false);
  EXPECT_FALSE(floors.due(1));
  floors.set_backlogged(1, true);
  EXPECT_FALSE(floors.due(1));
}

TEST(FloorCredits, WhatRunsWhenWorkBeginsToWaitIsPaidFor) {
  FloorCredits floors(two_classes(100'000), 1000);
  floors.set_backlogged(1, true, 50);
  EXPECT_EQ(floors.credit_units(1), -50);
  floors.on_served(500);
  EXPECT_FALSE(floors.due(1)) << "its running requests are its floor";
  floors.on_served(10);
  EXPECT_TRUE(floors.due(1));
  floors.set_backlogged(1, true, 50);
  EXPECT_TRUE(floors.due(1)) << "paid once";
  floors.set_backlogged(1, false);
  floors.set_backlogged(1, true, 1'000'000);
  EXPECT_EQ(floors.credit_units(1), -1000);
}

TEST(FloorCredits, CreditAndDebtAreBounded) {
  FloorCredits floors(two_classes(500'000), 1000);
  floors.set_backlogged(1, true);
  floors.on_served(1'000'000'000);
  EXPECT_EQ(floors.credit_units(1), 1000);
  floors.charge(1, 1'000'000);
  EXPECT_EQ(floors.credit_units(1), -1000);
}

TEST(FloorCredits, ClassWithoutAFloorIsNeverDue) {
  FloorCredits floors(two_classes(0), 1000);
  floors.set_backlogged(1, true);
  floors.on_served(1000);
  floors.charge(1, -10);
  EXPECT_FALSE(floors.due(1));
}

}  // namespace
}  // namespace turnstile::policy
