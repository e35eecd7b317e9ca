// A decision in a steady stream of requests allocates nothing: what it needs is kept from requests
// that are gone.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <new>
#include <vector>

#include "tests/policy/front_desk.h"

namespace {

std::size_t allocations = 0;

}  // namespace

// A sanitizer brings its own allocator, forms included that cannot be replaced here.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;

// Not inlined: the compiler would see free() beside new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations += 1;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace turnstile::policy {
namespace {

TEST(SteadyDecision, AllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer owns the allocator";
  FrontDesk desk(R"(
schema = 1
[defaults]
inflight = 3
requests_per_minute = 600_000
tokens_per_minute = "100M"
queue_tokens = "1M"
[depts.main]
[teams.red]
dept = "main"
[teams.blue]
dept = "main"
)",
                 small_engine(), {key_of("anna", "red"), key_of("bob", "blue")});
  std::vector<Outcome> out;
  std::deque<RequestId> running;
  std::size_t decided = 0;
  for (std::uint64_t id = 1; id <= 400; ++id) {
    const char* key = id % 2 == 0 ? "anna" : "bob";
    const bool warm = id > 100;
    const std::size_t before = allocations;
    const auto resolved = desk.admission.resolve(desk.now, {key, std::nullopt, std::nullopt});
    TokenFacts facts;
    facts.prompt_tokens = 16;
    facts.max_tokens = 16;
    const auto queued = desk.admission.admit(desk.now, RequestId{id}, *resolved, facts);
    ASSERT_TRUE(queued);
    desk.admission.dispatch(desk.now, out);
    const std::size_t used = allocations - before;
    for (const Outcome& outcome : out) running.push_back(std::get<Dispatch>(outcome).id);
    out.clear();
    const std::size_t before_end = allocations;
    if (id > 8) {
      desk.admission.on_tokens(desk.now, running.front(), 16, 16);
      desk.admission.on_step(desk.now, std::chrono::milliseconds(20));
      desk.admission.on_ended(desk.now, running.front(), EndKind::Completed, {16, 16});
      running.pop_front();
    }
    desk.now += std::chrono::milliseconds(20);
    if (!warm) continue;
    decided += 1;
    EXPECT_EQ(used, 0u) << "request " << id;
    EXPECT_EQ(allocations - before_end, 0u) << "the end before request " << id;
  }
  EXPECT_EQ(decided, 300u);
}

}  // namespace
}  // namespace turnstile::policy
