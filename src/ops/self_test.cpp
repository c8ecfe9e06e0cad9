#include "ops/self_test.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "format/quant/half.h"

namespace strata::ops {

using backend::Device;
using backend::KernelSpec;

namespace {

// The double-precision tier; the portable rows of a GPU are marked `reference` too, but follow the
// contract.
bool is_double_precision(const Device& device, const KernelSpec& row) {
  return device.shares_host_memory() && row.reference;
}

bool serves(const KernelSpec& row, const SelfTestCase& c) {
  return row.op == c.op && (!row.weight_type || row.weight_type == c.type);
}

size_t value_bytes(ValueKind kind) {
  switch (kind) {
    case ValueKind::kFloat:
    case ValueKind::kInt32: return 4;
    case ValueKind::kHalf: return 2;
    case ValueKind::kByte: return 1;
  }
  return 1;
}

double value_at(ValueKind kind, const std::byte* p) {
  switch (kind) {
    case ValueKind::kFloat: {
      float value;
      std::memcpy(&value, p, sizeof value);
      return static_cast<double>(value);
    }
    case ValueKind::kInt32: {
      int32_t value;
      std::memcpy(&value, p, sizeof value);
      return value;
    }
    case ValueKind::kHalf: {
      uint16_t value;
      std::memcpy(&value, p, sizeof value);
      return static_cast<double>(quant::half_to_float(value));
    }
    case ValueKind::kByte: return static_cast<double>(std::to_integer<int8_t>(*p));
  }
  return 0;
}

bool floating(ValueKind kind) { return kind == ValueKind::kFloat || kind == ValueKind::kHalf; }

double largest_magnitude(ValueKind kind, const std::vector<std::byte>& values) {
  double largest = 0;
  for (size_t at = 0; at < values.size(); at += value_bytes(kind)) {
    const double magnitude = std::abs(value_at(kind, &values[at]));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

// Where two results differ.
struct Difference {
  size_t output = 0, index = 0;  // of the worst value
  size_t count = 0, of = 0;      // values that differ, of all
  double got = 0, want = 0;
};

// nullopt when every value is within `tolerance` (0: the same bits; which NaN does not matter).
std::optional<Difference> compare(const SelfTestCase& c, const OpOutputs& got,
                                  const OpOutputs& want, double tolerance) {
  Difference worst;
  double largest = -1;
  for (size_t o = 0; o < want.size(); ++o) {
    const ValueKind kind = c.outputs[o];
    const size_t bytes = value_bytes(kind);
    const double allowed =
        tolerance > 0 && floating(kind) ? tolerance * largest_magnitude(kind, want[o]) : 0;
    worst.of += want[o].size() / bytes;
    for (size_t at = 0; at < want[o].size(); at += bytes) {
      if (std::memcmp(&got[o][at], &want[o][at], bytes) == 0) continue;
      const double a = value_at(kind, &got[o][at]);
      const double b = value_at(kind, &want[o][at]);
      if (std::isnan(a) && std::isnan(b)) continue;
      const double distance = std::abs(a - b);
      if (distance <= allowed && allowed > 0) continue;
      ++worst.count;
      const double rank = std::isnan(distance) ? INFINITY : distance;
      if (rank > largest) {
        largest = rank;
        worst.output = o;
        worst.index = at / bytes;
        worst.got = a;
        worst.want = b;
      }
    }
  }
  if (worst.count == 0) return std::nullopt;
  return worst;
}

std::string text(const Difference& d) {
  return fmt::format("{} of {} values differ, most at output {} value {}: {:.9g} instead of {:.9g}",
                     d.count, d.of, d.output, d.index, d.got, d.want);
}

std::string remedy(const Device& device, const KernelSpec& row) {
  const std::string& id = device.caps().id;
  if (row.reference) {
    return fmt::format(
        "this is the plainest form of this kernel, so leave {} out with --devices, and report it "
        "with what `strata doctor` prints",
        id);
  }
  return fmt::format(
      "run with --device-option {}:{}=reference to do without this kernel, and report it with what "
      "`strata doctor` prints",
      id, op_name(row.op));
}

const KernelSpec* find_row(const Device& device, const SelfTestCase& c, bool double_precision) {
  const KernelSpec* best = nullptr;
  for (const KernelSpec* row : device.kernels().admitted()) {
    if (!serves(*row, c) || is_double_precision(device, *row) != double_precision) continue;
    if (best == nullptr || row->rank > best->rank) best = row;
  }
  return best;
}

}  // namespace

std::vector<SelfTestCase> self_test_cases(std::span<const QuantType> types) {
  std::vector<SelfTestCase> cases;
  add_model_cases(types, cases);
  add_product_cases(types, cases);
  return cases;
}

Result<SelfTestAnswers> self_test_answers(const std::vector<SelfTestCase>& cases, Device& cpu) {
  SelfTestAnswers answers;
  for (const SelfTestCase& c : cases) {
    const KernelSpec* contract = find_row(cpu, c, false);
    const KernelSpec* reference = find_row(cpu, c, true);
    if (contract == nullptr || reference == nullptr) {
      return internal_error("{}: no kernel for the self-test \"{}\"", cpu.caps().id, c.description);
    }
    STRATA_ASSIGN_OR_RETURN(OpOutputs by_contract, c.run(cpu, *contract));
    STRATA_ASSIGN_OR_RETURN(OpOutputs by_reference, c.run(cpu, *reference));
    if (const auto d = compare(c, by_contract, by_reference, c.tolerance)) {
      return unavailable(
          "{} ({}): {} fails the self-test \"{}\" against {}: {}, more than {:g} of the largest "
          "value; {}",
          cpu.caps().id, cpu.caps().arch, contract->name, c.description, reference->name, text(*d),
          c.tolerance, remedy(cpu, *contract));
    }
    answers.contract.push_back(std::move(by_contract));
    answers.reference.push_back(std::move(by_reference));
  }
  return answers;
}

Status run_self_tests(Device& device, const std::vector<SelfTestCase>& cases,
                      const SelfTestAnswers& answers) {
  const backend::DeviceCaps& caps = device.caps();
  std::string failures;
  const auto add = [&](const std::string& sentence) {
    if (!failures.empty()) failures += "\n";
    failures += fmt::format("{} ({} {}): {}", caps.id, caps.arch, caps.name, sentence);
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const SelfTestCase& c = cases[i];
    bool served = false;
    for (const KernelSpec* row : device.kernels().admitted()) {
      if (!serves(*row, c)) continue;
      served = true;
      const auto outputs = c.run(device, *row);
      if (!outputs.ok()) {
        // What follows on a device that failed would only repeat it.
        if (outputs.status().code() == StatusCode::kResourceExhausted) {
          return outputs.status().with_context(
              fmt::format("no memory for the self-test \"{}\"", c.description));
        }
        add(fmt::format("{} does not run the self-test \"{}\": {}; {}", row->name, c.description,
                        outputs.status().message(), remedy(device, *row)));
        return unavailable("{}", failures);
      }
      const bool by_tolerance = is_double_precision(device, *row);
      const auto d =
          compare(c, *outputs, by_tolerance ? answers.reference[i] : answers.contract[i],
                  by_tolerance ? c.tolerance : 0);
      if (d) {
        add(fmt::format("{} fails the self-test \"{}\": {}; {}", row->name, c.description, text(*d),
                        remedy(device, *row)));
      }
    }
    if (!served) {
      add(fmt::format("no kernel of this build runs the self-test \"{}\"; build with {} in "
                      "STRATA_QUANTS, or leave the device out with --devices",
                      c.description, c.type ? quant_info(*c.type).name : "every type"));
    }
  }
  if (!failures.empty()) return unavailable("{}", failures);
  return {};
}

}  // namespace strata::ops
