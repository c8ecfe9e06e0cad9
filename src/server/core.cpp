#include "server/core.h"

#include "server/connection.h"

namespace strata::server {

Core::Core(const ServerOptions& server_options, engine::Engine& the_engine, Router the_router)
    : options(server_options),
      engine(the_engine),
      router(std::move(the_router)),
      state(options, engine),
      io(server_options.threads),
      workers(static_cast<size_t>(server_options.threads)) {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  random_.seed(seed);
}

std::string Core::new_request_id() {
  const std::lock_guard lock(mutex_);
  return fmt::format("req-{:016x}", random_());
}

bool Core::add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  open_.emplace(connection.get(), connection);
  state.metrics.connections(static_cast<int>(open_.size()));
  return true;
}

size_t Core::count() {
  const std::lock_guard lock(mutex_);
  return open_.size();
}

void Core::remove(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  open_.erase(connection);
  state.metrics.connections(static_cast<int>(open_.size()));
  changed_.notify_all();
}

std::vector<std::shared_ptr<Connection>> Core::close_registry() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  return connections();
}

std::vector<std::shared_ptr<Connection>> Core::connections() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Connection>> out;
  for (const auto& [key, weak] : open_) {
    if (auto connection = weak.lock()) out.push_back(std::move(connection));
  }
  return out;
}

bool Core::wait_until_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return open_.empty(); });
}

}  // namespace strata::server
