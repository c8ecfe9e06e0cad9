#include "engine/devices.h"

#include <algorithm>
#include <thread>

#include "backend/cpu/cpu_device.h"
#include "base/log.h"
#include "ops/self_test.h"

namespace strata::engine {

using backend::Device;
using backend::DeviceRequest;

namespace {

Status join_problems(const std::vector<Status>& problems) {
  if (problems.empty()) return {};
  std::string text = problems.front().message();
  for (size_t i = 1; i < problems.size(); ++i) text += "\n" + problems[i].message();
  return {problems.front().code(), text, problems.front().field()};
}

}  // namespace

DeviceSet& DeviceSet::operator=(DeviceSet&& other) noexcept {
  devices = std::move(other.devices);  // the old ones end before their modules
  owners_ = std::move(other.owners_);
  modules = std::move(other.modules);
  return *this;
}

backend::LoadedModule* DeviceSet::module_of(size_t device) const { return owners_[device]; }

std::string device_title(const backend::DeviceCaps& caps) {
  return fmt::format("{} {} {}", caps.id, caps.arch, caps.name);
}

std::vector<DeviceRequest> usable_cards(const EngineOptions& options) {
  std::vector<DeviceRequest> cards;
  for (const char* kind : {"cuda", "hip"}) {
    const auto module = backend::load_module(kind, options.module_folder);
    if (!module.ok()) continue;
    const auto devices = (*module)->module->devices();
    if (!devices.ok()) continue;
    for (const backend::DeviceSummary& device : *devices) {
      if (!device.problem.empty() || device.integrated) continue;
      cards.push_back({.id = device.id,
                       .target = device.id.substr(std::string_view(kind).size() + 1),
                       .kernels = options.kernels,
                       .reserve_bytes = options.reserve_bytes});
    }
  }
  return cards;
}

Result<DeviceSet> open_devices(const EngineOptions& options) {
  std::vector<DeviceRequest> requests = options.devices;
  if (requests.empty()) requests.push_back({.id = "cpu", .target = {}, .kernels = options.kernels});
  DeviceSet set;
  set.devices.resize(requests.size());
  set.owners_.resize(requests.size(), nullptr);
  std::vector<Status> problems;

  std::vector<std::string> kinds;
  for (const DeviceRequest& request : requests) {
    const std::string kind(backend::device_kind(request));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  for (const std::string& kind : kinds) {
    std::vector<size_t> places;
    std::vector<DeviceRequest> of_kind;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (backend::device_kind(requests[i]) != kind) continue;
      places.push_back(i);
      of_kind.push_back(requests[i]);
    }
    if (kind == "cpu") {
      for (size_t i = 0; i < places.size(); ++i) {
        auto cpu = backend::open_cpu_device({.workers = options.workers,
                                             .kernels = of_kind[i].kernels,
                                             .disabled_features = 0});
        if (cpu.ok()) {
          set.devices[places[i]] = std::move(*cpu);
        } else {
          problems.push_back(cpu.status());
        }
      }
      continue;
    }
    auto module = backend::load_module(kind, options.module_folder);
    if (!module.ok()) {
      problems.push_back(module.status());
      continue;
    }
    set.modules.push_back(*module);
    auto opened = (*module)->module->open(of_kind);
    for (size_t i = 0; i < places.size(); ++i) {
      if (opened[i].ok()) {
        set.devices[places[i]] = std::move(*opened[i]);
        set.owners_[places[i]] = module->get();
      } else {
        problems.push_back(opened[i].status());
      }
    }
  }
  for (size_t i = 0; i < requests.size() && problems.empty(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const backend::DeviceCaps &a = set.devices[j]->caps(), &b = set.devices[i]->caps();
      const auto tagged = [&](size_t k) { return requests[k].id.find('#') != std::string::npos; };
      const bool meant = tagged(i) && tagged(j);
      if (!meant && set.owners_[i] == set.owners_[j] && a.stable_id == b.stable_id) {
        problems.push_back(invalid_argument("{} and {} are one card ({}); name each card once",
                                            a.id, b.id, a.stable_id));
      }
    }
  }
  if (!problems.empty()) {
    Status status = join_problems(problems);
    set.devices.clear();
    return status;
  }
  return set;
}

Status prove_devices(DeviceSet& set, const std::vector<QuantType>& types,
                     const std::function<void(const std::string&)>& progress) {
  STRATA_ASSIGN_OR_RETURN(
      std::unique_ptr<Device> cpu,
      backend::open_cpu_device({.workers = 1, .kernels = {}, .disabled_features = 0}));
  const std::vector<ops::SelfTestCase> cases = ops::self_test_cases(types);
  STRATA_ASSIGN_OR_RETURN(const ops::SelfTestAnswers answers, ops::self_test_answers(cases, *cpu));
  std::vector<Status> problems;
  std::vector<size_t> order;
  for (size_t i = 0; i < set.devices.size(); ++i) order.push_back(i);
  // A second visit finds what the first use of another device has changed.
  for (size_t i = 0; i < set.devices.size() && set.devices.size() > 1; ++i) order.push_back(i);
  std::vector<bool> failed(set.devices.size(), false);
  for (const size_t i : order) {
    if (failed[i]) continue;
    progress(fmt::format("testing the kernels of {}", device_title(set.devices[i]->caps())));
    if (Status status = ops::run_self_tests(*set.devices[i], cases, answers); !status.ok()) {
      failed[i] = true;
      problems.push_back(std::move(status));
    }
  }
  if (set.devices.size() > 1 && problems.empty()) {
    progress("testing the kernels of all devices at once");
    std::vector<Status> results(set.devices.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < set.devices.size(); ++i) {
      threads.emplace_back(
          [&, i] { results[i] = ops::run_self_tests(*set.devices[i], cases, answers); });
    }
    for (std::thread& thread : threads) thread.join();
    for (Status& status : results) {
      if (!status.ok()) problems.push_back(status.with_context("while all devices work at once"));
    }
  }
  return join_problems(problems);
}

}  // namespace strata::engine
