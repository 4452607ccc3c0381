// config.json as transformers 4 and 5 write it, and what is refused by name.
// SPDX-License-Identifier: Apache-2.0
#include "routeopd/formats/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing_files.h"

namespace routeopd::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Qwen3-0.6B's own file, as transformers 4.51 wrote it.
Json qwen3() {
  return Json::parse(R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
    "bos_token_id":151643,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu","hidden_size":1024,
    "initializer_range":0.02,"intermediate_size":3072,"max_position_embeddings":40960,"max_window_layers":28,
    "model_type":"qwen3","num_attention_heads":16,"num_hidden_layers":28,"num_key_value_heads":8,
    "rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000,"sliding_window":null,
    "tie_word_embeddings":true,"torch_dtype":"bfloat16","transformers_version":"4.51.0","use_cache":true,
    "use_sliding_window":false,"vocab_size":151936})");
}

ModelConfig read(const Json& config, const std::string& generation = "") {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  if (!generation.empty()) directory.write("generation_config.json", generation);
  return read_model_config(directory.path());
}

std::string error_with(const std::string& key, const Json& value) {
  Json config = qwen3();
  config[key] = value;
  return error_of([&] { read(config); });
}

std::string error_without(const std::string& key) {
  Json config = qwen3();
  config.erase(key);
  return error_of([&] { read(config); });
}

// Which projections have biases.
std::vector<std::string> biases_of(const ModelConfig& config) {
  const ArchitectureSpec& spec = config.architecture();
  std::vector<std::string> names;
  if (config.has(spec.qkv_bias)) names.emplace_back("qkv");
  if (config.has(spec.output_bias)) names.emplace_back("output");
  if (config.has(spec.mlp_bias)) names.emplace_back("mlp");
  return names;
}

TEST(ModelConfig, ReadsTheFormOfTransformers4) {
  const ModelConfig config = read(qwen3());
  EXPECT_EQ(config.model_type, "qwen3");
  EXPECT_EQ(config.vocab_size, 151936);
  EXPECT_EQ(config.hidden_size, 1024);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.num_hidden_layers, 28);
  EXPECT_EQ(config.num_attention_heads, 16);
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.max_position_embeddings, 40960);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.rope.type, "default");
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_EQ(config.architecture().query_key_norm, QueryKeyNorm::kEachHead);
  EXPECT_THAT(biases_of(config), IsEmpty());
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(151645));
}

TEST(ModelConfig, ReadsTheFormOfTransformers5) {
  Json file = qwen3();
  file.erase("rope_theta");
  file.erase("rope_scaling");
  file["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  file["layer_types"] = std::vector<std::string>(28, "full_attention");
  EXPECT_EQ(read(file).rope.theta, 5e5);
  file["rope_theta"] = 5e5;
  EXPECT_EQ(read(file).rope.theta, 5e5);
  file["rope_theta"] = 1e6;
  EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("rope_parameters: rope_theta: expected"));
}

TEST(ModelConfig, FillsInWhatIsMissing) {
  Json file = qwen3();
  for (const char* key : {"head_dim", "rms_norm_eps", "rope_theta", "tie_word_embeddings", "eos_token_id"})
    file.erase(key);
  file["num_key_value_heads"] = nullptr;
  const ModelConfig config = read(file);
  EXPECT_EQ(config.head_dim, 128) << "Qwen3Config's own";
  EXPECT_EQ(config.num_key_value_heads, 16);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope.theta, 1e4);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_token_ids, IsEmpty());
}

TEST(ModelConfig, StopsOfTheGenerationConfigWin) {
  EXPECT_THAT(read(qwen3(), R"({"eos_token_id":[151645,151643]})").eos_token_ids,
              ElementsAre(151645, 151643));
  EXPECT_THAT(read(qwen3(), R"({"eos_token_id":7})").eos_token_ids, ElementsAre(7));
  EXPECT_THAT(read(qwen3(), R"({"temperature":0.6})").eos_token_ids, ElementsAre(151645));
  EXPECT_THAT(read(qwen3(), R"({"eos_token_id":[]})").eos_token_ids, ElementsAre(151645));
  EXPECT_THAT(error_of([] { read(qwen3(), R"({"eos_token_id":[151936]})"); }),
              HasSubstr("generation_config.json: eos_token_id: expected a whole number from 0 to 151935"));
  EXPECT_THAT(error_of([] { read(qwen3(), "{"); }), HasSubstr("generation_config.json: expected JSON"));
}

