// The pretend device itself: that it computes what the CPU computes, and finds what does not keep to it.
// SPDX-License-Identifier: Apache-2.0
#include "device/pretend_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/autograd.h>

#include <csignal>

#include "routeopd/model/heads/dense_head.h"
#include "routeopd/model/heads/head_common.h"
#include "routeopd/model/heads/pair_head.h"
#include "testing_errors.h"

namespace routeopd {
namespace {

using ::testing::HasSubstr;

const ::testing::Matcher<const std::string&> kWhatever = ::testing::A<const std::string&>();  // it says

at::Tensor some(at::IntArrayRef shape) {
  return at::sin(at::arange(c10::multiply_integers(shape), at::kFloat)).view(shape);
}

at::Tensor some_there(at::IntArrayRef shape) {
  return some(shape).to(pretend_device());
}

std::string thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Views, an operation in place, outputs that are given, lists of tensors, gradients.
TEST(PretendDevice, ComputesTheCpusBits) {
  const auto compute = [](at::Device device) {
    const at::Tensor x = some({3, 2, 16, 8}).to(device).requires_grad_(true);
    const at::Tensor w = some({8, 8}).to(device).requires_grad_(true);
    const at::Tensor q = at::linear(x, w);
    const at::Tensor attended = at::scaled_dot_product_attention(q, x, x, {}, 0.0, /*is_causal=*/true);
    const at::Tensor flat = attended.transpose(1, 2).reshape({-1, 16});
    const at::Tensor y = at::silu(at::rms_norm(flat, {16}, {}, 1e-6)).chunk(2, -1)[1];
    const at::Tensor loss = at::cat({y, y * 2}, 1).logsumexp(1, true).neg().mul_(0.5).sum();
    loss.backward();
    at::Tensor product = at::empty({48, 8}, x.options());
    at::mm_out(product, flat.detach().narrow(1, 0, 8), w.detach().t());
    return std::vector<at::Tensor>{loss.detach(), x.grad(), w.grad(), product};
  };
  const auto expected = compute(at::kCPU), got = compute(pretend_device());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].device(), pretend_device());
    EXPECT_TRUE(at::equal(got[i].to(at::kCPU), expected[i])) << i;
  }
}

TEST(PretendDevice, ReturnsItsMemory) {
  const std::int64_t before = pretend_counts().bytes;
  {
    const at::Tensor held = some_there({1000});
    EXPECT_GE(pretend_counts().bytes, before + 4000);
  }
  EXPECT_EQ(pretend_counts().bytes, before);
}

TEST(PretendDevice, FreshMemoryIsNotANumber) {
  const at::Tensor fresh = at::empty({5}, at::device(pretend_device()).dtype(at::kFloat));
  EXPECT_TRUE(fresh.isnan().all().item<bool>());
}

// Each is what a slip in the learner would do.
TEST(PretendDevice, AnOperationThatMixesDevicesThrows) {
  const at::Tensor here = some({4, 4}), there = some_there({4, 4});
  const at::Tensor index = at::arange(2, at::kLong);
  EXPECT_NE(thrown_by([&] { there.add(here); }), "");
  EXPECT_THAT(thrown_by([&] { at::mm(there, here); }), HasSubstr("device"));
  EXPECT_THAT(thrown_by([&] { there.index_select(0, index); }), HasSubstr("mixes"));
  EXPECT_THAT(thrown_by([&] { at::cat({there, here}); }), HasSubstr("device"));
  EXPECT_THAT(thrown_by([&] {
                at::_fused_adamw_({there}, {here}, {there}, {there}, {}, {at::zeros({}, there.options())},
                                  0.1, 0.9, 0.9, 0, 1e-8, false, false);
              }),
              HasSubstr("mixes"));
  EXPECT_THAT(thrown_by([&] {
                at::_fused_adamw_({there}, {there}, {there}, {there}, {}, {at::zeros({}, at::kFloat)}, 0.1,
                                  0.9, 0.9, 0, 1e-8, false, false);
              }),
              HasSubstr("mixes"))
      << "a count of steps is read beside its weight";
  EXPECT_EQ(thrown_by([&] { (there * at::scalar_tensor(2.0)).index_select(0, index.to(pretend_device())); }),
            "")
      << "a number of the host is no tensor of it";
}

TEST(PretendDevice, TheHeadsRefuseToReadItsMemory) {
  const at::Tensor hidden = some_there({2, 4}), weight = some_there({6, 4});
  const at::Tensor ids = at::zeros({2, 1}, at::kInt);
  EXPECT_THAT(error_of([&] { model::pair_log_odds(hidden, weight, ids, ids, model::Backend::kHighway); }),
              HasSubstr("needs CPU tensors"));
  EXPECT_THAT(error_of([&] { model::pair_log_odds(hidden, weight.to(at::kCPU), ids, ids); }),
              HasSubstr("must be on one device"));
  at::Tensor grad = at::zeros_like(hidden);
  model::HeadGradient head_gradient(at::zeros_like(weight));
  EXPECT_THAT(error_of([&] {
                model::dense_head_step(hidden, weight, 6, {}, grad, head_gradient, model::Backend::kHighway);
              }),
              HasSubstr("dense head: the Highway backend needs CPU tensors"));
}

// Killed by SIGSEGV; AddressSanitizer reports that signal and exits.
bool touched_closed_memory(int status) {
#ifdef __SANITIZE_ADDRESS__
  return WIFEXITED(status) && WEXITSTATUS(status) != 0;
#else
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
#endif
}

// "threadsafe": the child is a process of its own, as LibTorch has threads.
TEST(PretendDeviceDeathTest, AHostPointerIntoItEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const at::Tensor there = some_there({4});
  EXPECT_EXIT(static_cast<void>(static_cast<volatile float*>(there.data_ptr<float>())[0]),
              touched_closed_memory, kWhatever);
  const at::Tensor fresh = at::empty({4}, there.options());
  EXPECT_EXIT(*static_cast<volatile float*>(fresh.mutable_data_ptr<float>()) = 1, touched_closed_memory,
              kWhatever);
  EXPECT_EXIT(*static_cast<volatile float*>(there.mutable_data_ptr<float>()) = 1, touched_closed_memory,
              kWhatever);
}

// A kernel of the CPU that is handed memory of the device: what a missing check in the learner would do.
TEST(PretendDeviceDeathTest, AKernelOfTheHostOnItEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const at::Tensor hidden = some_there({2, 4}), weight = some_there({6, 4});
  const std::vector<std::int64_t> offsets = {0, 1, 2};
  const std::vector<std::int32_t> ids = {1, 5};
  std::vector<float> logits(2);
  EXPECT_EXIT(kernels::gather_logits(model::row_matrix(hidden), model::row_matrix(weight), {offsets, ids},
                                     model::torch_threads(), logits.data()),
              touched_closed_memory, kWhatever);
}

}  // namespace
}  // namespace routeopd
