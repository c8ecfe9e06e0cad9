// Block decoding and the integer form. Expected values: ggml's own decoder, stored by
// tests/data/quant/make_quant_vectors.py; and the spec's table of ids and sizes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "format/quant/half.h"
#include "format/quant/quant.h"

namespace strata {
namespace {

std::vector<QuantType> all_types() {
  std::vector<QuantType> types;
  for (int i = 0; i < kQuantTypeCount; ++i) types.push_back(static_cast<QuantType>(i));
  return types;
}

struct Vectors {
  std::string name;
  size_t blocks = 0, bytes = 0, elems = 0;
  std::vector<uint8_t> data;
  std::vector<float> values;
};

std::vector<Vectors> read_vectors() {
  std::ifstream in(std::string(STRATA_SOURCE_DIR) + "/tests/data/quant/quant_vectors.bin",
                   std::ios::binary);
  const std::vector<char> file((std::istreambuf_iterator<char>(in)), {});
  size_t at = 4;
  const auto take = [&](void* to, size_t n) {
    ASSERT_LE(at + n, file.size());
    std::memcpy(to, file.data() + at, n);
    at += n;
  };
  const auto take_u32 = [&] {
    uint32_t v = 0;
    take(&v, 4);
    return v;
  };
  std::vector<Vectors> out;
  if (file.size() < 8 || std::string(file.data(), 4) != "SQV1") return out;
  const uint32_t records = take_u32();
  for (uint32_t r = 0; r < records && !testing::Test::HasFatalFailure(); ++r) {
    Vectors v;
    v.name.resize(take_u32());
    take(v.name.data(), v.name.size());
    v.blocks = take_u32();
    v.bytes = take_u32();
    v.elems = take_u32();
    v.data.resize(v.blocks * v.bytes);
    take(v.data.data(), v.data.size());
    v.values.resize(v.blocks * v.elems);
    take(v.values.data(), v.values.size() * sizeof(float));
    out.push_back(std::move(v));
  }
  EXPECT_EQ(at, file.size());
  return out;
}

std::optional<QuantType> by_name(const std::string& name) {
  for (const QuantType type : all_types()) {
    if (name == quant_info(type).name) return type;
  }
  return std::nullopt;
}

TEST(Quant, DecodesEveryTypeToTheBitsOfThePeersDecoder) {
  const auto vectors = read_vectors();
  std::set<QuantType> seen;
  for (const Vectors& v : vectors) {
    const auto type = by_name(v.name);
    ASSERT_TRUE(type.has_value()) << v.name;
    seen.insert(*type);
    ASSERT_EQ(v.bytes, static_cast<size_t>(quant_info(*type).bytes)) << v.name;
    ASSERT_EQ(v.elems, static_cast<size_t>(quant_info(*type).elems)) << v.name;
    ASSERT_GE(v.blocks, 10u) << v.name;
    std::vector<float> got(v.values.size());
    decode_row(*type, v.data.data(), got.data(), static_cast<int64_t>(got.size()));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(v.values[i]))
          << v.name << " block " << i / v.elems << " element " << i % v.elems << ": " << got[i]
          << " instead of " << v.values[i];
    }
  }
  for (const QuantType type : all_types()) {
    EXPECT_EQ(seen.count(type) != 0, quant_info(type).quantised) << quant_info(type).name;
  }
}

// In double the two products are exact (11 + 13 bits each) and so is their difference (it spans at
// most 2^-24 .. 2^28), so its rounding to float is the correctly rounded value: no tolerance
// needed.
TEST(Quant, IntegerFormHasTheValuesOfTheDecoder) {
  for (const Vectors& v : read_vectors()) {
    const QuantInfo& info = quant_info(by_name(v.name).value());
    for (size_t b = 0; b < v.blocks; ++b) {
      for (int group = 0; group < info.elems / 32; ++group) {
        IntGroup g;
        std::memset(&g, 0x55, sizeof g);
        info.unpack(v.data.data() + b * v.bytes, group, g);
        if (!info.has_min) {
          EXPECT_EQ(g.dmin, 0.0f);
          EXPECT_EQ(g.min[0], 0);
          EXPECT_EQ(g.min[1], 0);
        }
        for (size_t i = 0; i < 32; ++i) {
          const double value = static_cast<double>(g.d) * g.scale[i / 16] * g.q[i] -
                               static_cast<double>(g.dmin) * g.min[i / 16];
          const float expected = v.values[b * v.elems + 32 * static_cast<size_t>(group) + i];
          ASSERT_EQ(static_cast<float>(value), expected)
              << v.name << " block " << b << " group " << group << " element " << i;
        }
      }
    }
  }
}