TEST(ModelConfig, RefusesWhatItDoesNotCompute) {
  EXPECT_THAT(
      error_with("model_type", "gpt2"),
      HasSubstr("config.json: model_type: expected one of qwen2, qwen3, llama, mistral, olmo2, gemma, "
                "got gpt2"));
  EXPECT_THAT(error_without("model_type"),
              HasSubstr("model_type: expected one of qwen2, qwen3, llama, mistral, olmo2, gemma, got null"));
  EXPECT_THAT(error_with("architectures", {"Qwen3ForSequenceClassification"}),
              HasSubstr("architectures: expected"));
  EXPECT_THAT(error_with("attention_dropout", 0.1), HasSubstr("attention_dropout: expected 0"));
  EXPECT_THAT(error_with("hidden_act", "gelu"),
              HasSubstr("hidden_act: expected silu, the only one supported, got gelu"));
  EXPECT_THAT(error_with("hidden_activation", "gelu_pytorch_tanh"),
              HasSubstr("hidden_activation: expected silu, the only one supported"));
  EXPECT_THAT(error_with("is_causal", false), HasSubstr("is_causal: expected true"));
  EXPECT_THAT(error_with("use_bidirectional_attention", true),
              HasSubstr("use_bidirectional_attention: expected false"));
  EXPECT_THAT(error_with("auto_map", {{"AutoModel", "x.Y"}}), HasSubstr("auto_map: expected none"));
  EXPECT_EQ(error_with("hidden_act", "swish"), "");
  EXPECT_EQ(error_with("rope_scaling", Json::object()), "");
  EXPECT_THAT(error_with("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor: expected 1"));
  EXPECT_THAT(
      error_with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}),
      HasSubstr(
          "rope_scaling: rope_type: expected default, linear or llama3, the only ones supported, got yarn"));
  EXPECT_THAT(error_with("rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "yarn"}}),
              HasSubstr("rope_parameters: rope_type: expected default"));
  EXPECT_THAT(error_with("rope_parameters", {{"rope_theta", 1e6}, {"factor", 4}}), HasSubstr("got factor"));
  EXPECT_THAT(error_with("rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}),
              HasSubstr("got full_attention"));
  EXPECT_THAT(error_with("quantization_config", {{"bits", 4}}),
              HasSubstr("quantization_config: expected none"));
  EXPECT_THAT(
      error_with("layer_types", std::vector<std::string>(28, "sliding_attention")),
      HasSubstr("layer_types: expected full_attention, the only one supported, got sliding_attention"));
  EXPECT_THAT(error_with("layer_types", {"full_attention"}),
              HasSubstr("layer_types: expected a list of 28 names"));
}

// Most Qwen files name a window that no layer uses.
TEST(ModelConfig, RefusesSlidingWindowsThatAreUsed) {
  Json file = qwen3();
  file["sliding_window"] = 4096;
  read(file);
  file["use_sliding_window"] = true;
  read(file);  // from layer 28 of 28 on
  file["max_window_layers"] = 21;
  EXPECT_THAT(
      error_of([&] { read(file); }),
      HasSubstr(
          "use_sliding_window: expected false or max_window_layers of at least 28, got a window of 4096 "
          "from layer 21 on"));
  file["layer_types"] = std::vector<std::string>(28, "full_attention");
  read(file);  // which wins
  file.erase("layer_types");
  file.erase("sliding_window");  // 4096, then
  EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("got a window of 4096 from layer 21 on"));
  file["sliding_window"] = nullptr;
  read(file);
}

