// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/study_answer.h"

#include <fmt/format.h>

#include <algorithm>

namespace routeopd::study {
namespace {

constexpr const char* kSubject = "routeopd";

// "a (+1.19 [+0.71, +1.70])".
std::string with_points(const Difference& each) {
  return fmt::format("{} ({})", each.name, points(each.here));
}

std::string differing(const std::vector<Difference>& differences) {
  std::vector<std::string> parts;
  for (const Difference& each : differences) parts.push_back(with_points(each));
  return listed(parts);
}

// Those of `kSubject` from every other arm, or else of every arm from the reference.
struct Compared {
  std::string subject, reference;  // one of them is empty
  std::vector<Difference> differences;
};

Compared compare_arms(const StudyView& view) {
  Compared found;
  const std::vector<std::string> names = compared_names(view);
  const bool has_subject = std::find(names.begin(), names.end(), kSubject) != names.end();
  (has_subject ? found.subject : found.reference) = has_subject ? kSubject : main_reference(view);
  for (const std::string& name : names) {
    if (name == found.subject || name == found.reference) continue;
    const std::optional<Contrast> contrast =
        has_subject ? view.grades.contrast(name, kSubject) : view.grades.contrast(found.reference, name);
    if (contrast) found.differences.push_back({name, contrast->difference});
  }
  return found;
}

// What decides: "on 200 held-out problems, each arm at its own learning rate".
std::string setting_words(const StudyView& view) {
  std::string words =
      fmt::format("in {} on {} held-out problems", average_name(view), view.grades.problems());
  const std::vector<double> rates = rates_of(view.results.runs);
  if (rates.size() > 1 || (rates.size() == 1 && view.results.tuning))
    words += ", each arm at its own learning rate";
  else if (rates.size() == 1)
    words += fmt::format(", all at learning rate {}", significant(rates.front()));
  return words;
}

// What the intervals rest on, without its first letter.
std::string basis_words(const StudyView& view) {
  const std::size_t seeds = most_seeds(view.results.runs);
  return fmt::format(
      "he intervals are 95 %, paired, over {} problems of {} samples with {}, and say nothing of other "
      "seeds, "
      "tasks or models.",
      view.grades.problems(), view.grades.samples(),
      seeds == 1 ? std::string("one training seed") : fmt::format("up to {} training seeds pooled", seeds));
}

}  // namespace

std::string study_question(const StudyView& view) {
  const Compared found = compare_arms(view);
  std::vector<std::string> others;
  for (const Difference& each : found.differences) others.push_back(each.name);
  if (!others.empty() && !found.subject.empty())
    return fmt::format("Does {} end above {} {}?", found.subject, listed(others), setting_words(view));
  if (!others.empty())
    return fmt::format("How do {} compare with {} {}?", listed(others), found.reference, setting_words(view));
  const StudyResults& study = view.results;
  if (study.tuning && !study.tuning->rates.empty()) return "At which learning rate is each arm best?";
  if (study.probe("arms") != nullptr) return "Where does one update of each arm move probability?";
  if (!study.cost.is_null()) return "What does a step of each arm cost?";
  return "";
}

std::string study_answer(const StudyView& view) {
  const Compared found = compare_arms(view);
  if (found.differences.empty()) {
    const std::vector<std::string> names = compared_names(view);
    if (names.size() == 1)
      return fmt::format("{} alone was run and can be read: {} % in {}.", names.front(),
                         percent(view.grades.accuracy(names.front())->average.mean, 1), average_name(view));
    return asked(view.results, "main") || view.results.manifest.is_null()
               ? "No two arms have evaluations that can be read: nothing is compared."
               : "";
  }
  if (found.subject.empty())
    return fmt::format("{}. T{}", order_words(found.reference, found.differences), basis_words(view));
  return answer_words(found.subject, "points of " + average_name(view), found.differences, basis_words(view));
}

std::string answer_words(const std::string& subject, const std::string& unit,
                         const std::vector<Difference>& differences, const std::string& basis) {
  std::vector<Difference> above, below;
  std::vector<std::string> open;
  for (const Difference& each : differences) {
    if (each.here.low > 0)
      above.push_back(each);
    else if (each.here.high < 0)
      below.push_back(each);
    else
      open.push_back(fmt::format("{} ({})", each.name, points(each.here)));
  }
  std::string words = above.empty() && below.empty()
                          ? fmt::format("No interval tells {} from another arm", subject)
                          : fmt::format("In {}, {} ends ", unit, subject);
  if (!above.empty()) words += fmt::format("above {}", differing(above));
  if (!below.empty()) words += fmt::format("{}below {}", above.empty() ? "" : ", and ", differing(below));
  return open.empty() ? fmt::format("{}. T{}", words, basis)
                      : fmt::format("{}. Not shown is a difference from {}; t{}", words, listed(open), basis);
}

}  // namespace routeopd::study
