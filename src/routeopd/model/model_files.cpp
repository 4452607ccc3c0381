// Model directories as Hugging Face has them.
//
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/GradMode.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "routeopd/base/atomic_directory.h"
#include "routeopd/base/atomic_file.h"
#include "routeopd/base/error.h"
#include "routeopd/formats/safetensors.h"
#include "routeopd/model/model.h"

namespace routeopd::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";

// What a saved directory carries along from the one it came from.
constexpr std::array kCarried = {"generation_config.json", "tokenizer.json", "tokenizer_config.json",
                                 "special_tokens_map.json", "chat_template.jinja"};

at::ScalarType scalar_type(const formats::TensorView& tensor, const fs::path& file) {
  switch (tensor.type) {
    case formats::TensorType::kF32:
      return at::kFloat;
    case formats::TensorType::kF16:
      return at::kHalf;
    case formats::TensorType::kBF16:
      return at::kBFloat16;
    default:
      break;
  }
  throw UserError("{}: {} is stored as {}; expected F32, F16 or BF16", file.string(), tensor.name,
                  formats::name_of(tensor.type));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string sizes;
  for (const std::int64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return "[" + sizes + "]";
}

void load_tensor(const formats::TensorView& view, const fs::path& file, at::Tensor& target) {
  if (view.shape != target.sizes().vec()) {
    throw UserError("{}: {} has shape {}; config.json makes it {}", file.string(), view.name,
                    shape_text(view.shape), shape_text(target.sizes().vec()));
  }
  const at::ScalarType type = scalar_type(view, file);
  // The bytes of a file need not be aligned to their type: copy them as bytes first.
  at::Tensor stored = at::empty(target.sizes(), type);
  std::copy(view.bytes.begin(), view.bytes.end(), static_cast<std::byte*>(stored.data_ptr()));
  target.copy_(stored);
}

void carry_file(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::copy_file(from, to, failed);
  if (failed)
    throw UserError("{}: cannot be copied to {} ({})", from.string(), to.string(), failed.message());
}

// config.json as it is, byte for byte; only where it says that weights are of another type than the float32 we write, that
// word is changed, or readers would round them.
void write_config(const fs::path& from, const fs::path& to) {
  std::ifstream file(from / "config.json", std::ios::binary);
  if (!file)
    throw UserError("{}: cannot be read any more; was the model moved?", (from / "config.json").string());
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  auto config = nlohmann::ordered_json::parse(text);
  bool changed = false;
  for (const char* name : {"dtype", "torch_dtype"}) {
    if (!config.contains(name) || config[name] == "float32") continue;
    config[name] = "float32";
    changed = true;
  }
  write_file(to / "config.json", changed ? config.dump(2) + "\n" : text);
}

}  // namespace

Model load_model(const fs::path& directory) {
  const c10::NoGradGuard no_grad;
  const formats::ModelConfig config = formats::read_model_config(directory);
  const fs::path file = directory / kWeights;
  if (!fs::exists(file)) {
    if (fs::exists(directory / "model.safetensors.index.json"))
      throw UserError("{}: weights in several shards are not supported yet; expected one {}",
                      directory.string(), kWeights);
    throw UserError("{}: no {} there; is it a Hugging Face model directory with safetensors weights?",
                    directory.string(), kWeights);
  }
  const formats::Safetensors stored(file);
  Model model = allocate_model(config);
  std::set<std::string> known;
  for (Parameter& parameter : parameters(model)) {
    known.insert(parameter.name);
    const formats::TensorView* view = stored.find(parameter.name);
    // A tied pair may be stored under the head's name alone.
    if (view == nullptr && config.tie_word_embeddings && parameter.name == "model.embed_tokens.weight")
      view = stored.find("lm_head.weight");
    if (view == nullptr)
      throw UserError("{}: {} is missing; do config.json and the weights belong together?", file.string(),
                      parameter.name);
    load_tensor(*view, file, parameter.tensor);
  }
  if (config.tie_word_embeddings) known.insert("lm_head.weight");
  for (const formats::TensorView& tensor : stored.tensors()) {
    if (!known.contains(tensor.name))
      throw UserError("{}: unexpected tensor {}; config.json describes a model without it", file.string(),
                      tensor.name);
  }
  return model;
}

void save_tensors(const fs::path& path, const std::vector<Parameter>& tensors) {
  std::vector<formats::TensorView> views;
  std::vector<at::Tensor> held;
  for (const Parameter& parameter : tensors) {
    held.push_back(parameter.tensor.detach().to(at::kCPU, at::kFloat).contiguous());
    views.push_back({parameter.name,
                     formats::TensorType::kF32,
                     held.back().sizes().vec(),
                     {static_cast<const std::byte*>(held.back().const_data_ptr()), held.back().nbytes()}});
  }
  formats::write_safetensors(path, views);
}

void write_model_files(const Model& model, const fs::path& directory, const fs::path& like) {
  write_config(like, directory);
  for (const char* name : kCarried) {
    if (fs::exists(like / name)) carry_file(like / name, directory / name);
  }
  save_tensors(directory / kWeights, parameters(model));
}

void save_model(const Model& model, const fs::path& directory, const fs::path& like) {
  AtomicDirectory target(directory);
  write_model_files(model, target.path(), like);
  target.commit();
}

}  // namespace routeopd::model
