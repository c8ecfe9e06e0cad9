// A blocking HTTP/1.1 client over plain sockets, small enough to see every byte a test sends.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace strata::test {

struct HttpReply {
  int status = 0;                              // 0: the connection ended before a head arrived
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;
  bool complete = false;  // the body ended as its framing says

  nlohmann::ordered_json json() const {
    return nlohmann::ordered_json::parse(body, nullptr, false);
  }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  // The payloads of "data:" events.
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    size_t at = 0;
    while (at < body.size()) {
      const size_t end = std::min(body.find("\n\n", at), body.size());
      const std::string_view block = std::string_view(body).substr(at, end - at);
      if (block.starts_with("data: ")) out.emplace_back(block.substr(6));
      at = end + 2;
    }
    return out;
  }
};

class HttpClient {
 public:
  explicit HttpClient(uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  bool send_raw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  static std::string request(std::string_view method, std::string_view path, std::string_view body,
                             std::string_view extra_headers = {}) {
    std::string out(method);
    out.append(" ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\n").append(extra_headers);
    if (method == "POST") {
      out.append("Content-Type: application/json\r\nContent-Length: ");
      out.append(std::to_string(body.size())).append("\r\n");
    }
    out.append("\r\n").append(body);
    return out;
  }

  HttpReply get(std::string_view path, std::string_view headers = {}) {
    send_raw(request("GET", path, {}, headers));
    return read_reply();
  }
  HttpReply post(std::string_view path, std::string_view body, std::string_view headers = {}) {
    send_raw(request("POST", path, body, headers));
    return read_reply();
  }

  // Reads until `text` has arrived; false at the end of the connection or after the time.
  bool read_until(std::string_view text,
                  std::chrono::milliseconds limit = std::chrono::milliseconds(20'000)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (buffer_.find(text) == std::string::npos) {
      if (!fill(end)) return false;
    }
    return true;
  }
  const std::string& received() const { return buffer_; }

  // True when the server closes the connection within the time.
  bool closed_within(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (fill(end)) {
    }
    return ended_;
  }

  HttpReply read_reply(bool head_only = false) {
    HttpReply reply;
    if (!read_until("\r\n\r\n")) return reply;
    const size_t head_end = buffer_.find("\r\n\r\n");
    const std::string head = buffer_.substr(0, head_end);
    buffer_.erase(0, head_end + 4);
    parse_head(head, reply);
    if (head_only || reply.status == 204 || reply.status == 100) {
      reply.complete = true;
      return reply;
    }
    if (reply.header("transfer-encoding") == "chunked") {
      read_chunks(reply);
    } else if (const std::string length = reply.header("content-length"); !length.empty()) {
      reply.complete = take(std::stoul(length), reply.body);
    } else {
      closed_within(std::chrono::milliseconds(20'000));
      reply.body = std::move(buffer_);
      buffer_.clear();
      reply.complete = ended_;
    }
    return reply;
  }

 private:
  static void parse_head(const std::string& head, HttpReply& reply) {
    reply.status = head.size() > 12 ? std::atoi(head.c_str() + 9) : 0;
    size_t at = head.find("\r\n");
    while (at != std::string::npos) {
      at += 2;
      const size_t end = std::min(head.find("\r\n", at), head.size());
      const size_t colon = head.find(": ", at);
      if (colon < end) {
        std::string name = head.substr(at, colon - at);
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        reply.headers[name] = head.substr(colon + 2, end - colon - 2);
      }
      at = head.find("\r\n", at);
    }
  }

  void read_chunks(HttpReply& reply) {
    for (;;) {
      if (!read_until("\r\n")) return;
      const size_t line = buffer_.find("\r\n");
      const size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
      buffer_.erase(0, line + 2);
      std::string data;
      if (!take(size + 2, data)) return;
      if (size == 0) {
        reply.complete = true;
        return;
      }
      reply.body.append(data, 0, size);
    }
  }

  bool take(size_t size, std::string& out) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (buffer_.size() < size) {
      if (!fill(end)) return false;
    }
    out = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return true;
  }

  bool fill(std::chrono::steady_clock::time_point end) {
    if (fd_ < 0 || ended_) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd wait{fd_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) return false;
    char bytes[16384];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  int fd_ = -1;
  bool ended_ = false;
  std::string buffer_;
};

}  // namespace strata::test
