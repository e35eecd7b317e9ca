#include "engine/loader/kernel_choice.h"

#include "engine/model/llama.h"

namespace turnstile::engine {
namespace {

tl::expected<kernels::Level, LoadError> chosen_level(const std::string& name) {
  if (name == "auto") return kernels::best_level();
  const auto level = kernels::parse_level(name);
  std::string supported;
  for (const kernels::Level each : kernels::kLevels) {
    if (kernels::level_supported(each)) supported += ", " + std::string(kernels::to_string(each));
  }
  if (level && kernels::level_supported(*level)) return *level;
  return tl::unexpected(LoadError{
      "setting kernels", "is '" + name.substr(0, 64) + "'; this machine has auto" + supported});
}

}  // namespace

tl::expected<KernelChoice, LoadError> choose_kernels(const std::string& kernels,
                                                     const std::string& numerics) {
  const auto level = chosen_level(kernels);
  if (!level) return tl::unexpected(level.error());
  if (numerics != "exact" && numerics != "fast") {
    return tl::unexpected(LoadError{"setting numerics", "is '" + numerics.substr(0, 64) +
                                                            "'; it can be exact or fast"});
  }
  KernelChoice choice;
  choice.level = *level;
  choice.instruction_set = kernels::to_string(*level);
  choice.numerics = "exact";
  if (numerics == "exact") return choice;
  // Scalar has the definition of these numerics, which is for tests.
  if (*level == kernels::Level::Amx && kernels::has_numerics(*level, kernels::Numerics::Bf16)) {
    choice.long_slice_table = &kernels::kernel_table(*level, kernels::Numerics::Bf16);
    choice.numerics =
        "fast: bf16 for chunks of " + std::to_string(kLongSliceRows) + " tokens and more";
  } else {
    choice.remark = "numerics fast is the same as exact at " +
                    choice.instruction_set + ": it needs AMX tiles of bf16";
  }
  return choice;
}

}  // namespace turnstile::engine
