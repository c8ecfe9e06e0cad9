#include "server/http_message.h"

#include <fmt/chrono.h>

#include <algorithm>

namespace strata::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view Request::header(std::string_view lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<std::string> Request::parameter(std::string_view name) const {
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view pair = std::string_view(query).substr(begin, end - begin);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (percent_decode(pair.substr(0, equals)) == name) {
      return percent_decode(pair.substr(std::min(equals + 1, pair.size())));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

void Response::set(std::string name, std::string value) {
  headers.emplace_back(std::move(name), std::move(value));
}

Response json_response(int status, const Json& body) {
  Response response;
  response.status = status;
  response.content_type = "application/json; charset=utf-8";
  response.body = to_text(body);
  return response;
}

const char* reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    case 529: return "Site is overloaded";
    default: return "Unknown";
  }
}

std::string http_date(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::string response_head(const Response& response, BodyFraming framing, bool keep_alive,
                          bool http_1_0, std::string_view request_id) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  const auto add = [&](std::string_view name, std::string_view value) {
    head += name;
    head += ": ";
    head += value;
    head += "\r\n";
  };
  add("Server", "strata");
  add("Date", http_date(std::chrono::system_clock::now()));
  if (!response.content_type.empty()) add("Content-Type", response.content_type);
  add("X-Content-Type-Options", "nosniff");
  if (!request_id.empty()) add("X-Request-Id", request_id);
  for (const auto& [name, value] : response.headers) add(name, value);
  if (framing == BodyFraming::kChunked) {
    add("Transfer-Encoding", "chunked");
  } else if (framing == BodyFraming::kLength && response.status != 204) {
    add("Content-Length", std::to_string(response.body.size()));
  }
  if (!keep_alive) {
    add("Connection", "close");
  } else if (http_1_0) {
    add("Connection", "keep-alive");
  }
  head += "\r\n";
  return head;
}

std::string chunk(std::string_view data) {
  std::string out = fmt::format("{:x}\r\n", data.size());
  out += data;
  out += "\r\n";
  return out;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

}  // namespace strata::server
