// SPDX-License-Identifier: Apache-2.0
#include "device/pretend_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <map>

#include "device/pretend_memory.h"

namespace routeopd::pretend {
namespace {

constexpr auto kKind = c10::DeviceType::PrivateUse1;

std::atomic<std::int64_t> kernels, fused_attentions, copies_to_device, copies_to_host;

bool on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kKind;
}

// CPU tensors over the memory of device tensors, for the time of one kernel. What shares storage on the
// device shares it here, and a tensor that is given twice is one tensor.
class HostViews {
 public:
  HostViews() { ++kernels; }

  at::Tensor of(const at::Tensor& tensor) {
    if (!on_device(tensor)) return tensor;
    for (const auto& [view, original] : views_)
      if (original.is_same(tensor)) return view;
    const at::Storage& storage = tensor.storage();
    opened_.open(storage.data());
    const auto [entry, fresh] = storages_.try_emplace(storage.unsafeGetStorageImpl());
    if (fresh)
      entry->second = at::Storage(at::Storage::use_byte_size_t(), storage.nbytes(),
                                  at::DataPtr(storage.mutable_data(), at::Device(at::kCPU)));
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(at::Storage(entry->second),
                                                               c10::DispatchKey::CPU, tensor.dtype());
    view.unsafeGetTensorImpl()->set_storage_offset(tensor.storage_offset());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides());
    views_.emplace_back(view, tensor);
    return view;
  }

  // The result of a kernel: the argument that it wrote to, or new memory of the device.
  at::Tensor result(const at::Tensor& tensor, const char* operation) {
    if (!tensor.defined()) return tensor;
    for (const auto& [view, original] : views_)
      if (view.is_same(tensor)) return original;
    for (const auto& [original, storage] : storages_)
      TORCH_CHECK(!storage.is_alias_of(tensor.storage()), "pretend device: ", operation,
                  " returned a view of its argument, which needs a kernel of its own");
    const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
    at::Tensor moved = at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(kKind));
    allocator().copy_data(moved.storage().mutable_data(), dense.const_data_ptr(), dense.nbytes());
    return moved;
  }

 private:
  Opened opened_;
  std::map<const c10::StorageImpl*, at::Storage> storages_;
  std::vector<std::pair<at::Tensor, at::Tensor>> views_;  // and what they are views of
};

// Every tensor in an argument, replaced by give(tensor).
template <class Give>
c10::IValue replaced(const c10::IValue& value, const Give& give) {
  if (value.isTensor()) return give(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(give(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(give(*tensor)) : std::nullopt);
    return list;
  }
  return value;
}

void give_size(const at::Tensor& self, at::IntArrayRef sizes);

// Any operation without a kernel of its own here: the CPU's, in place. An output that is yet empty gets its
// shape from the kernel.
void run_on_views(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = operation.schema();
  const char* const name = schema.name().c_str();
  const std::size_t count = schema.arguments().size();
  const auto arguments = torch::jit::last(*stack, count);
  for (const c10::IValue& argument : arguments) {
    // A number of the host may stand beside tensors of a device, but not in a list of them.
    const bool number =
        argument.isTensor() && argument.toTensor().defined() && argument.toTensor().dim() == 0;
    replaced(argument, [&](const at::Tensor& tensor) {
      TORCH_CHECK(!tensor.defined() || on_device(tensor) || number, "pretend device: ", name,
                  " mixes a tensor of the device and one of the host");
      return tensor;
    });
  }
  HostViews views;
  std::vector<std::pair<at::Tensor, at::Tensor>> outputs;  // on the host, and whose value it becomes
  std::vector<c10::IValue> on_host;
  for (std::size_t i = 0; i < count; ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    const bool output = schema.arguments()[i].is_out() && alias != nullptr && arguments[i].isTensor() &&
                        on_device(arguments[i].toTensor()) && arguments[i].toTensor().numel() == 0;
    if (output) {
      const at::Tensor& empty = arguments[i].toTensor();
      outputs.emplace_back(at::empty({0}, empty.options().device(at::kCPU)), empty);
      on_host.emplace_back(outputs.back().first);
    } else {
      on_host.push_back(replaced(arguments[i], [&](const at::Tensor& tensor) { return views.of(tensor); }));
    }
  }
  torch::jit::drop(*stack, count);
  for (c10::IValue& argument : on_host) stack->push_back(std::move(argument));
  {
    const at::AutoDispatchBelowADInplaceOrView kernels_alone;
    operation.callBoxed(stack);
  }
  const auto give_back = [&](const at::Tensor& tensor) {
    for (const auto& [host, target] : outputs) {
      if (!host.is_same(tensor)) continue;
      give_size(target, host.sizes());
      target.copy_(host);
      return target;
    }
    return views.result(tensor, name);
  };
  const std::size_t results = schema.returns().size();
  for (std::size_t i = stack->size() - results; i < stack->size(); ++i)
    (*stack)[i] = replaced((*stack)[i], give_back);
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   at::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           at::dtype_or_default(type));
}

