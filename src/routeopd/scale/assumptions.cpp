// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/assumptions.h"

namespace routeopd::scale {

const Fields<Assumptions>& assumption_fields() {
  constexpr Range kTokens{0, 1e9}, kShare{0, 1, true}, kSeconds{0, 1};
  static const Fields<Assumptions> fields = {
      number_field("response_tokens", &Assumptions::response_tokens,
                   "mean tokens of a response; 0: all at their longest", kTokens),
      number_field("length_spread", &Assumptions::length_spread,
                   "spread of the logarithm of lengths around their median", Range{0.01, 3}),
      number_field("prompt_tokens", &Assumptions::prompt_tokens,
                   "mean tokens of a prompt; 0: counted in the prompts", kTokens),
      number_field("learner", &Assumptions::learner, "share of the peak in forward and backward", kShare),
      number_field("reading", &Assumptions::reading, "share of the peak in forwards without gradients",
                   kShare),
      number_field("bandwidth", &Assumptions::bandwidth, "share of the memory's bandwidth", kShare),
      number_field("link", &Assumptions::link, "share of links and network in collectives", kShare),
      number_field("usable", &Assumptions::usable, "share of the memory that a run may take", kShare),
      number_field("decode_overhead", &Assumptions::decode_overhead,
                   "seconds of a decoding forward beside its work: launches, scheduling, sampling", kSeconds),
      number_field("route_seconds", &Assumptions::route_seconds, "seconds of routing one state on one core",
                   kSeconds),
  };
  return fields;
}

Assumptions assumptions_for(const Device& device) {
  Assumptions assumptions;
  if (device.kind == DeviceKind::kGpu) return assumptions;
  assumptions.learner = 0.7;
  assumptions.reading = 0.9;
  assumptions.bandwidth = 1;  // it was measured
  assumptions.decode_overhead = 0;
  return assumptions;
}

void assume(Assumptions& assumptions, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) throw UsageError("--assume {}: expected NAME=VALUE", word);
  try {
    set_field(assumptions, assumption_fields(), word.substr(0, equals),
              value_of_word(word.substr(equals + 1)));
  } catch (const UserError& error) {
    throw UsageError("--assume: {}", error.what());
  }
}

}  // namespace routeopd::scale
