// Plain structs as bytes, between the ranks of one build: numbers, strings and vectors of them, one after
// another.
//
//   template <class Archive> void fields(Archive& archive, Thing& thing) { archive(thing.a, thing.b_N); }
//   std::string bytes = packed(thing);  Thing again = unpacked<Thing>(bytes);
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "routeopd/base/error.h"

namespace routeopd::ranks {

class Packer {
 public:
  template <class... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    } else if constexpr (requires {
                           value.size();
                           value.begin();
                         }) {
      put(static_cast<std::uint64_t>(value.size()));
      for (const auto& element : value) put(element);
    } else {
      fields(*this, const_cast<T&>(value));
    }
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }

  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <class... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }

 private:
  const char* take(std::size_t bytes) {
    ROUTEOPD_INVARIANT(bytes <= rest_.size());  // what another rank of the same build packed
    const char* const at = rest_.data();
    rest_.remove_prefix(bytes);
    return at;
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      std::memcpy(&value, take(sizeof(T)), sizeof(T));
    } else if constexpr (requires { value.resize(1); }) {
      std::uint64_t size = 0;
      get(size);
      ROUTEOPD_INVARIANT(size <= rest_.size());  // an element has a byte at least
      value.resize(size);
      for (auto& element : value) get(element);
    } else {
      fields(*this, value);
    }
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void get(std::vector<T>& values) {
    std::uint64_t size = 0;
    get(size);
    ROUTEOPD_INVARIANT(size <= rest_.size() / sizeof(T));
    values.resize(size);
    if (size > 0) std::memcpy(values.data(), take(size * sizeof(T)), size * sizeof(T));
  }
  void get(std::string& text) {
    std::uint64_t size = 0;
    get(size);
    text.assign(take(size), size);
  }

  std::string_view rest_;
};

template <class T>
std::string packed(const T& value) {
  Packer packer;
  packer(value);
  return packer.take();
}

template <class T>
T unpacked(std::string_view bytes) {
  T value;
  Unpacker unpacker(bytes);
  unpacker(value);
  return value;
}

}  // namespace routeopd::ranks
