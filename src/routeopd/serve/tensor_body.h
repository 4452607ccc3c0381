// Bodies in safetensors: named tensors of a request, checked before they are used, and those of an answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/formats/safetensors.h"

namespace routeopd::serve {

// The tensors and the metadata of a request. Every name that is not asked for is refused by done(). Errors
// are UserErrors that name the tensor or the setting.
class TensorRequest {
 public:
  // `body` must outlive it.
  explicit TensorRequest(std::string_view body);

  // Whole numbers (I32 or I64) of a vector, each in [low, high]; none where there is no such tensor.
  std::optional<std::vector<std::int32_t>> numbers(const std::string& name, std::int64_t low,
                                                   std::int64_t high);

  // The same of a matrix of `rows` rows; `columns` is set.
  std::optional<std::vector<std::int32_t>> matrix(const std::string& name, std::int64_t rows,
                                                  std::int64_t low, std::int64_t high, std::int64_t& columns);

  // F32 [rows, columns].
  std::vector<float> floats(const std::string& name, std::int64_t& rows, std::int64_t columns);

  // A setting of the metadata, as JSON: 0.7, true, ["\n"]. Null where there is none.
  std::string setting(const std::string& name);

  std::int64_t whole(const std::string& name, std::int64_t standard, std::int64_t low, std::int64_t high);
  double number(const std::string& name, double standard, double low, double high);
  bool flag(const std::string& name, bool standard);

  // Throws for what was sent and never asked for.
  void done() const;

 private:
  const formats::TensorView* find(const std::string& name);

  formats::SafetensorsIndex index_;
  std::vector<std::string> known_;
};

// The tensors of an answer; what they show must live until bytes().
class TensorAnswer {
 public:
  void add(std::string name, std::span<const float> values, std::vector<std::int64_t> shape);
  void add(std::string name, std::span<const std::int32_t> values, std::vector<std::int64_t> shape);
  void say(const std::string& name, std::int64_t value) { metadata_[name] = std::to_string(value); }

  std::string bytes() const { return formats::safetensors_bytes(tensors_, metadata_); }

 private:
  std::vector<formats::TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace routeopd::serve
