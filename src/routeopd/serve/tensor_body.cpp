// SPDX-License-Identifier: Apache-2.0
#include "routeopd/serve/tensor_body.h"

#include <algorithm>
#include <cstring>

#include "routeopd/base/error.h"
#include "routeopd/base/fields.h"

namespace routeopd::serve {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return Json(shape).dump();
}

// Values of a client's tensor lie at any address.
template <class T>
std::vector<std::int32_t> ids_from(const formats::TensorView& tensor, std::int64_t low, std::int64_t high) {
  std::vector<std::int32_t> values(tensor.bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value = 0;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
    if (value < low || value > high)
      throw UserError("{}: expected numbers from {} to {}, got {} at {}", tensor.name, low, high, value, i);
    values[i] = static_cast<std::int32_t>(value);
  }
  return values;
}

std::vector<std::int32_t> ids_from(const formats::TensorView& tensor, std::int64_t low, std::int64_t high) {
  switch (tensor.type) {
    case formats::TensorType::kI32:
      return ids_from<std::int32_t>(tensor, low, high);
    case formats::TensorType::kI64:
      return ids_from<std::int64_t>(tensor, low, high);
    default:
      throw UserError("{}: expected I32 or I64, got {}", tensor.name, formats::name_of(tensor.type));
  }
}

}  // namespace

TensorRequest::TensorRequest(std::string_view body)
    : index_(formats::read_safetensors(std::as_bytes(std::span(body.data(), body.size())))) {}

const formats::TensorView* TensorRequest::find(const std::string& name) {
  known_.push_back(name);
  for (const formats::TensorView& tensor : index_.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

std::optional<std::vector<std::int32_t>> TensorRequest::numbers(const std::string& name, std::int64_t low,
                                                                std::int64_t high) {
  const formats::TensorView* const tensor = find(name);
  if (tensor == nullptr) return {};
  if (tensor->shape.size() != 1)
    throw UserError("{}: expected one dimension, got {}", name, shape_text(tensor->shape));
  return ids_from(*tensor, low, high);
}

std::optional<std::vector<std::int32_t>> TensorRequest::matrix(const std::string& name, std::int64_t rows,
                                                               std::int64_t low, std::int64_t high,
                                                               std::int64_t& columns) {
  columns = 0;
  const formats::TensorView* const tensor = find(name);
  if (tensor == nullptr) return {};
  if (tensor->shape.size() != 2 || tensor->shape[0] != rows)
    throw UserError("{}: expected [{}, any], got {}", name, rows, shape_text(tensor->shape));
  columns = tensor->shape[1];
  return ids_from(*tensor, low, high);
}

std::vector<float> TensorRequest::floats(const std::string& name, std::int64_t& rows, std::int64_t columns) {
  const formats::TensorView* const tensor = find(name);
  if (tensor == nullptr) throw UserError("{}: expected a tensor of that name, got none", name);
  if (tensor->type != formats::TensorType::kF32 || tensor->shape.size() != 2 || tensor->shape[1] != columns)
    throw UserError("{}: expected F32 [any, {}], got {} {}", name, columns, formats::name_of(tensor->type),
                    shape_text(tensor->shape));
  rows = tensor->shape[0];
  std::vector<float> values(tensor->bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

std::string TensorRequest::setting(const std::string& name) {
  known_.push_back(name);
  const auto found = index_.metadata.find(name);
  return found == index_.metadata.end() ? "null" : found->second;
}

std::int64_t TensorRequest::whole(const std::string& name, std::int64_t standard, std::int64_t low,
                                  std::int64_t high) {
  const Json value = Json::parse(setting(name), nullptr, /*allow_exceptions=*/false);
  if (value.is_null()) return standard;
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) ||
      value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    throw UserError("{}: expected a whole number from {} to {}, got {}", name, low, high, setting(name));
  return value.get<std::int64_t>();
}

double TensorRequest::number(const std::string& name, double standard, double low, double high) {
  const Json value = Json::parse(setting(name), nullptr, /*allow_exceptions=*/false);
  if (value.is_null()) return standard;
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high))
    throw UserError("{}: expected a number from {} to {}, got {}", name, low, high, setting(name));
  return value.get<double>();
}

bool TensorRequest::flag(const std::string& name, bool standard) {
  const std::string value = setting(name);
  if (value == "null") return standard;
  if (value != "true" && value != "false") throw UserError("{}: expected true or false, got {}", name, value);
  return value == "true";
}

void TensorRequest::done() const {
  const auto check = [&](const std::string& name) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end())
      throw UserError("{}: not known here; did you mean {}?", name, nearest_name(name, known_));
  };
  for (const formats::TensorView& tensor : index_.tensors) check(tensor.name);
  for (const auto& [name, value] : index_.metadata)
    if (name != "format") check(name);  // which libraries write by themselves
}

void TensorAnswer::add(std::string name, std::span<const float> values, std::vector<std::int64_t> shape) {
  tensors_.push_back({std::move(name), formats::TensorType::kF32, std::move(shape), std::as_bytes(values)});
}

void TensorAnswer::add(std::string name, std::span<const std::int32_t> values,
                       std::vector<std::int64_t> shape) {
  tensors_.push_back({std::move(name), formats::TensorType::kI32, std::move(shape), std::as_bytes(values)});
}

}  // namespace routeopd::serve