// The one way between host and device.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool) {
  if (!on_device(source)) ++copies_to_device;
  if (!on_device(self)) ++copies_to_host;
  HostViews views;
  views.of(self).copy_(views.of(source));
  return self;
}

void give_size(const at::Tensor& self, at::IntArrayRef sizes) {
  const auto bytes = (static_cast<std::size_t>(c10::multiply_integers(sizes)) +
                      static_cast<std::size_t>(self.storage_offset())) *
                     self.itemsize();
  c10::StorageImpl* const storage = self.storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) {
    c10::DataPtr larger = allocator().allocate(bytes);
    if (storage->nbytes() > 0) allocator().copy_data(larger.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(larger));
    storage->set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat>) {
  give_size(self, sizes);
  return self;
}

// As an accelerator has it: one operator, forward and backward, that makes no [T, T] of its own. The kernel
// is the CPU's own fused attention.
using AttentionResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt,
                                   at::Tensor, at::Tensor, at::Tensor>;
AttentionResult fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const std::optional<at::Tensor>& mask, double dropout, bool causal, bool,
                                std::optional<double> scale) {
  TORCH_CHECK(!mask.has_value() && causal, "pretend device: attention is causal and has no mask here");
  ++fused_attentions;
  HostViews views;
  const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      views.of(q), views.of(k), views.of(v), dropout, causal, {}, scale);
  return {views.result(out, "attention"),
          views.result(sums, "attention"),
          {},
          {},
          q.sym_size(2),
          k.sym_size(2),
          {},
          {},
          {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> fused_attention_backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor&,
    std::array<bool, 4>, const at::Tensor& out, const at::Tensor& sums, const at::Tensor&, const at::Tensor&,
    c10::SymInt, c10::SymInt, double dropout, bool causal, const at::Tensor&, const at::Tensor&,
    std::optional<double> scale) {
  HostViews views;
  const auto [q_grad, k_grad, v_grad] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      views.of(grad), views.of(q), views.of(k), views.of(v), views.of(out), views.of(sums), dropout, causal,
      {}, scale);
  return {views.result(q_grad, "attention"),
          views.result(k_grad, "attention"),
          views.result(v_grad, "attention"),
          {}};
}

std::int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool) {
  return static_cast<std::int64_t>(at::SDPBackend::overrideable);
}

// One device and one stream, in which everything has happened when a call returns.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::Device only() const { return {kKind, 0}; }
  c10::DeviceType type() const override { return kKind; }
  c10::Device exchangeDevice(c10::Device) const override { return only(); }
  c10::Device getDevice() const override { return only(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, only()); }
  c10::Stream getDefaultStream(c10::Device) const override { return getStream(only()); }
  c10::Stream exchangeStream(c10::Stream) const override { return getStream(only()); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

const bool registered = [] {
  c10::register_privateuse1_backend("pretend");
  c10::SetAllocator(kKind, &allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace routeopd::pretend

namespace c10::impl {
namespace {
C10_REGISTER_GUARD_IMPL(PrivateUse1, routeopd::pretend::Guard)
}
}  // namespace c10::impl

namespace at::native {
namespace {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &routeopd::pretend::choose_attention)
}
}  // namespace at::native

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&routeopd::pretend::run_on_views>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  namespace pretend = routeopd::pretend;
  library.impl("empty.memory_format", &pretend::empty);
  library.impl("empty_strided", &pretend::empty_strided);
  library.impl("copy_", &pretend::copy);
  library.impl("resize_", &pretend::resize_);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  // Its other form is a composition, which rounds differently.
  library.impl("silu_backward", torch::CppFunction::makeFromBoxedFunction<&pretend::run_on_views>());
  library.impl("_scaled_dot_product_fused_attention_overrideable", &pretend::fused_attention);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward",
               &pretend::fused_attention_backward);
}

namespace routeopd {

at::Device pretend_device() {
  return {pretend::kKind, 0};
}

PretendCounts pretend_counts() {
  return {.kernels = pretend::kernels,
          .fused_attention = pretend::fused_attentions,
          .to_device = pretend::copies_to_device,
          .to_host = pretend::copies_to_host,
          .bytes = pretend::allocated_bytes()};
}

}  // namespace routeopd
