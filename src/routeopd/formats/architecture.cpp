// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/architecture.h"

#include <algorithm>

namespace routeopd::formats {

// One line each: NAME stands for architectures/NAME.cpp and its function NAME_spec().
#define ROUTEOPD_ARCHITECTURES(ENTRY) \
  ENTRY(qwen2)                        \
  ENTRY(qwen3)                        \
  ENTRY(llama)                        \
  ENTRY(mistral)                      \
  ENTRY(olmo2)                        \
  ENTRY(gemma)

#define ROUTEOPD_DECLARE(name) ArchitectureSpec name##_spec();
ROUTEOPD_ARCHITECTURES(ROUTEOPD_DECLARE)

const std::vector<ArchitectureSpec>& architectures() {
#define ROUTEOPD_LIST(name) name##_spec(),
  static const std::vector<ArchitectureSpec> all = {ROUTEOPD_ARCHITECTURES(ROUTEOPD_LIST)};
  return all;
}

#undef ROUTEOPD_LIST
#undef ROUTEOPD_DECLARE
#undef ROUTEOPD_ARCHITECTURES

const ArchitectureSpec* find_architecture(std::string_view model_type) {
  const auto found =
      std::find_if(architectures().begin(), architectures().end(),
                   [&](const ArchitectureSpec& spec) { return spec.model_type == model_type; });
  return found == architectures().end() ? nullptr : &*found;
}

}  // namespace routeopd::formats
