// "post_processor" of tokenizer.json: the ids that it adds before and after those of a text.
// TemplateProcessing, ByteLevel (which changes offsets, never ids), and a Sequence with at most one template.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "routeopd/base/json_fwd.h"

namespace routeopd::tokenizer {

class PostProcessor {
 public:
  // Null for none. Throws UserError naming the component that is wrong or not supported.
  PostProcessor(const Json& component, std::int32_t real_ids);

  const std::vector<std::int32_t>& before() const { return before_; }
  const std::vector<std::int32_t>& after() const { return after_; }

 private:
  void read(const Json& component);
  void read_template(const Json& component);

  std::int32_t real_ids_;
  bool has_template_ = false;
  std::vector<std::int32_t> before_;
  std::vector<std::int32_t> after_;
};

}  // namespace routeopd::tokenizer
