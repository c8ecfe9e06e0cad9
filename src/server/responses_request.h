// Bodies of POST /v1/responses, checked and turned into a chat.
#pragma once

#include "server/prepare.h"
#include "server/response_store.h"

namespace strata::server {

struct ResponsesRequest {
  ChatJob job;
  bool stream = false;
  bool store = true;
  std::string previous;  // id of the answer that this request goes on from
  Json input_items;      // the input as a list of items
  Json history;          // messages without the instructions: what a later request goes on from
  Json conversation;     // history with the instructions in front: what job.chat was made of
  bool truncate = false;  // what does not fit is dropped from the beginning
  Json echo;             // the request's settings as the response object repeats them
};

// The conversation without its first `turns` turns: a turn is a message of the user and what
// follows it up to the next one. Messages of the system stay wherever they stand.
Json without_turns(const Json& conversation, size_t turns);
// How many turns can be dropped: all but the last.
size_t droppable_turns(const Json& conversation);

// `store` is where earlier answers are looked up; one that is not there is kNotFound.
Result<ResponsesRequest> parse_responses(const Json& body, const ModelFacts& facts,
                                         ResponseStore& store);

}  // namespace strata::server
