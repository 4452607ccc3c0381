// SPDX-License-Identifier: Apache-2.0
#include "routeopd/study/variants.h"

#include <algorithm>

#include "routeopd/report/arms.h"

namespace routeopd::study {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {Family::kMain, Family::kAblation, Family::kSupport,
                                               Family::kPairs};
  return families;
}

std::vector<Variant> all_variants(const StudyOptions& options) {
  std::vector<Variant> all;
  for (const report::Arm& arm : report::kArms) {
    if (!arm.main && arm.component == report::Component::kNone) continue;
    Json settings = {{"arm", arm.preset()}};
    if (!arm.crossing.setting.empty()) settings[std::string(arm.crossing.setting)] = arm.crossing.value;
    all.push_back({std::string(arm.name), arm.main ? Family::kMain : Family::kAblation, std::move(settings)});
  }
  const auto sweep = [&](Family family, const std::string& value, const Json& setting) {
    Json settings = {{"arm", "routeopd"}};
    settings.update(setting);
    all.push_back({"routeopd-" + value, family, std::move(settings)});
  };
  for (const std::int32_t k : {4, 8, 16, 32, 64}) {
    if (k != options.k) sweep(Family::kSupport, fmt::format("k{}", k), {{"k", k}});
  }
  sweep(Family::kSupport, "kfull", {{"k", "full"}});
  for (const std::int32_t m : {1, 2, 4, 8}) {
    if (m != options.m) sweep(Family::kPairs, fmt::format("m{}", m), {{"m", m}});
  }
  return all;
}

bool keeps(const StudyOptions& options, const std::string& name) {
  return options.arms.empty() ||
         std::find(options.arms.begin(), options.arms.end(), name) != options.arms.end();
}

std::vector<Variant> variants_of(const std::vector<Family>& families, const std::vector<std::string>& names,
                                 const StudyOptions& options) {
  std::vector<Variant> chosen;
  for (const Variant& variant : all_variants(options)) {
    const bool wanted = std::find(families.begin(), families.end(), variant.family) != families.end() ||
                        std::find(names.begin(), names.end(), variant.name) != names.end();
    if (wanted && keeps(options, variant.name)) chosen.push_back(variant);
  }
  return chosen;
}

Variant variant_named(const std::string& name, const StudyOptions& options) {
  const std::vector<Variant> all = all_variants(options);
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Variant& variant) { return variant.name == name; });
  if (found == all.end()) throw UserError("the study has no arm {}", name);
  return *found;
}

routing::ObjectiveOptions objective_of(const Variant& variant, const StudyOptions& options) {
  Json settings = options.objective;
  settings.update(Json{{"k", support_json(options.k)}, {"m", options.m}});
  settings.update(variant.settings);
  return routing::objective_from(settings);
}

Json support_json(std::int32_t k) {
  return k == routing::kFullSupport ? Json("full") : Json(k);
}

}  // namespace routeopd::study
