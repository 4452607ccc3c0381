// safetensors: named tensors in one file, read through mmap and written atomically. The format: a header
// length (u64, little-endian), a JSON header {name: {dtype, shape, data_offsets}}, then the tensors' bytes
// without holes. A file is untrusted input: every bound is checked before a byte is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace routeopd::formats {

class MappedFile;  // the bytes of an open file

enum class TensorType { kF32, kF16, kBF16, kF64, kI32, kI64 };

std::size_t size_of(TensorType type);  // bytes per element
std::string name_of(TensorType type);  // as the format spells it: "F32", …

// One tensor of an open file, or one to be written. The bytes are row-major, little-endian, and belong to the
// file or to the caller. Those of a file that others wrote may begin at any address, aligned or not.
struct TensorView {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// What a file says, its bounds checked; the views point into `file`.
struct SafetensorsIndex {
  std::vector<TensorView> tensors;  // by offset
  std::map<std::string, std::string> metadata;
};

// Throws UserError, naming the tensor and the rule, for bytes that break the format.
SafetensorsIndex read_safetensors(std::span<const std::byte> file);

class Safetensors {
 public:
  // Throws UserError, naming the file, the tensor and the rule, for a file that breaks the format.
  explicit Safetensors(const std::filesystem::path& path);
  ~Safetensors();
  Safetensors(const Safetensors&) = delete;
  Safetensors& operator=(const Safetensors&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<TensorView>& tensors() const { return index_.tensors; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return index_.metadata; }

  // Null when the file has no tensor of that name.
  const TensorView* find(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<MappedFile> mapping_;
  SafetensorsIndex index_;
};

// Writes the tensors in the order given: beside the name, flushed, then renamed. The same tensors give the
// same bytes.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

// The same bytes in memory, for a request or an answer.
std::string safetensors_bytes(const std::vector<TensorView>& tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace routeopd::formats
