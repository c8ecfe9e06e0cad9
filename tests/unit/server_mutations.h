// Answers with tool calls, damaged at random.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace strata::server {

inline std::string parameter(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
}
inline std::string call(const std::string& name, const std::string& parameters) {
  return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
}

inline std::string mutate(std::string text, std::mt19937& random) {
  static const std::vector<std::string> kAtoms{"<tool_call>",
                                               "</tool_call>",
                                               "<function=run>",
                                               "</function>",
                                               "<parameter=command>",
                                               "</parameter>",
                                               "<parameter=timeout>",
                                               "\n",
                                               "<",
                                               ">",
                                               "\"",
                                               "{",
                                               "}",
                                               "\\",
                                               "=",
                                               " ",
                                               "\xC3\xA9",
                                               "\xF0\x9F\x98\x80",
                                               "12",
                                               "{\"name\":\"run\",\"arguments\":{\"a\":1}}",
                                               "\r\n",
                                               "</",
                                               "x"};
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits; ++i) {
    const size_t at = text.empty() ? 0 : random() % text.size();
    switch (random() % 5) {
      case 0: text.erase(at, 1 + random() % 12); break;
      case 1: text.insert(at, kAtoms[random() % kAtoms.size()]); break;
      case 2: text.resize(at); break;
      case 3: text.insert(at, text.substr(random() % (text.size() + 1), random() % 40)); break;
      default:
        if (!text.empty()) text[at] = static_cast<char>(random() % 128);
    }
  }
  return text;
}

// The round picks what is damaged.
inline std::string mutated_answer(int round, std::mt19937& random) {
  const std::vector<std::string> seeds{
      "Sure.\n\n" + call("run", parameter("command", "ls </b>") + parameter("timeout", "5")) +
          "\n" +
          call("write", parameter("path", "a.txt") + parameter("content", "x\n</parameter>\ny")),
      call("run", parameter("env", "{\"a\":[1,2]}") + parameter("open", "hi \"there\"")),
      call("write", parameter("path", "t.md") +
                        parameter("content", "Doc:\n" + call("run", parameter("command", "x")))),
      "<tool_call>\n{\"name\":\"run\",\"arguments\":{\"command\":\"a\"}}\n</tool_call>",
      "<function=run>\n<parameter=command>\nabc\n</parameter>\n</function>"};
  return mutate(seeds[static_cast<size_t>(round) % seeds.size()], random);
}

}  // namespace strata::server
