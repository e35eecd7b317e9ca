// kernels_bench: products and attention of the default model's shapes, for each level of this CPU.
//
//   matmul/<level>/<type>/<outputs>x<inputs>/<activation rows>   one core, weights in cache
//   step/<level>/<threads>/<activation rows>       all products of one step, weights from memory
//   attention/<cache>/<level>/<rows>/<context>     one core, one layer, all heads
//
// GOP/s counts a multiply and an addition as two. Times are CPU time where one core works, so a
// busy machine disturbs them little, and wall time for `step`. Beside it stand shares of what this
// host could do at most (machine_limits.h): multiply_% of the byte multiplications of the threads
// at work, memory_% of what they can read. A product of one row is limited by memory, of many rows
// by multiplications; weights of 8 bits need two on AVX2, so 50 % is their limit there. So it is
// for attention over bytes, whose other side has 16 bits; over halves it multiplies floats, four
// bytes wide, so its limit is 25 %.
#include <benchmark/benchmark.h>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "bench/machine_limits.h"
#include "kernels/half_float.h"
#include "kernels/kernel_table.h"
#include "kernels/worker_pool.h"

namespace turnstile::kernels {
namespace {

constexpr int kHidden = 576;
constexpr int kFeedForward = 1536;
constexpr int kKvWidth = 192;
constexpr int kVocabulary = 49152;
constexpr int kLayers = 30;
constexpr int kPanelsPerItem = 4;
constexpr int kHeadPanelsPerItem = 32;

struct Shape {
  FileType type;
  int rows;
  int cols;
};

// Zeroed memory on huge pages, as the model's weight arena.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : bytes_(bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    madvise(at, bytes, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(at);
  }
  ~Arena() { munmap(data_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* take(std::size_t bytes) {
    std::byte* at = data_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return at;
  }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
  std::size_t used_ = 0;
};

// Weights of random bytes; the scales of a file row are made ordinary before it is packed.
PanelMatrix make_matrix(const Shape& shape, Arena& arena) {
  std::byte* data = arena.take(panel_bytes(panel_type(shape.type), shape.rows, shape.cols));
  std::vector<std::byte> row(file_row_bytes(shape.type, shape.cols));
  std::vector<std::byte> file;
  std::uint32_t state = static_cast<std::uint32_t>(shape.rows * 31 + shape.cols);
  for (std::byte& byte : row) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  const std::uint16_t scale = float_to_half(0.01F);
  const std::size_t block = file_format(shape.type).bytes;
  const std::size_t last = shape.type == FileType::Q6_K ? 208 : 2;
  for (std::size_t at = 0; at < row.size(); at += block) {
    std::memcpy(row.data() + at, &scale, sizeof scale);
    std::memcpy(row.data() + at + last % block, &scale, sizeof scale);
  }
  for (int r = 0; r < kPanelRows; ++r) file.insert(file.end(), row.begin(), row.end());
  const std::size_t panel = panel_bytes(panel_type(shape.type), kPanelRows, shape.cols);
  for (int r = 0; r < shape.rows; r += kPanelRows) {
    pack_panels(shape.type, file.data(), kPanelRows, shape.cols, 0, 1,
                data + static_cast<std::size_t>(r / kPanelRows) * panel);
  }
  return {panel_type(shape.type), shape.rows, shape.cols, data};
}

// Quantised random activations that serve any width up to the feed-forward's.
class Activations {
 public:
  explicit Activations(int rows)
      : f32_(static_cast<std::size_t>(rows) * kFeedForward),
        q_(f32_.size()),
        scale_(f32_.size() / kQuantBlock),
        sum_(scale_.size()),
        scaled_sum_(scale_.size()) {
    for (std::size_t i = 0; i < f32_.size(); ++i) f32_[i] = std::sin(static_cast<float>(i));
    const ActivationRows all = view(rows, kFeedForward);
    kernel_table(best_level(), Numerics::Int8).quantize(all, 0, rows);
  }
  ActivationRows view(int rows, int cols) {
    return {rows, cols, f32_.data(), q_.data(), scale_.data(), sum_.data(), scaled_sum_.data()};
  }

 private:
  std::vector<float> f32_;
  std::vector<std::int8_t> q_;
  std::vector<float> scale_;
  std::vector<std::int32_t> sum_;
  std::vector<float> scaled_sum_;
};

// Measured once, before the first benchmark of each kind.
double multiply_limit(Level level) {
  static std::array<std::optional<double>, kLevels.size()> limits;
  std::optional<double>& limit = limits[static_cast<std::size_t>(level)];
  if (!limit) limit = bench::multiply_gops(level).value_or(0.0);
  return *limit;
}

double memory_limit(int threads) {
  static std::map<int, double> limits;
  const auto [at, is_new] = limits.try_emplace(threads, 0.0);
  if (is_new) at->second = bench::read_gigabytes_per_s(threads);
  return at->second;
}

// Figures of one call: its multiplications and, where they come from memory, bytes of weights.
void count_operations(benchmark::State& state, Level level, int threads,
                      double multiplications_each, double memory_bytes_each = 0.0) {
  const auto rate = [](double each) {
    return benchmark::Counter(each, benchmark::Counter::kIsIterationInvariantRate);
  };
  const double giga_operations = 2e-9 * multiplications_each;
  state.counters["GOP/s"] = rate(giga_operations);
  if (const double limit = multiply_limit(level); limit > 0.0) {
    state.counters["multiply_%"] = rate(100.0 * giga_operations / (limit * threads));
  }
  if (memory_bytes_each > 0.0) {
    state.counters["memory_%"] = rate(1e-7 * memory_bytes_each / memory_limit(threads));
  }
}

void matmul_bench(benchmark::State& state, Level level, Shape shape, int rows) {
  Arena arena(panel_bytes(panel_type(shape.type), shape.rows, shape.cols) + 4096);
  const PanelMatrix w = make_matrix(shape, arena);
  Activations activations(rows);
  const ActivationRows x = activations.view(rows, shape.cols);
  std::vector<float> out(static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.rows));
  const KernelTable& table = kernel_table(level, Numerics::Int8);
  for (auto _ : state) {
    table.matmul(w, x, 0, w.panel_count(), out.data(), static_cast<std::size_t>(shape.rows),
                 OutputMode::Store);
    benchmark::ClobberMemory();
  }
  count_operations(state, level, 1, static_cast<double>(rows) * shape.rows * shape.cols);
}

struct StepWeights {
  StepWeights() : arena(200U << 20) {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const auto& [rows, cols] :
           {std::pair{kHidden, kHidden}, {kKvWidth, kHidden}, {kKvWidth, kHidden},
            {kHidden, kHidden}, {kFeedForward, kHidden}, {kFeedForward, kHidden},
            {kHidden, kFeedForward}}) {
        matrices.push_back(make_matrix({FileType::Q4_1, rows, cols}, arena));
      }
    }
    head = make_matrix({FileType::Q8_0, kVocabulary, kHidden}, arena);
  }
  Arena arena;
  std::vector<PanelMatrix> matrices;
  PanelMatrix head;
};

