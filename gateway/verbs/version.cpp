// turnstile version
#include <ostream>

#include "gateway/build_identity.h"
#include "gateway/verbs/run.h"

namespace turnstile::gateway {
namespace {

constexpr std::string_view kCompiler =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "gcc " __VERSION__;
#endif

// What this host's kernels can use at most; the engine chooses at run time.
std::string_view instruction_set() {
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return "AVX-512 VNNI";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "AVX2";
  return "baseline";
}

}  // namespace

ExitCode run(const VersionOptions&, Surroundings around) {
  around.out << "turnstile " << build_version() << "\ncommit " << build_commit() << "\ncompiler " << kCompiler
             << "\ninstruction set " << instruction_set() << "\nCUDA none\n";
  return ExitCode::Done;
}

}  // namespace turnstile::gateway
