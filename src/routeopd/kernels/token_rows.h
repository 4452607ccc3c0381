// The small steps between the products of a decoder, token by token: norms, rotary positions. Each row alone,
// its sums in a fixed order: bit for bit the same in any batch.
//
// Shapes: H hidden, D head, E = D / 2 planes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace routeopd::kernels {

// y = x / sqrt(mean(x^2) + eps) * weight. y may be x.
void rms_norm_row(const float* x_H, const float* weight_H, std::int64_t size, float eps, float* y_H);

// Turns plane e of a head, (x[e], x[e + E]), by the angle whose cosine and sine are given, and multiplies by
// `scale`.
void rotate_head(float* x_D, const float* cos_E, const float* sin_E, std::int64_t planes, float scale);

}  // namespace routeopd::kernels
