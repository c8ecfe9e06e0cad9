// Runs every kernel row the CPU device admits for an op, cut into calls and spread over workers in
// many ways; and every row of the devices of --device=, which must give the same bits.
//
// A Case describes one random call:
//   using Args                     the op's argument struct
//   int rows() const
//   std::optional<QuantType> weight_type() const     of the weights the op dispatches on
//   Outputs run(const KernelSpec&, Device&, const std::vector<int>& calls) const
//                                  on fresh copies of state, rows split into calls of these sizes
//   template <class N> std::vector<N> expected() const      what run().floats must be
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "ops/operands.h"
#include "ops/support/approx.h"
#include "support/test_devices.h"

namespace strata::ops_test {

using backend::KernelSpec;

struct Outputs {
  std::vector<float> floats;
  std::vector<int32_t> ints;

  void add(const std::vector<float>& values) {
    floats.insert(floats.end(), values.begin(), values.end());
  }
  void add(const std::vector<int32_t>& values) {
    ints.insert(ints.end(), values.begin(), values.end());
  }
};

// Which NaN an operation gives differs between machines, and no op looks at it.
inline bool same_bits(const Outputs& a, const Outputs& b) {
  const auto same = [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) ||
           (std::isnan(x) && std::isnan(y));
  };
  return a.ints == b.ints &&
         std::equal(a.floats.begin(), a.floats.end(), b.floats.begin(), b.floats.end(), same);
}

class OpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int workers = 1; workers <= 3; ++workers) {
      auto device = backend::open_cpu_device({.workers = workers, .kernels = {}});
      ASSERT_TRUE(device.ok()) << device.status().message();
      devices_.push_back(std::move(device).value());
    }
  }

  backend::Device& device(int workers = 1) { return *devices_[static_cast<size_t>(workers) - 1]; }

  template <class Case>
  std::vector<const KernelSpec*> kernels_for(const Case& c) {
    return kernels_for(c, device());
  }
  template <class Case>
  static std::vector<const KernelSpec*> kernels_for(const Case& c, backend::Device& device) {
    std::vector<const KernelSpec*> out;
    for (const KernelSpec* spec : device.kernels().admitted()) {
      if (spec->op != Case::Args::kOp) continue;
      if (spec->weight_type && spec->weight_type != c.weight_type()) continue;
      out.push_back(spec);
    }
    return out;
  }

  // Sizes of calls that cut `rows` in different places.
  static std::vector<std::vector<int>> ways_to_cut(int rows) {
    std::vector<std::vector<int>> ways = {{rows}};
    const bool many = rows > 65;
    for (int size : many ? std::vector{63, 130} : std::vector{1, 2, 7}) {
      if (size >= rows) continue;
      std::vector<int> way;
      for (int left = rows; left > 0; left -= size) way.push_back(std::min(size, left));
      ways.push_back(way);
    }
    return ways;
  }

  // The same bits for any number of workers and any cut into calls; the same bits from all rows
  // that are not reference rows.
  template <class Case>
  void expect_one_result(const Case& c) {
    std::optional<Outputs> agreed;
    int references = 0;
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      references += spec->reference;
      const Outputs whole = c.run(*spec, device(), {c.rows()});
      for (const auto& calls : ways_to_cut(c.rows())) {
        for (int workers = 1; workers <= 3; ++workers) {
          EXPECT_TRUE(same_bits(whole, c.run(*spec, device(workers), calls)))
              << workers << " workers, first call of " << calls.front() << " rows";
        }
      }
      if (spec->reference) continue;
      if (!agreed) agreed = whole;
      EXPECT_TRUE(same_bits(*agreed, whole));
    }
    EXPECT_EQ(references, 1);
    expect_same_on_devices(c, *agreed);
  }

  // Every row that the devices of --device= have for the case, cut in the same ways.
  template <class Case>
  void expect_same_on_devices(const Case& c, const Outputs& agreed) {
    for (backend::Device* device : test::devices()) {
      // Devices are compiled for some weight types only.
      const auto type = c.weight_type();
      if (type && device->kernels().find(backend::OpId::kMatmul, *type) == nullptr) continue;
      const auto kernels = kernels_for(c, *device);
      EXPECT_FALSE(kernels.empty()) << device->caps().id;
      for (const KernelSpec* spec : kernels) {
        SCOPED_TRACE(testing::Message() << device->caps().id << " " << spec->name);
        for (const auto& calls : ways_to_cut(c.rows())) {
          EXPECT_TRUE(same_bits(agreed, c.run(*spec, *device, calls)))
              << "first call of " << calls.front() << " rows";
        }
      }
    }
  }

  // Every float within the bound that its formula derives.
  template <class Case>
  void expect_formula(const Case& c) {
    for (const KernelSpec* spec : kernels_for(c)) {
      SCOPED_TRACE(spec->name);
      const Outputs got = c.run(*spec, device(), {c.rows()});
      if (spec->reference) {
        expect_within_bounds(got.floats, c.template expected<Exact>());
      } else {
        expect_within_bounds(got.floats, c.template expected<Contract>());
      }
    }
  }

  template <class N>
  static void expect_within_bounds(const std::vector<float>& got, const std::vector<N>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    int failures = 0;
    double worst = 0;
    size_t worst_at = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const N want = expected[i].stored();
      const double distance = std::abs(got[i] - want.v);
      if (!(distance <= want.e)) {
        ++failures;
        const double excess = distance / want.e;
        if (!(excess <= worst)) worst = excess, worst_at = i;
      }
    }
    EXPECT_EQ(failures, 0) << "of " << got.size() << " values; worst at " << worst_at << ": got "
                           << got[worst_at] << ", want " << expected[worst_at].v << ", " << worst
                           << " times the bound";
  }

  template <class Case>
  void check(const Case& c) {
    expect_one_result(c);
    expect_formula(c);
  }

 private:
  std::vector<std::unique_ptr<backend::Device>> devices_;
};

