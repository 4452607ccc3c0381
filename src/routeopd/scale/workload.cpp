// SPDX-License-Identifier: Apache-2.0
#include "routeopd/scale/workload.h"

#include "routeopd/formats/weight_table.h"

namespace routeopd::scale {

ModelShape shape_of(const formats::ModelConfig& config, double weight_bytes, double activation_floats) {
  ModelShape shape{.layers = static_cast<double>(config.num_hidden_layers),
                   .hidden = static_cast<double>(config.hidden_size),
                   .query = static_cast<double>(config.query_size()),
                   .key = static_cast<double>(config.key_size()),
                   .vocabulary = static_cast<double>(config.vocab_size),
                   .tied = config.tie_word_embeddings,
                   .weight_bytes = weight_bytes,
                   .activation_floats = activation_floats};
  for (const formats::WeightRow& row : formats::weight_table(config)) {
    const auto elements = static_cast<double>(row.elements());
    shape.parameters += elements;
    if (row.layer >= 0 && row.shape.size() == 2) shape.body += elements;
    if (row.layer == 0) shape.block += elements;
  }
  return shape;
}

const char* head_name(Head head) {
  switch (head) {
    case Head::kPair:
      return "pair";
    case Head::kGather:
      return "gather";
    case Head::kDense:
      return "dense";
  }
  return "";
}

}  // namespace routeopd::scale