// A prompt chunk (more than 64 rows) needs the head for its last row alone.
void step_bench(benchmark::State& state, Level level, int threads, int rows) {
  static StepWeights weights;
  const int head_rows = rows > 64 ? 1 : rows;
  Activations activations(rows);
  std::vector<float> out(std::max(static_cast<std::size_t>(rows) * kFeedForward,
                                  static_cast<std::size_t>(head_rows) * kVocabulary));
  const KernelTable& table = kernel_table(level, Numerics::Int8);
  WorkerPool pool(threads);
  const auto multiply = [&](const PanelMatrix& w, int count, int panels) {
    const int items = (w.panel_count() + panels - 1) / panels;
    const ActivationRows x = activations.view(count, w.cols);
    pool.run(items, [&](int item, int) {
      table.matmul(w, x, item * panels, std::min(w.panel_count(), (item + 1) * panels), out.data(),
                   static_cast<std::size_t>(w.rows), OutputMode::Store);
    });
  };
  for (auto _ : state) {
    for (const PanelMatrix& w : weights.matrices) multiply(w, rows, kPanelsPerItem);
    multiply(weights.head, head_rows, kHeadPanelsPerItem);
  }
  double multiplications = static_cast<double>(head_rows) * kVocabulary * kHidden;
  double bytes = static_cast<double>(panel_bytes(weights.head.type, kVocabulary, kHidden));
  for (const PanelMatrix& w : weights.matrices) {
    multiplications += static_cast<double>(rows) * w.rows * w.cols;
    bytes += static_cast<double>(panel_bytes(w.type, w.rows, w.cols));
  }
  count_operations(state, level, threads, multiplications, bytes);
  state.counters["tok/s"] = benchmark::Counter(rows, benchmark::Counter::kIsIterationInvariantRate);
}

