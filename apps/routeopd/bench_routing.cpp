// Ratio R: the routing kernel against the double-precision reference, one core, k = 32, m = 2.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "bench.h"
#include "routeopd/routing/reference.h"
#include "routeopd/routing/reference_sampling.h"
#include "routeopd/routing/route_states.h"

namespace routeopd::app {
namespace {

namespace reference = routing::reference;

// States as a scorer leaves them: two top-k lists that share about two thirds of their ids.
struct GatheredStates {
  std::int64_t states;
  std::int32_t k;
  std::vector<std::int32_t> student_ids, teacher_ids;
  std::vector<float> student, teacher_at_student, teacher, student_at_teacher;
  std::vector<StateAddress> address;

  GatheredStates(std::int64_t count, std::int32_t columns, std::uint64_t seed) : states(count), k(columns) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<std::int32_t> ids(4000);
    for (std::int64_t n = 0; n < states; ++n) {
      std::iota(ids.begin(), ids.end(), 0);
      const std::int32_t shared = columns * 2 / 3;
      for (std::size_t i = 0; i < static_cast<std::size_t>(2 * columns); ++i) {
        std::swap(ids[i], ids[i + random() % (ids.size() - i)]);
      }
      std::vector<float> z(static_cast<std::size_t>(2 * columns - shared)), t(z.size());
      for (std::size_t i = 0; i < z.size(); ++i) {
        z[i] = 2 * normal(random);
        t[i] = z[i] + normal(random);
      }
      for (std::int32_t i = 0; i < columns; ++i) {
        const auto s = static_cast<std::size_t>(i);
        const auto j = static_cast<std::size_t>(columns - shared + i);
        student_ids.push_back(ids[s]);
        student.push_back(z[s]);
        teacher_at_student.push_back(t[s]);
        teacher_ids.push_back(ids[j]);
        teacher.push_back(t[j]);
        student_at_teacher.push_back(z[j]);
      }
      address.push_back({.position = static_cast<std::uint32_t>(n)});
    }
  }

  StateBatch view() const {
    StateBatch batch;
    batch.states = states;
    batch.real_ids = 4000;
    batch.student_columns = batch.teacher_columns = k;
    batch.student_ids_NK = student_ids.data();
    batch.student_logits_NK = student.data();
    batch.teacher_at_student_NK = teacher_at_student.data();
    batch.teacher_ids_NJ = teacher_ids.data();
    batch.teacher_logits_NJ = teacher.data();
    batch.student_at_teacher_NJ = student_at_teacher.data();
    batch.address_N = address.data();
    return batch;
  }

  // The same state through the reference: union, transport, pairs.
  std::vector<reference::Pair> reference_pairs(std::size_t n, const routing::ObjectiveOptions& options,
                                               std::uint64_t seed, double* mass) const {
    struct Entry {
      std::int32_t id;
      double student, teacher;
    };
    std::vector<Entry> entries;
    for (std::size_t i = n * static_cast<std::size_t>(k); i < (n + 1) * static_cast<std::size_t>(k); ++i) {
      entries.push_back({student_ids[i], student[i], teacher_at_student[i]});
      entries.push_back({teacher_ids[i], student_at_teacher[i], teacher[i]});
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
    const auto same = [](const Entry& a, const Entry& b) { return a.id == b.id; };
    entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
    reference::Ids ids;
    reference::Values z, t;
    for (const Entry& entry : entries) {
      ids.push_back(entry.id);
      z.push_back(entry.student);
      t.push_back(entry.teacher);
    }
    const reference::Transport state = reference::transport(ids, z, t, options);
    *mass = state.mass;
    return reference::sample_pairs(state, {}, options, seed, address[n]);
  }
};

}  // namespace

void bench_routing(Bench& bench) {
  if (!bench.wants("R")) return;
  bench.say("R: routing kernel against the reference");
  const routing::ObjectiveOptions options;
  const GatheredStates states(4096, options.k, bench.options().seed);
  const StateBatch batch = states.view();
  const std::uint64_t seed = bench.options().seed;
  Routes routes = routing::route_states(batch, options, seed, 1);

  double worst = 0;
  double differing = 0;
  for (std::size_t n = 0; n < static_cast<std::size_t>(states.states); ++n) {
    double mass = 0;
    const auto pairs = states.reference_pairs(n, options, seed, &mass);
    worst = std::max(worst, std::abs(mass - static_cast<double>(routes.mass_N[n])));
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::size_t at = n * pairs.size() + i;
      const bool same =
          pairs[i].source == routes.source_NM[at] && pairs[i].destination == routes.destination_NM[at];
      differing += same ? 0 : 1;
      if (same)
        worst = std::max(worst, std::abs(pairs[i].target - static_cast<double>(routes.target_NM[at])));
    }
  }
  std::string check = agreed("largest difference of mass and target", worst, 1e-5);
  check += "; " + agreed("pairs drawn differently", differing, 4);

  double sink = 0;
  const auto medians = interleaved_medians(
      std::max(bench.options().rounds, 9),
      {[&] { routes = routing::route_states(batch, options, seed, 1); },
       [&] {
         for (std::size_t n = 0; n < static_cast<std::size_t>(states.states); ++n) {
           double mass = 0;
           sink += static_cast<double>(states.reference_pairs(n, options, seed, &mass).size()) + mass;
         }
       }});
  if (!(sink > 0)) throw UserError("bench: the reference routed nothing");
  const auto n = static_cast<double>(states.states);
  bench.add({.id = "R",
             .what = "routing kernel / reference",
             .shape = "k=32 m=2",
             .threads = 1,
             .ours = medians[0] / n * 1e6,
             .other = medians[1] / n * 1e6,
             .unit = "us/state",
             .target = 0.1,
             .check = check});
}

}  // namespace routeopd::app