// Where the op can read its start from memory: the same call done so, as a recorded one is, with the
// largest start that the operands of the call have room for.
template <class Args>
ops::OpOutputs with_start_in_memory(const KernelSpec& spec, backend::Device& device, Args args) {
  const int64_t start = args.start;
  args.start_at = &start;
  if constexpr (requires { args.cache; }) {
    args.start = args.cache.capacity - args.rows;
  } else if (args.ratio > 0) {
    const int64_t end = args.start + args.rows;
    args.start = end / args.ratio * args.ratio + args.ratio - 1 - args.rows;
    args.start = std::max(args.start, start);
  } else {
    args.start += 1000;
  }
  const auto got = ops::capture(args).run(device, spec);
  EXPECT_TRUE(got.ok()) << got.status().message();
  return got.ok() ? *got : ops::OpOutputs{};
}

// Operands lie on the host; devices with memory of their own work on copies.
template <class Args>
void launch(const KernelSpec& spec, backend::Device& device, const Args* args) {
  if constexpr (requires { args->start_at; }) {
    // Recorded calls have few rows. Cases that are cut into single rows have very many calls.
    if (!device.shares_host_memory() && args->rows <= 8 && (args->start + args->rows) % 8 == 1) {
      Args plain = *args;
      if constexpr (requires { plain.total; }) plain.total = plain.start + plain.rows;
      const auto want = ops::capture(plain).run(device, spec);
      ASSERT_TRUE(want.ok()) << want.status().message();
      EXPECT_TRUE(with_start_in_memory(spec, device, plain) == *want)
          << device.caps().id << " " << spec.name << " with its start in memory";
    }
  }
  const Status status = ops::run_in_place(device, spec, *args);
  ASSERT_TRUE(status.ok()) << device.caps().id << " " << spec.name << ": " << status.message();
}

}  // namespace strata::ops_test