TEST(ModelConfig, ReadsBiasesAsEachArchitectureHasThem) {
  Json file = qwen3();
  file["attention_bias"] = true;
  EXPECT_THAT(biases_of(read(file)), ElementsAre("qkv", "output"));
  file["model_type"] = "qwen2";
  file["architectures"] = {"Qwen2ForCausalLM"};
  for (const bool said : {false, true}) {
    file["attention_bias"] = said;
    EXPECT_THAT(biases_of(read(file)), ElementsAre("qkv")) << "whatever attention_bias says";
    EXPECT_EQ(read(file).architecture().query_key_norm, QueryKeyNorm::kNone);
  }
  file.erase("head_dim");
  EXPECT_EQ(read(file).head_dim, 64) << "hidden_size / num_attention_heads";
  file["model_type"] = "llama";
  file["architectures"] = nullptr;
  file["mlp_bias"] = true;
  EXPECT_THAT(biases_of(read(file)), ElementsAre("qkv", "output", "mlp"));
  EXPECT_EQ(read(file).head_dim, 64);
  file.erase("eos_token_id");
  EXPECT_THAT(read(file).eos_token_ids, ElementsAre(2)) << "LlamaConfig's own";
  file["eos_token_id"] = nullptr;
  EXPECT_THAT(read(file).eos_token_ids, IsEmpty());
  file.erase("num_key_value_heads");
  EXPECT_EQ(read(file).num_key_value_heads, 16);
}

TEST(ModelConfig, ReadsRopeScalingInBothForms) {
  const Json scaling = {{"rope_type", "llama3"},
                        {"factor", 32.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  Json file = qwen3();
  file["rope_scaling"] = scaling;
  const RopeParameters four = read(file).rope;
  EXPECT_EQ(four, (RopeParameters{1e6, "llama3", 32, 1, 4, 8192}));
  file.erase("rope_scaling");
  file.erase("rope_theta");
  file["rope_parameters"] = scaling;
  file["rope_parameters"]["rope_theta"] = 1e6;
  EXPECT_EQ(read(file).rope, four);
  EXPECT_EQ(read(json_of(read(file))).rope, four);
  file["rope_parameters"].erase("original_max_position_embeddings");
  EXPECT_EQ(read(file).rope.original_positions, 40960);
  file["original_max_position_embeddings"] = 16;
  EXPECT_EQ(read(file).rope.original_positions, 16);
  file["rope_parameters"]["original_max_position_embeddings"] = 64;
  EXPECT_EQ(read(file).rope.original_positions, 16) << "the outer one wins, as in transformers";
  file["rope_parameters"]["high_freq_factor"] = 1;
  EXPECT_THAT(error_of([&] { read(file); }),
              HasSubstr("high_freq_factor: expected more than low_freq_factor"));
  file["rope_parameters"].erase("factor");
  EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("rope_parameters: factor: expected a number"));
  file["rope_parameters"] = {{"type", "linear"}, {"factor", 2.5}};
  EXPECT_EQ(read(file).rope, (RopeParameters{1e4, "linear", 2.5}));
  EXPECT_EQ(read(json_of(read(file))).rope, (RopeParameters{1e4, "linear", 2.5}));
}

TEST(ModelConfig, RefusesNumbersOutOfBounds) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const Json& value :
         {Json(0), Json(-1), Json(1.5), Json("8"), Json(true), Json(1LL << 40U), Json(1e300)})
      EXPECT_THAT(error_with(key, value), HasSubstr(std::string(key) + ": expected a whole number")) << value;
  }
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"})
    EXPECT_THAT(error_without(key), HasSubstr(std::string(key) + ": expected a whole number"));
  for (const char* key : {"rms_norm_eps", "rope_theta"}) {
    for (const Json& value : {Json(0), Json(-1), Json("1"), Json(1e300)})
      EXPECT_THAT(error_with(key, value), HasSubstr(std::string(key) + ": expected a number")) << value;
  }
  EXPECT_THAT(error_with("num_key_value_heads", 3),
              HasSubstr("expected a divisor of num_attention_heads 16, got 3"));
  EXPECT_THAT(error_with("head_dim", 127), HasSubstr("head_dim: expected an even number"));
  EXPECT_THAT(error_with("tie_word_embeddings", 1), HasSubstr("tie_word_embeddings: expected true or false"));
  EXPECT_THAT(error_with("eos_token_id", 151936),
              HasSubstr("eos_token_id: expected a whole number from 0 to 151935"));
  EXPECT_THAT(error_with("eos_token_id", {1, -1}), HasSubstr("eos_token_id: expected a whole number"));
  EXPECT_THAT(error_with("eos_token_id", std::vector<int>(300, 1)), HasSubstr("at most 256 ids"));
}

