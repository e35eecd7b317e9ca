#include "engine/loader/weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "engine/loader/finite_values.h"
#include "engine/memory_text.h"

namespace turnstile::engine {

namespace {

using kernels::FileType;
using kernels::PanelMatrix;

constexpr std::size_t kPartAlignment = 64;
constexpr std::size_t kMaxArenaBytes = std::size_t{1} << 46;  // 64 TiB: beyond any machine
constexpr int kPanelsPerItem = 64;
constexpr const char* kVectorTypes = "F32, F16 and BF16";
constexpr const char* kMatrixTypes =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K and IQ4_NL";

tl::unexpected<LoadError> wrong_tensor(std::string_view name, std::string what) {
  return tl::unexpected(LoadError{"tensor " + std::string(name), std::move(what)});
}

std::optional<FileType> kernel_type(std::uint32_t file_type) {
  switch (static_cast<GgufType>(file_type)) {
    case GgufType::F32: return FileType::F32;
    case GgufType::F16: return FileType::F16;
    case GgufType::BF16: return FileType::BF16;
    case GgufType::Q8_0: return FileType::Q8_0;
    case GgufType::Q4_0: return FileType::Q4_0;
    case GgufType::Q4_1: return FileType::Q4_1;
    case GgufType::Q5_0: return FileType::Q5_0;
    case GgufType::Q5_1: return FileType::Q5_1;
    case GgufType::Q4_K: return FileType::Q4_K;
    case GgufType::Q5_K: return FileType::Q5_K;
    case GgufType::Q6_K: return FileType::Q6_K;
    case GgufType::Q2_K: return FileType::Q2_K;
    case GgufType::Q3_K: return FileType::Q3_K;
    case GgufType::IQ4_NL: return FileType::IQ4_NL;
    default: return std::nullopt;
  }
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::vector<std::uint64_t> needed_shape(const TensorNeed& need) {
  const auto cols = static_cast<std::uint64_t>(need.cols);
  if (need.vector) return {cols};
  return {cols, static_cast<std::uint64_t>(need.rows)};
}

// A tensor of the file that fills a need, and where it goes.
struct Plan {
  const GgufTensor* tensor = nullptr;
  FileType type = FileType::F32;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

tl::expected<Plan, LoadError> plan_tensor(const GgufFile& file, const TensorNeed& need) {
  Plan plan;
  plan.tensor = file.find_tensor(need.name);
  if (plan.tensor == nullptr) {
    if (need.optional) return plan;
    return wrong_tensor(need.name, "is missing");
  }
  const auto type = kernel_type(plan.tensor->type);
  if (!type || (need.vector && kernels::is_quantised(kernels::panel_type(*type)))) {
    const auto info = find_gguf_type(plan.tensor->type);
    const std::string name = info ? std::string(info->name) : std::to_string(plan.tensor->type);
    return wrong_tensor(need.name, "has type " + name + "; supported here are " +
                                       (need.vector ? kVectorTypes : kMatrixTypes));
  }
  plan.type = *type;
  const std::vector<std::uint64_t> shape = needed_shape(need);
  if (plan.tensor->shape != shape) {
    return wrong_tensor(need.name, "has shape " + shape_text(plan.tensor->shape) +
                                       "; the model's keys ask for " + shape_text(shape));
  }
  // A row that is no whole number of blocks cannot be: the reader has refused it.
  const std::size_t file_bytes = kernels::file_row_bytes(plan.type, need.cols) *
                                 static_cast<std::size_t>(need.rows);
  assert(plan.tensor->data.size() == file_bytes && "the reader has checked the tensor's bytes");
  plan.bytes = need.vector
                   ? static_cast<std::size_t>(need.cols) * sizeof(float)
                   : kernels::panel_bytes(kernels::panel_type(plan.type), need.rows, need.cols);
  return plan;
}

// All tensors of a file that fill needs, checked; nothing is allocated for them yet.
struct Layout {
  std::vector<Plan> plans;        // by index into the needs
  std::size_t arena_bytes = 0;
  std::uint64_t total_bytes = 0;  // in the file
};

tl::expected<Layout, LoadError> lay_out(const GgufFile& file, std::span<const TensorNeed> needs) {
  Layout layout;
  layout.plans.reserve(needs.size());
  std::unordered_set<std::string_view> needed;
  for (const TensorNeed& need : needs) {
    auto plan = plan_tensor(file, need);
    if (!plan) return tl::unexpected(plan.error());
    if (plan->tensor != nullptr) {
      needed.insert(need.name);
      layout.total_bytes += plan->tensor->data.size();
      plan->offset = layout.arena_bytes;
      if (plan->bytes > kMaxArenaBytes || layout.arena_bytes > kMaxArenaBytes - plan->bytes) {
        return wrong_tensor(need.name, "would make the model larger than 64 TiB");
      }
      layout.arena_bytes += (plan->bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
    }
    layout.plans.push_back(*plan);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (!needed.contains(tensor.name)) {
      return wrong_tensor(tensor.name, "is not part of the llama model that this build runs");
    }
  }
  return layout;
}

// Gives the whole pages inside the tensor back. Only for a mapped file: the same call on heap
// memory would erase it.
void drop_pages(std::span<const std::byte> data) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(data.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(data.data() + data.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// False when the rows hold something that is not a number.
bool pack_matrix(FileType type, const PanelMatrix& matrix, std::span<const std::byte> file_rows,
                 std::byte* out, kernels::WorkerPool& pool) {
  const int panels = matrix.panel_count();
  const std::size_t row_bytes = kernels::file_row_bytes(type, matrix.cols);
  std::atomic<bool> finite = true;
  pool.run((panels + kPanelsPerItem - 1) / kPanelsPerItem, [&](int item, int) {
    const int begin = item * kPanelsPerItem;
    const int end = std::min(begin + kPanelsPerItem, panels);
    const auto rows_before = [&](int panel) {
      return static_cast<std::size_t>(std::min(panel * kernels::kPanelRows, matrix.rows));
    };
    const std::size_t first = rows_before(begin) * row_bytes;
    if (!are_finite(type, file_rows.subspan(first, rows_before(end) * row_bytes - first))) {
      finite.store(false, std::memory_order_relaxed);
      return;
    }
    kernels::pack_panels(type, file_rows.data(), matrix.rows, matrix.cols, begin, end, out);
  });
  return finite.load();
}

}  // namespace

tl::expected<std::size_t, LoadError> Weights::needed_bytes(const GgufFile& file,
                                                           std::span<const TensorNeed> needs) {
  const auto layout = lay_out(file, needs);
  if (!layout) return tl::unexpected(layout.error());
  return layout->arena_bytes;
}

tl::expected<Weights, LoadError> Weights::load(const GgufFile& file,
                                               std::span<const TensorNeed> needs,
                                               kernels::WorkerPool& pool,
                                               const LoadProgress& progress,
                                               std::optional<std::size_t> memory_bytes) {
  const auto layout = lay_out(file, needs);
  if (!layout) return tl::unexpected(layout.error());
  const auto& [plans, arena_bytes, total_bytes] = *layout;

  if (memory_bytes && arena_bytes > *memory_bytes) {
    return tl::unexpected(LoadError{"weights", "need " + memory_text(arena_bytes) +
                                                   " of memory, but " + memory_text(*memory_bytes) +
                                                   " are left: serve a smaller model"});
  }

  Weights weights;
  weights.parts_.resize(needs.size());
  if (arena_bytes > 0) {
    auto arena = HugePages::allocate(arena_bytes);
    if (!arena) {
      return tl::unexpected(LoadError{"weights", "need " + memory_text(arena_bytes) +
                                                     " of memory, which the system refuses"});
    }
    weights.arena_ = std::move(*arena);
  }

  std::uint64_t done_bytes = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    if (plan.tensor == nullptr) continue;
    std::byte* out = weights.arena_.data() + plan.offset;
    Part& part = weights.parts_[i];
    part.present = true;
    bool finite = false;
    if (needs[i].vector) {
      auto* values = reinterpret_cast<float*>(out);
      finite = are_finite(plan.type, plan.tensor->data);
      kernels::dequantize_file_row(plan.type, plan.tensor->data.data(), needs[i].cols, values);
      part.values = std::span<const float>(values, static_cast<std::size_t>(needs[i].cols));
    } else {
      part.matrix = PanelMatrix{kernels::panel_type(plan.type), needs[i].rows, needs[i].cols, out};
      finite = pack_matrix(plan.type, part.matrix, plan.tensor->data, out, pool);
    }
    if (!finite) return wrong_tensor(needs[i].name, "holds infinities or what is not a number");
    if (file.mapped()) drop_pages(plan.tensor->data);
    done_bytes += plan.tensor->data.size();
    if (progress) progress(done_bytes, total_bytes);
  }
  return weights;
}

PanelMatrix Weights::matrix(std::size_t need) const {
  assert(need < parts_.size() && "an index into the needs of load()");
  return parts_[need].matrix;
}

std::span<const float> Weights::vector(std::size_t need) const {
  assert(need < parts_.size() && "an index into the needs of load()");
  return parts_[need].values;
}

bool Weights::present(std::size_t need) const {
  assert(need < parts_.size() && "an index into the needs of load()");
  return parts_[need].present;
}

}  // namespace turnstile::engine
