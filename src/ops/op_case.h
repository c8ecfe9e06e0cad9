// One call of an op with all its operands on the host, which can be run on any row of any device:
// what the start-up self-tests and the op tests compare devices with.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/kernel_table.h"

namespace strata::ops {

enum class OperandUse : uint8_t { kIn, kOut, kInOut, kScratch };

// The bytes of every kOut and kInOut operand after the run, in the order they were added.
using OpOutputs = std::vector<std::vector<std::byte>>;

template <class Args>
class OpCase {
 public:
  // Everything but the pointers. Pointers are bound per run.
  Args args{};
  std::string description;  // "matmul Q8_0 3x2560 -> 640"

  // `bind` stores the operand's device address in the arguments.
  using Bind = std::function<void(Args&, void*)>;

  template <class T>
  void input(const std::vector<T>& content, Bind bind) {
    add(OperandUse::kIn, bytes_of(content), std::move(bind));
  }
  template <class T>
  void state(const std::vector<T>& content, Bind bind) {
    add(OperandUse::kInOut, bytes_of(content), std::move(bind));
  }
  // Starts as bytes 0xff: NaN, -1.
  void output(size_t bytes, Bind bind) {
    add(OperandUse::kOut, std::vector<std::byte>(bytes, std::byte{0xff}), std::move(bind));
  }
  void scratch(size_t bytes, Bind bind) {
    add(OperandUse::kScratch, std::vector<std::byte>(bytes, std::byte{0xff}), std::move(bind));
  }

  // Uploads the operands, launches `row`, waits, and reads the outputs back.
  Result<OpOutputs> run(backend::Device& device, const backend::KernelSpec& row) const {
    Args bound = args;
    std::vector<backend::Buffer> buffers;
    for (const Operand& operand : operands_) {
      STRATA_ASSIGN_OR_RETURN(backend::Buffer buffer, device.allocate(operand.content.size()));
      STRATA_RETURN_IF_ERROR(device.copy_to_device(buffer.data(), operand.content.data(),
                                                   operand.content.size()));
      operand.bind(bound, buffer.data());
      buffers.push_back(std::move(buffer));
    }
    STRATA_RETURN_IF_ERROR(row.launch(device.stream(), &bound));
    STRATA_RETURN_IF_ERROR(device.stream().synchronize());
    OpOutputs out;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].use != OperandUse::kOut && operands_[i].use != OperandUse::kInOut) continue;
      std::vector<std::byte> content(operands_[i].content.size());
      STRATA_RETURN_IF_ERROR(
          device.copy_to_host(content.data(), buffers[i].data(), content.size()));
      out.push_back(std::move(content));
    }
    return out;
  }

 private:
  struct Operand {
    OperandUse use;
    std::vector<std::byte> content;
    Bind bind;
  };

  template <class T>
  static std::vector<std::byte> bytes_of(const std::vector<T>& content) {
    std::vector<std::byte> bytes(content.size() * sizeof(T));
    std::memcpy(bytes.data(), content.data(), bytes.size());
    return bytes;
  }
  void add(OperandUse use, std::vector<std::byte> content, Bind bind) {
    operands_.push_back({use, std::move(content), std::move(bind)});
  }

  std::vector<Operand> operands_;
};

}  // namespace strata::ops
