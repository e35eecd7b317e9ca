// Weights, outputs and caches of more than 4 GiB: an offset that is computed in 32 bits somewhere
// finds a page of zeros. The memory is sparse: only the pages that a test writes exist.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/kernels/random_tensors.h"
#include "tests/kernels/tested_tables.h"

namespace turnstile::kernels {
namespace {

constexpr std::size_t kFourGiB = std::size_t{1} << 32;

class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping != MAP_FAILED) data_ = static_cast<std::byte*>(mapping);
  }
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  std::byte* data() { return data_; }  // null: the system has no such address space

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

// A vocabulary of 1.7 million rows; the last 16 of them are all that is there.
TEST(LargeOffsets, ThePanelBehindFourGiBIsPackedReadAndMultiplied) {
  constexpr int kCols = 4096;
  std::mt19937 random(1);
  const RandomMatrix last(FileType::Q4_1, kPanelRows, kCols, random);
  const auto panel = static_cast<int>(kFourGiB / last.panels.size()) + 100;
  const PanelMatrix shape{last.view().type, (panel + 1) * kPanelRows, kCols, nullptr};
  const std::size_t file_bytes =
      file_row_bytes(last.type, kCols) * static_cast<std::size_t>(shape.rows);
  ASSERT_GT(file_bytes - last.file.size(), kFourGiB);
  SparseMemory file(file_bytes);
  SparseMemory panels(panel_bytes(shape.type, shape.rows, kCols));
  if (file.data() == nullptr || panels.data() == nullptr) {
    GTEST_SKIP() << "the system gives no 4 GiB of addresses without memory behind them";
  }
  std::memcpy(file.data() + file_bytes - last.file.size(), last.file.data(), last.file.size());
  pack_panels(last.type, file.data(), shape.rows, kCols, panel, panel + 1, panels.data());
  const PanelMatrix whole{shape.type, shape.rows, kCols, panels.data()};

  std::vector<float> expected_row(kCols);
  std::vector<float> row(kCols);
  dequantize_row(last.view(), 5, expected_row.data());
  dequantize_row(whole, panel * kPanelRows + 5, row.data());
  EXPECT_EQ(row, expected_row);

  std::vector<const KernelTable*> tables = tested_tables();
  for (const Numerics numerics : {Numerics::Bf16, Numerics::Float32}) {
    tables.push_back(&kernel_table(Level::Scalar, numerics));
  }
  const auto stride = static_cast<std::size_t>(shape.rows);
  for (const int rows : {1, 3, 16}) {
    RandomActivations x(rows, kCols, random);
    SparseMemory out(stride * static_cast<std::size_t>(rows) * sizeof(float));
    ASSERT_NE(out.data(), nullptr);
    auto* values = reinterpret_cast<float*>(out.data());
    for (const KernelTable* table : tables) {
      table->quantize(x.view(), 0, rows);
      std::vector<float> expected(static_cast<std::size_t>(rows * kPanelRows));
      table->matmul(last.view(), x.view(), 0, 1, expected.data(), kPanelRows, OutputMode::Store);
      for (std::size_t t = 1; t <= static_cast<std::size_t>(rows); ++t) {
        std::fill_n(values + t * stride - kPanelRows, kPanelRows, 0.0F);
      }
      table->matmul(whole, x.view(), panel, panel + 1, values, stride, OutputMode::Store);
      for (std::size_t t = 0; t < static_cast<std::size_t>(rows); ++t) {
        EXPECT_EQ(std::memcmp(values + (t + 1) * stride - kPanelRows,
                              expected.data() + t * kPanelRows, kPanelRows * sizeof(float)), 0)
            << trace_of(*table) << ", row " << t << " of " << rows;
      }
    }
  }
}

// 21 positions in the last two blocks of the second layer.
TEST(LargeOffsets, TheBlocksOfACacheBehindFourGiBAreWrittenAndAttended) {
  constexpr int kPositions = 21;
  std::mt19937 random(2);
  for (const KvType type : {KvType::F16, KvType::F32, KvType::Int8}) {
    KvLayout small{.type = type, .layers = 1, .kv_heads = 2, .head_dim = 72, .block_count = 2};
    KvLayout large = small;
    large.layers = 2;
    large.block_count = kFourGiB / (small.block_bytes()) + 100;
    SparseMemory pool(large.pool_bytes());
    if (pool.data() == nullptr) {
      GTEST_SKIP() << "the system gives no 8 GiB of addresses without memory behind them";
    }
    std::vector<std::byte> small_pool(small.pool_bytes());
    std::byte* layer = pool.data() + large.offset(1, 0, 0);
    const BlockId small_blocks[] = {0, 1};
    const BlockId blocks[] = {static_cast<BlockId>(large.block_count - 2),
                              static_cast<BlockId>(large.block_count - 1)};
    const std::vector<float> k = random_floats(kPositions * 144, random);
    const std::vector<float> v = random_floats(kPositions * 144, random);
    const std::vector<float> q = random_floats(2 * 144, random);
    for (const KernelTable* table : tested_tables()) {
      std::memset(layer + large.offset(0, blocks[0], 0), 0, small.pool_bytes());
      for (int p = 0; p < kPositions; ++p) {
        const int block = p / kKvBlockTokens;
        table->kv_write(small, small_pool.data(), small_blocks[block], p % kKvBlockTokens,
                        k.data() + p * 144, v.data() + p * 144);
        table->kv_write(large, layer, blocks[block], p % kKvBlockTokens, k.data() + p * 144,
                        v.data() + p * 144);
      }
      std::vector<float> expected(2 * 144);
      std::vector<float> out(2 * 144);
      std::vector<float> scratch(attention_scratch_floats(72));
      AttentionRows rows{.q = q.data(), .q_stride = 144, .out = expected.data(), .out_stride = 144,
                         .rows = 2, .q_heads = 2, .first_position = kPositions - 2,
                         .blocks = small_blocks};
      for (int head = 0; head < 2; ++head) {
        table->attend(small, small_pool.data(), rows, head, 0, 2, scratch.data());
      }
      rows.out = out.data();
      rows.blocks = blocks;
      for (int head = 0; head < 2; ++head) {
        table->attend(large, layer, rows, head, 0, 2, scratch.data());
      }
      EXPECT_EQ(out, expected) << trace_of(*table) << ", cache " << static_cast<int>(type);
    }
  }
}

}  // namespace
}  // namespace turnstile::kernels