TEST(Quant, TableMatchesTheFormatsOfTheSpecification) {
  struct Row {
    const char* name;
    uint32_t id;
    int elems, bytes;
  };
  const Row rows[] = {
      {"F32", 0, 1, 4},         {"F16", 1, 1, 2},        {"BF16", 30, 1, 2},
      {"Q4_0", 2, 32, 18},      {"Q4_1", 3, 32, 20},     {"Q5_0", 6, 32, 22},
      {"Q5_1", 7, 32, 24},      {"Q8_0", 8, 32, 34},     {"Q2_K", 10, 256, 84},
      {"Q3_K", 11, 256, 110},   {"Q4_K", 12, 256, 144},  {"Q5_K", 13, 256, 176},
      {"Q6_K", 14, 256, 210},   {"IQ1_S", 19, 256, 50},  {"IQ1_M", 29, 256, 56},
      {"IQ2_XXS", 16, 256, 66}, {"IQ2_XS", 17, 256, 74}, {"IQ2_S", 22, 256, 82},
      {"IQ3_XXS", 18, 256, 98}, {"IQ3_S", 21, 256, 110}, {"IQ4_NL", 20, 32, 18},
      {"IQ4_XS", 23, 256, 136}, {"MXFP4", 39, 32, 17},   {"NVFP4", 40, 64, 36},
      {"Q1_0", 41, 128, 18},    {"Q2_0", 42, 64, 18},
  };
  for (const Row& row : rows) {
    const auto type = quant_from_gguf_id(row.id);
    ASSERT_TRUE(type.has_value()) << row.name;
    const QuantInfo& info = quant_info(*type);
    EXPECT_EQ(info.type, *type);
    EXPECT_STREQ(info.name, row.name);
    EXPECT_EQ(info.gguf_id, row.id);
    EXPECT_EQ(info.elems, row.elems);
    EXPECT_EQ(info.bytes, row.bytes);
    EXPECT_EQ(info.unpack != nullptr, info.quantised);
    EXPECT_EQ(row_bytes(*type, 3 * row.elems), static_cast<size_t>(3 * row.bytes));
    EXPECT_STREQ(visit_quant(*type, [](auto t) { return decltype(t)::kName; }), row.name);
  }
  EXPECT_EQ(kQuantTypeCount, static_cast<int>(std::size(rows)) + 1);
  const QuantInfo& fork = quant_info(QuantType::kQ2_0_G128);
  EXPECT_EQ(fork.gguf_id, 42u);
  EXPECT_EQ(fork.elems, 128);
  EXPECT_EQ(fork.bytes, 34);
  for (const uint32_t unknown : {4u, 5u, 9u, 15u, 24u, 28u, 31u, 34u, 38u, 43u, 1000u, ~0u}) {
    EXPECT_FALSE(quant_from_gguf_id(unknown).has_value()) << unknown;
  }
}

TEST(Quant, FloatTypesDecodeTheirStandardPatterns) {
  const auto decode_one = [](QuantType type, uint32_t bits) {
    uint8_t bytes[4];
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(bits >> 8 * i);
    float value = 0;
    decode_row(type, bytes, &value, 1);
    return value;
  };
  EXPECT_EQ(decode_one(QuantType::kF32, 0x40490FDB), 3.14159274101257324f);
  EXPECT_EQ(decode_one(QuantType::kF16, 0x3555), 0.333251953125f);
  EXPECT_EQ(decode_one(QuantType::kF16, 0xFBFF), -65504.0f);
  EXPECT_EQ(decode_one(QuantType::kF16, 0x0001), 5.9604644775390625e-08f);
  EXPECT_EQ(decode_one(QuantType::kBF16, 0xC2F7), -123.5f);
}

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const auto half = static_cast<uint16_t>(h);
    const float value = quant::half_to_float(half);
    if ((h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(quant::half_to_float(quant::float_to_half(value))));
    } else {
      EXPECT_EQ(quant::float_to_half(value), half);
    }
  }
}

// Independent of the conversion's bit tricks: the two neighbouring halves and the distance to each.
TEST(Half, NarrowingRoundsToTheNearestWithTiesToEven) {
  std::mt19937 rng(7);
  const auto check = [](float x) {
    const uint16_t got = quant::float_to_half(x);
    EXPECT_EQ(std::signbit(x), (got & 0x8000) != 0);
    const double a = std::fabs(static_cast<double>(x));
    uint16_t low = 0;  // largest finite half <= a
    for (int bit = 14; bit >= 0; --bit) {
      const auto next = static_cast<uint16_t>(low | 1 << bit);
      if (next < 0x7C00 && quant::half_to_float(next) <= a) low = next;
    }
    const double below = quant::half_to_float(low);
    const double above = low == 0x7BFF ? 65536.0 : quant::half_to_float(low + 1);
    const bool up = a - below > above - a || (a - below == above - a && (low & 1));
    EXPECT_EQ(got & 0x7FFF, low + (up ? 1 : 0)) << x;
  };
  for (uint16_t h = 0; h < 0x7BFF; h += 7) {
    const float mid = 0.5f * quant::half_to_float(h) + 0.5f * quant::half_to_float(h + 1);
    check(mid);
    check(-std::nextafter(mid, 0.0f));
    check(std::nextafter(mid, 1e9f));
  }
  for (const float x : {65519.996f, 65520.0f, 65536.0f, 1e-8f, 2.98023224e-08f, 2.9802324e-08f}) {
    check(x);
  }
  std::uniform_real_distribution<float> exponent(-28.0f, 17.0f);
  for (int i = 0; i < 20000; ++i) check(std::exp2(exponent(rng)));
  EXPECT_EQ(quant::float_to_half(INFINITY), 0x7C00);
  EXPECT_EQ(quant::float_to_half(-1e38f), 0xFC00);
}

TEST(Half, Bfloat16NarrowingRoundsToTheNearestWithTiesToEven) {
  EXPECT_EQ(quant::float_to_bf16(1.0f), 0x3F80);
  EXPECT_EQ(quant::float_to_bf16(std::bit_cast<float>(0x3F808000u)), 0x3F80);  // tie, even below
  EXPECT_EQ(quant::float_to_bf16(std::bit_cast<float>(0x3F818000u)), 0x3F82);  // tie, even above
  EXPECT_EQ(quant::float_to_bf16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_EQ(quant::float_to_bf16(std::bit_cast<float>(0x3F817FFFu)), 0x3F81);
  EXPECT_EQ(quant::float_to_bf16(-3.4e38f), 0xFF80);
  EXPECT_TRUE(
      std::isnan(quant::bf16_to_float(quant::float_to_bf16(std::bit_cast<float>(0x7F800001u)))));
}

}  // namespace
}  // namespace strata
