#include "policy/permit.h"

#include <gtest/gtest.h>

#include <utility>

namespace turnstile::policy {
namespace {

TEST(Meter, FitsUpToItsCapacity) {
  Meter meter("kv_blocks", "engine", 10);
  EXPECT_TRUE(meter.fits(10));
  EXPECT_FALSE(meter.fits(11));
  meter.commit(4);
  EXPECT_TRUE(meter.fits(6));
  EXPECT_FALSE(meter.fits(7));
  meter.release(4);
  EXPECT_EQ(meter.committed(), 0);
}

TEST(Meter, LoweredCapacityCutsNothing) {
  Meter meter("inflight/key/anna", "key/anna", 4);
  meter.commit(3);
  meter.set_capacity(1);
  EXPECT_EQ(meter.committed(), 3);
  EXPECT_FALSE(meter.fits(0));
  meter.release(2);
  EXPECT_TRUE(meter.fits(0));
  meter.set_capacity(std::nullopt);
  EXPECT_TRUE(meter.fits(1'000'000));
}

TEST(Permit, ReleasesEverythingOnce) {
  Meter slots("sequence_slots", "engine", 4);
  Meter blocks("kv_blocks", "engine", 100);
  Permit permit;
  permit.add(slots, 2);
  permit.add(blocks, 30);
  EXPECT_EQ(slots.committed(), 2);
  EXPECT_EQ(blocks.committed(), 30);
  permit.release();
  permit.release();
  EXPECT_EQ(slots.committed(), 0);
  EXPECT_EQ(blocks.committed(), 0);
  EXPECT_TRUE(permit.empty());
}

TEST(Permit, DestructorReleasesWhatRemains) {
  Meter blocks("kv_blocks", "engine", 100);
  {
    Permit permit;
    permit.add(blocks, 30);
    permit.give_back(blocks, 12);
    EXPECT_EQ(blocks.committed(), 18);
    EXPECT_EQ(permit.held(blocks), 18);
  }
  EXPECT_EQ(blocks.committed(), 0);
}

TEST(Permit, MoveTransfersTheDuty) {
  Meter blocks("kv_blocks", "engine", 100);
  Permit first;
  first.add(blocks, 30);
  Permit second(std::move(first));
  EXPECT_EQ(blocks.committed(), 30);
  Permit third;
  third.add(blocks, 5);
  third = std::move(second);
  EXPECT_EQ(blocks.committed(), 30) << "what it held before went back";
  third.release();
  EXPECT_EQ(blocks.committed(), 0);
}

TEST(PermitDeathTest, GivingBackMoreThanIsHeldIsOurBug) {
  Meter blocks("kv_blocks", "engine", 100);
  Permit permit;
  permit.add(blocks, 3);
  EXPECT_DEATH(permit.give_back(blocks, 4), "only what is held");
}

}  // namespace
}  // namespace turnstile::policy