void attention_bench(benchmark::State& state, KvType type, Level level, int count, int context) {
  const KvLayout layout{.type = type,
                        .layers = 1,
                        .kv_heads = 3,
                        .head_dim = 64,
                        .block_count = static_cast<std::size_t>(context / kKvBlockTokens)};
  const std::size_t row = 9 * 64;
  std::vector<std::byte> pool(layout.pool_bytes());
  std::vector<BlockId> blocks(layout.block_count);
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::vector<float> q(static_cast<std::size_t>(count) * row, 0.5F);
  std::vector<float> out(q.size());
  std::vector<float> scratch(attention_scratch_floats(64));
  const KernelTable& table = kernel_table(level, Numerics::Int8);
  for (int p = 0; p < context; ++p) {
    std::vector<float> kv(192);
    for (std::size_t i = 0; i < kv.size(); ++i) kv[i] = std::sin(static_cast<float>(p) + 0.1F * i);
    table.kv_write(layout, pool.data(), static_cast<BlockId>(p / kKvBlockTokens),
                   p % kKvBlockTokens, kv.data(), kv.data());
  }
  const AttentionRows rows{.q = q.data(),
                           .q_stride = row,
                           .out = out.data(),
                           .out_stride = row,
                           .rows = count,
                           .q_heads = 9,
                           .first_position = context - count,
                           .blocks = blocks.data()};
  for (auto _ : state) {
    for (int head = 0; head < 3; ++head) {
      table.attend(layout, pool.data(), rows, head, 0, count, scratch.data());
    }
    benchmark::ClobberMemory();
  }
  const double positions = static_cast<double>(count) * (context - (count - 1) / 2.0);
  // Keys, then values. A step reads a long context from memory, unlike here, where it stays in a
  // cache: more than 100 % means that memory would be the limit.
  count_operations(state, level, 1, 2.0 * positions * static_cast<double>(row),
                   static_cast<double>(layout.pool_bytes()));
}

const char* name_of(FileType type) {
  switch (type) {
    case FileType::F32: return "F32";
    case FileType::F16: return "F16";
    case FileType::BF16: return "BF16";
    case FileType::Q8_0: return "Q8_0";
    case FileType::Q4_0: return "Q4_0";
    case FileType::Q4_1: return "Q4_1";
    case FileType::Q5_0: return "Q5_0";
    case FileType::Q5_1: return "Q5_1";
    case FileType::Q4_K: return "Q4_K";
    case FileType::Q5_K: return "Q5_K";
    case FileType::Q6_K: return "Q6_K";
    default: return "other";
  }
}

void register_level(Level level) {
  std::string of_level = "/";
  of_level.append(to_string(level)).append("/");
  for (const Shape& shape :
       {Shape{FileType::Q4_1, kHidden, kHidden}, {FileType::Q4_1, kKvWidth, kHidden},
        {FileType::Q4_1, kFeedForward, kHidden}, {FileType::Q4_1, kHidden, kFeedForward},
        {FileType::Q4_0, kHidden, kHidden}, {FileType::Q8_0, kHidden, kHidden},
        {FileType::Q5_0, kHidden, kHidden}, {FileType::Q5_1, kHidden, kHidden},
        {FileType::Q4_K, kHidden, kFeedForward}, {FileType::Q5_K, kHidden, kFeedForward},
        {FileType::Q6_K, kHidden, kFeedForward}, {FileType::F32, kHidden, kHidden},
        {FileType::F16, kHidden, kHidden}, {FileType::BF16, kHidden, kHidden},
        {FileType::Q8_0, kVocabulary, kHidden}}) {
    for (const int rows : {1, 8, 32, 128, 512}) {
      if (shape.rows == kVocabulary && rows > 32) continue;
      const std::string name = "matmul" + of_level + name_of(shape.type) + "/" +
                               std::to_string(shape.rows) + "x" + std::to_string(shape.cols) + "/" +
                               std::to_string(rows);
      benchmark::RegisterBenchmark(name.c_str(), matmul_bench, level, shape, rows);
    }
  }
  for (const int threads : {1, 2}) {
    for (const int rows : {1, 4, 8, 16, 32, 128, 512}) {
      const std::string name =
          "step" + of_level + std::to_string(threads) + "/" + std::to_string(rows);
      benchmark::RegisterBenchmark(name.c_str(), step_bench, level, threads, rows)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  for (const int context : {128, 512, 2048}) {
    for (const int rows : {1, 128}) {
      for (const KvType type : {KvType::F16, KvType::Int8}) {
        const std::string name = std::string("attention/") +
                                 (type == KvType::F16 ? "f16" : "int8") + of_level +
                                 std::to_string(rows) + "/" + std::to_string(context);
        benchmark::RegisterBenchmark(name.c_str(), attention_bench, type, level, rows, context)
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

}  // namespace
}  // namespace turnstile::kernels

int main(int argc, char** argv) {
  using turnstile::kernels::Level;
  for (const Level level : turnstile::kernels::kLevels) {
    if (turnstile::kernels::level_supported(level)) turnstile::kernels::register_level(level);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
