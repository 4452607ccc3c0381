// The mean of values that come in clusters (states of one response), with an interval that draws whole clusters.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "routeopd/grade/statistics.h"

namespace routeopd::grade {

// The mean of the values that are not NaN, and a percentile bootstrap over clusters: draw d takes as many clusters as there
// are, with replacement, each with all of its values, and the mean is that of all values taken. The clusters that draw d
// takes are those that statistics.h says for problems. cluster[i], from 0, is that of values[i]. NaN where no value is left.
Interval clustered_mean(std::span<const double> values, std::span<const std::int32_t> cluster,
                        const Bootstrap& bootstrap);

}  // namespace routeopd::grade
