// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/schedule.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "routeopd/base/error.h"
#include "routeopd/base/philox.h"

namespace routeopd::train {

double learning_rate(const OptimizerSection& optimizer, std::int64_t update, std::int64_t updates) {
  const auto warm = static_cast<std::int64_t>(std::ceil(optimizer.warmup * static_cast<double>(updates)));
  if (update < warm) return optimizer.lr * static_cast<double>(update + 1) / static_cast<double>(warm);
  if (optimizer.schedule == ScheduleKind::kConstant || updates <= warm) return optimizer.lr;
  const double share = static_cast<double>(update - warm) / static_cast<double>(updates - warm);
  return optimizer.lr * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

PromptOrder::PromptOrder(std::int64_t prompts, const Recipe& recipe)
    : prompts_(prompts),
      per_step_(recipe.rollout.prompts_per_step),
      seed_(recipe.seed),
      shuffled_(recipe.data.shuffle),
      order_(static_cast<std::size_t>(prompts)) {
  ROUTEOPD_INVARIANT(prompts > 0);
  if (prompts >= std::int64_t{1} << 24)
    throw UserError("prompts: {} are more than the {} that random numbers can be addressed for", prompts,
                    1 << 24);
}

std::vector<std::size_t> PromptOrder::step(std::int64_t step) {
  std::vector<std::size_t> chosen;
  for (std::int64_t i = step * per_step_; i < (step + 1) * per_step_; ++i) {
    if (i / prompts_ != pass_) shuffle(i / prompts_);
    chosen.push_back(order_[static_cast<std::size_t>(i % prompts_)]);
  }
  return chosen;
}

std::vector<Prompt> PromptOrder::prompts(const std::vector<Prompt>& all, std::int64_t step) {
  std::vector<Prompt> chosen;
  for (const std::size_t place : this->step(step)) {
    chosen.push_back(all[place]);
    chosen.back().number = static_cast<std::uint32_t>(chosen.size() - 1);
  }
  return chosen;
}

// Fisher and Yates, swap i by the random number addressed (pass, i).
void PromptOrder::shuffle(std::int64_t pass) {
  pass_ = pass;
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (!shuffled_) return;
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    const StateAddress at{.step = static_cast<std::uint32_t>(pass),
                          .position = static_cast<std::uint32_t>(i)};
    const PhiloxBlock words = addressed_words(seed_, Purpose::kPromptOrder, at, 0);
    // 32 bits scaled to [0, i]: the bias is below (i + 1) / 2^32.
    const auto j = static_cast<std::size_t>(std::uint64_t{words[0]} * (i + 1) >> 32);
    std::swap(order_[i], order_[j]);
  }
}

}  // namespace routeopd::train
