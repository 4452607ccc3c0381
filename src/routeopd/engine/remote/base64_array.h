// Arrays of float32 as servers send them inside JSON: the bytes of numpy's .npy files, in base64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace routeopd::engine {

// Throws BadAnswer unless `text` is an array of that shape, in C order.
std::vector<float> read_base64_array(std::string_view text, std::int64_t rows, std::int64_t columns);

}  // namespace routeopd::engine