TEST(ModelConfig, ReadsBackItsOwnJson) {
  ModelConfig config = read(qwen3(), R"({"eos_token_id":[151645,151643]})");
  config.rope.theta = 12345.5;
  config.rms_norm_eps = 1e-5;
  for (const std::vector<std::int32_t>& stops : {std::vector<std::int32_t>{}, {3}, {3, 4}}) {
    config.eos_token_ids = stops;
    const Json written = json_of(config);
    const ModelConfig again = read(written);
    EXPECT_EQ(json_of(again), written);
    EXPECT_EQ(again.eos_token_ids, stops);
    EXPECT_EQ(again.rope.theta, 12345.5);
    EXPECT_EQ(again.rms_norm_eps, 1e-5);
    EXPECT_EQ(again.head_dim, 128);
    EXPECT_TRUE(again.tie_word_embeddings);
  }
}

TEST(ModelConfig, WritesWhatTransformers5Reads) {
  // Held against AutoConfig of transformers 5.22.2, which keeps each of these values.
  const Json written = json_of(read(qwen3()));
  EXPECT_EQ(written["architectures"], Json::array({"Qwen3ForCausalLM"}));
  EXPECT_EQ(written["model_type"], "qwen3");
  EXPECT_EQ(written["dtype"], "float32");
  EXPECT_EQ(written["rope_parameters"], (Json{{"rope_theta", 1e6}, {"rope_type", "default"}}));
  EXPECT_EQ(written["rope_theta"], 1e6);
  EXPECT_EQ(written["layer_types"].size(), 28U);
  EXPECT_EQ(written["eos_token_id"], 151645);
}

// Mistral-7B-v0.3's own file, as transformers 4.42 wrote it.
Json mistral() {
  return Json::parse(R"({"architectures":["MistralForCausalLM"],"attention_dropout":0.0,"bos_token_id":1,
    "eos_token_id":2,"hidden_act":"silu","hidden_size":4096,"initializer_range":0.02,
    "intermediate_size":14336,"max_position_embeddings":32768,"model_type":"mistral",
    "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,
    "rope_theta":1000000.0,"sliding_window":null,
    "tie_word_embeddings":false,"torch_dtype":"bfloat16","transformers_version":"4.42.0.dev0",
    "use_cache":true,"vocab_size":32768})");
}

TEST(ModelConfig, ReadsMistral) {
  Json file = mistral();
  EXPECT_EQ(read(file).head_dim, 128) << "hidden_size / num_attention_heads";
  file["attention_bias"] = true;
  EXPECT_THAT(biases_of(read(file)), IsEmpty()) << "whatever attention_bias says";
  file["head_dim"] = 160;
  EXPECT_EQ(read(file).head_dim, 160);
  for (const char* key : {"num_key_value_heads", "eos_token_id", "rms_norm_eps"}) file.erase(key);
  EXPECT_EQ(read(file).num_key_value_heads, 8) << "MistralConfig's own";
  EXPECT_EQ(read(file).rms_norm_eps, 1e-6);
  EXPECT_THAT(read(file).eos_token_ids, ElementsAre(2));
}

