// HTTP messages as the handlers see them, and the bytes of a response head.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/json_input.h"

namespace strata::server {

struct Request {
  std::string method;  // "GET"
  std::string path;    // percent-decoded, starts with '/', without the query
  std::string query;   // what follows '?', not decoded
  std::map<std::string, std::string, std::less<>> headers;  // lower-case names
  std::string body;
  bool http_1_0 = false;
  bool keep_alive = true;

  // Value of a parameter of the query, decoded; nullopt when absent.
  std::optional<std::string> parameter(std::string_view name) const;
  // Value of a header, empty when absent.
  std::string_view header(std::string_view lower_case_name) const;
};

// What went wrong, before it is told in the words of an API.
struct ErrorDetail {
  std::string message;
  std::string type;   // of the OpenAI APIs
  std::string param;  // empty: none
  std::string code;   // empty: none
};

struct Response {
  int status = 200;
  std::string content_type;  // empty = no body (status 204)
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<ErrorDetail> error;  // of an answer that refuses; `body` tells it the OpenAI way

  void set(std::string name, std::string value);
};

Response json_response(int status, const Json& body);

enum class BodyFraming { kLength, kChunked, kUntilClose };

// "Sun, 06 Nov 1994 08:49:37 GMT", as a Date header has it.
std::string http_date(std::chrono::system_clock::time_point time);

// Status line and headers, the empty line included.
std::string response_head(const Response& response, BodyFraming framing, bool keep_alive,
                          bool http_1_0, std::string_view request_id);

// One chunk of the chunked transfer coding; `data` must not be empty.
std::string chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

const char* reason_phrase(int status);

// "%41" -> "A"; a malformed escape is kept as it is.
std::string percent_decode(std::string_view text);

}  // namespace strata::server
