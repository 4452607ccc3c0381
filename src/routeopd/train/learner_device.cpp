// SPDX-License-Identifier: Apache-2.0
#include "routeopd/train/learner_device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "routeopd/base/error.h"

namespace routeopd::train {
namespace {

std::optional<at::DeviceType> type_named(std::string_view name) {
  if (name == "cpu") return at::kCPU;
  if (name == "cuda") return at::kCUDA;
  if (c10::is_privateuse1_backend_registered() && name == c10::get_privateuse1_backend())
    return at::kPrivateUse1;
  return std::nullopt;
}

at::Device named_device(const std::string& name) {
  const std::size_t colon = name.find(':');
  const auto type = type_named(std::string_view(name).substr(0, colon));
  int index = -1;
  bool whole = colon == std::string::npos;
  if (!whole) {
    const char* const end = name.data() + name.size();
    const auto [stop, failed] = std::from_chars(name.data() + colon + 1, end, index);
    whole = failed == std::errc() && stop == end && index >= 0 && index <= 127;
  }
  if (!type || !whole || (*type == at::kCPU && index >= 0))
    throw UserError("[student] device: expected \"cpu\", \"cuda\" or \"cuda:N\", got \"{}\"", name);
  return {*type, static_cast<at::DeviceIndex>(index)};
}

}  // namespace

void check_device_name(const std::string& name) {
  named_device(name);
}

at::Device device_named(const std::string& name) {
  const at::Device device = named_device(name);
  if (device.is_cpu()) return device;
  if (!c10::impl::hasDeviceGuardImpl(device.type()))
    throw UserError(
        "[student] device: \"{}\" is not there, because this program is built on a LibTorch without it; "
        "build "
        "on one that has it (docs/devices.md), or choose \"cpu\"",
        name);
  const auto* const driver = c10::impl::getDeviceGuardImpl(device.type());
  const int count = driver->deviceCount();
  const int index = device.has_index() ? device.index() : count > 0 ? driver->getDevice().index() : 0;
  if (index >= count)
    throw UserError(
        "[student] device: \"{}\" is not there, LibTorch finds {} of its kind; choose one of them, or "
        "\"cpu\"",
        name, count);
  return {device.type(), static_cast<at::DeviceIndex>(index)};
}

std::int64_t free_bytes(at::Device device) {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr) return 0;
  try {
    return static_cast<std::int64_t>(allocator->getMemoryInfo(device.index()).first);
  } catch (const c10::Error&) {  // an allocator may have no answer
    return 0;
  }
}

}  // namespace routeopd::train