// A window that no sequence outgrows is none.
TEST(ModelConfig, RefusesAWindowOfMistralThatMatters) {
  Json file = mistral();
  file["sliding_window"] = 4096;
  EXPECT_THAT(error_of([&] { read(file); }),
              HasSubstr("sliding_window: expected null or at least max_position_embeddings 32768, got 4096; "
                        "sliding windows are not supported, try max_position_embeddings of at most 4096"));
  file["sliding_window"] = 32768;
  read(file);
  file["sliding_window"] = 32767;
  EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("got 32767"));
  file.erase("sliding_window");
  EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("got 4096 by default"));
  file["max_position_embeddings"] = 4096;
  read(file);
  for (const Json& odd : {Json(0), Json("wide"), Json(0.5)}) {
    file["sliding_window"] = odd;
    EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("sliding_window: expected a whole number")) << odd;
  }
  file["sliding_window"] = nullptr;
  file["layer_types"] = std::vector<std::string>(32, "sliding_attention");
  EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("layer_types: expected full_attention"));
}

TEST(ModelConfig, ReadsOlmo2) {
  Json file = mistral();
  file["model_type"] = "olmo2";
  file["architectures"] = {"Olmo2ForCausalLM"};
  for (const char* key : {"num_key_value_heads", "eos_token_id", "rms_norm_eps", "sliding_window"})
    file.erase(key);
  EXPECT_THAT(error_of([&] { read(file); }),
              HasSubstr("eos_token_id: expected a whole number from 0 to 32767"))
      << "Olmo2Config's own 50279";
  file["vocab_size"] = 100352;
  const ModelConfig config = read(file);
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_EQ(config.rms_norm_eps, 1e-5) << "Olmo2Config's own";
  EXPECT_THAT(config.eos_token_ids, ElementsAre(50279));
  EXPECT_THAT(biases_of(config), IsEmpty());
  file["attention_bias"] = true;
  EXPECT_THAT(biases_of(read(file)), ElementsAre("qkv", "output"));
  EXPECT_EQ(read(json_of(read(file))).attention_bias, true);
}

// Gemma-2B's own file.
TEST(ModelConfig, ReadsGemma) {
  Json file = Json::parse(R"({"architectures":["GemmaForCausalLM"],"attention_bias":false,
    "attention_dropout":0.0,"bos_token_id":2,"eos_token_id":1,"head_dim":256,"hidden_act":"gelu",
    "hidden_activation":null,"hidden_size":2048,"initializer_range":0.02,"intermediate_size":16384,
    "max_position_embeddings":8192,
    "model_type":"gemma","num_attention_heads":8,"num_hidden_layers":18,"num_key_value_heads":1,
    "pad_token_id":0,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":10000.0,"torch_dtype":"bfloat16",
    "transformers_version":"4.38.0.dev0","use_cache":true,"vocab_size":256000})");
  const ModelConfig config = read(file);
  EXPECT_TRUE(config.tie_word_embeddings) << "GemmaConfig's own";
  EXPECT_EQ(config.query_size(), 2048);
  EXPECT_EQ(config.key_size(), 256);
  EXPECT_EQ(config.embedding_scale(), std::sqrt(2048.0));
  EXPECT_EQ(json_of(config)["hidden_act"], "gelu_pytorch_tanh");
  EXPECT_EQ(json_of(read(json_of(config))), json_of(config));
  for (const char* name : {"gelu_pytorch_tanh", "gelu"}) {
    file["hidden_act"] = file["hidden_activation"] = name;
    read(file);
  }
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    Json other = file;
    other[key] = "silu";
    EXPECT_THAT(
        error_of([&] { read(other); }),
        HasSubstr(std::string(key) + ": expected gelu_pytorch_tanh, the only one supported, got silu"));
  }
  file.erase("head_dim");
  EXPECT_EQ(read(file).head_dim, 256) << "GemmaConfig's own";
  file.erase("num_key_value_heads");
  EXPECT_THAT(error_of([&] { read(file); }), HasSubstr("got 16")) << "GemmaConfig's own";
  file["num_attention_heads"] = 16;
  EXPECT_EQ(read(file).num_key_value_heads, 16);
}

}  // namespace
}  // namespace routeopd::formats
