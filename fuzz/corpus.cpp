// Every input of the corpora once, without libFuzzer:  fuzz_corpus DIRECTORY DIRECTORY/TARGET/* is what
// fuzz_TARGET.cpp gets. An input that fails, or takes more than 2 s of the processor's time, ends the
// program, which says which it was; so does a target without any.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// ROUTEOPD_FUZZ_EACH(name) for every target.
#include "fuzz_targets.h"

#define ROUTEOPD_FUZZ_DECLARE(name) extern "C" int routeopd_fuzz_##name(const std::uint8_t*, std::size_t);
ROUTEOPD_FUZZ_EACH(ROUTEOPD_FUZZ_DECLARE)

namespace {

struct Target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
};

#define ROUTEOPD_FUZZ_ENTRY(name) Target{#name, routeopd_fuzz_##name},
constexpr std::array kTargets = {ROUTEOPD_FUZZ_EACH(ROUTEOPD_FUZZ_ENTRY)};

std::string at_work;  // "corpus/TARGET/NAME: failed"

void say_where(int signal) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, at_work.data(), at_work.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const Target& target, const std::filesystem::path& path) {
  at_work = path.string() + ": failed\n";
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const std::clock_t start = std::clock();
  target.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (std::clock() - start <= 2 * CLOCKS_PER_SEC) return;
  std::fprintf(stderr, "%s: took more than 2 s\n", path.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::signal(SIGABRT, say_where);
  int checks = 0;
  for (const Target& target : kTargets) {
    std::vector<std::filesystem::path> inputs;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(argv[1]) / target.name))
      inputs.push_back(entry.path());
    std::sort(inputs.begin(), inputs.end());
    if (inputs.empty()) {
      std::fprintf(stderr, "%s: has no input\n", target.name);
      return 1;
    }
    for (const std::filesystem::path& path : inputs) run(target, path);
    checks += static_cast<int>(inputs.size());
  }
  std::printf("%d checks\n", checks);
  return 0;
}
