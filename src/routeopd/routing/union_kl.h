// KL divergences of the current student and the teacher on the union U alone (ours): the locality of routing,
// the shape of reverse or forward KL, and no LM-head product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace routeopd::routing {

// scale * KL(p_theta || p_T), p_theta the softmax of the current logits on U; writes its gradient on them to
// `grad`, which may alias `current_logits`. A teacher value of -inf counts as `log_delta_p`.
double union_reverse_kl(std::span<const float> log_p_teacher, std::span<const float> current_logits,
                        float log_delta_p, double scale, std::span<float> grad);

// scale * KL(p_T || p_theta), the same way.
double union_forward_kl(std::span<const float> log_p_teacher, std::span<const float> p_teacher,
                        std::span<const float> current_logits, double scale, std::span<float> grad);

}  // namespace routeopd::routing
