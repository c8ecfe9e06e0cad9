// Answers of /v1/responses that clients may come back to. In memory, bounded, thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "server/json_input.h"

namespace strata::server {

struct StoredResponse {
  Json response;     // the body as it was answered
  Json input_items;  // what the request added, for GET .../input_items
  Json messages;     // the whole conversation, this answer included, as chat messages
};

class ResponseStore {
 public:
  // Beyond either bound the answers that were used longest ago are forgotten.
  ResponseStore(size_t max_count, size_t max_bytes) : max_count_(max_count), max_bytes_(max_bytes) {}

  void put(const std::string& id, StoredResponse stored);
  std::shared_ptr<const StoredResponse> find(const std::string& id);  // nullptr when unknown
  bool erase(const std::string& id);

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const StoredResponse> stored;
    size_t bytes = 0;
  };

  void drop(std::list<Entry>::iterator entry);

  const size_t max_count_;
  const size_t max_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // used last first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;
  size_t bytes_ = 0;
};

}  // namespace strata::server
