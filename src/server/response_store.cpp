#include "server/response_store.h"

namespace strata::server {

void ResponseStore::put(const std::string& id, StoredResponse stored) {
  const size_t bytes = to_text(stored.response).size() + to_text(stored.input_items).size() +
                       to_text(stored.messages).size();
  if (bytes > max_bytes_) return;
  auto shared = std::make_shared<const StoredResponse>(std::move(stored));
  const std::lock_guard lock(mutex_);
  if (const auto found = by_id_.find(id); found != by_id_.end()) drop(found->second);
  entries_.push_front({id, std::move(shared), bytes});
  by_id_[id] = entries_.begin();
  bytes_ += bytes;
  while (entries_.size() > max_count_ || bytes_ > max_bytes_) drop(std::prev(entries_.end()));
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->stored;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  drop(found->second);
  return true;
}

void ResponseStore::drop(std::list<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace strata::server
