// Rotary position embedding as config.json describes it: rope_theta and rope_scaling (transformers 4), or
// rope_parameters (transformers 5).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "routeopd/base/fields.h"

namespace routeopd::formats {

// Plane i of a head of D elements turns by position * f_i, where f_i = theta^(-2i/D) is changed by the type:
//   default  not at all
//   linear   f_i / factor
//   llama3   by its wavelength w_i = 2 pi / f_i: f_i / factor for w_i > original_positions / low_freq_factor,
//            f_i for w_i < original_positions / high_freq_factor, and between the two a mixture of both
struct RopeParameters {
  double theta = 10000;
  std::string type = "default";
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_positions = 0;
  bool operator==(const RopeParameters&) const = default;
};

// Reads them from a config.json; `default_theta` where it names none. Throws UserError for a type or a key
// that is not supported.
RopeParameters rope_parameters_of(const Json& config, std::int64_t max_positions, double default_theta);

// The dictionary of transformers 5.
Json json_of(const RopeParameters& rope);

}  // namespace routeopd::formats
