// The table of options and the command line read with it.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "apps/command_line.h"
#include "apps/help.h"
#include "apps/option_values.h"
#include "apps/token_ids.h"

namespace strata::apps {
namespace {

Result<Settings> parse(CommandId id, std::vector<std::string> arguments) {
  return read_arguments(id, arguments);
}

std::string failure(CommandId id, std::vector<std::string> arguments) {
  const auto result = parse(id, std::move(arguments));
  EXPECT_FALSE(result.ok());
  return result.status().message();
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(Values, OriginsAreWhatBrowsersSend) {
  const auto origins = [](const char* text) {
    const auto settings = parse(CommandId::kServe, {"--cors-origin", text});
    return settings.ok() ? settings->server.allowed_origins : std::vector<std::string>{};
  };
  EXPECT_EQ(origins("https://a.example"), std::vector<std::string>{"https://a.example"});
  EXPECT_EQ(origins("http://localhost:3000/"), std::vector<std::string>{"http://localhost:3000"});
  EXPECT_EQ(origins("*"), std::vector<std::string>{"*"});
  for (const char* text : {"a.example", "http://", "http:///", "http://a.example/x", "http://a.example//",
                           "ftp://a.example", "http://u@a.example", "https://*.example", "http://a b"}) {
    const std::string message = failure(CommandId::kServe, {"--cors-origin", text});
    EXPECT_TRUE(contains(message, "expected scheme and host")) << text << ": " << message;
  }
}

TEST(Values, ASeedOfMinusOneIsARandomOne) {
  EXPECT_FALSE(parse(CommandId::kRun, {"-p", "x", "--seed", "-1"})->sampling.seed);
  EXPECT_FALSE(parse(CommandId::kRun, {"-p", "x", "--seed=-1"})->sampling.seed);
  EXPECT_EQ(parse(CommandId::kRun, {"-p", "x", "--seed", "7"})->sampling.seed, 7u);
  EXPECT_FALSE(parse(CommandId::kRun, {"-p", "x", "--seed", "-2"}).ok());
}

TEST(OptionTable, EveryRowExplainsItselfAndBelongsToACommand) {
  for (const OptionSpec& row : options()) {
    EXPECT_GT(row.help.size(), 8u) << row.names;
    EXPECT_FALSE(row.help.ends_with('.')) << row.names;
    EXPECT_NE(row.commands, 0u) << row.names;
    EXPECT_EQ(row.commands >> kCommandCount, 0u) << row.names;
    EXPECT_NE(row.set, nullptr) << row.names;
  }
}

TEST(OptionTable, NamesAreUniqueWithinACommandAndMeanOneThingEverywhere) {
  std::map<std::string_view, std::string_view> value_names;
  for (const CommandSpec& spec : commands()) {
    std::set<std::string_view> names;
    for (const OptionSpec& row : options()) {
      if ((row.commands & in(spec.id)) == 0) continue;
      for (const std::string_view name : row.all_names()) {
        EXPECT_TRUE(names.insert(name).second) << spec.name << " " << name;
        const auto known = value_names.emplace(name, row.value_name);
        EXPECT_EQ(known.first->second, row.value_name) << name;
      }
    }
  }
}

TEST(OptionTable, EveryDefaultIsAValueThatTheOptionTakes) {
  int defaults = 0;
  for (const OptionSpec& row : options()) {
    if (row.default_text.empty()) continue;
    ++defaults;
    EXPECT_FALSE(row.is_flag()) << row.names;
    Settings settings;
    const Status status = row.set(settings, std::string(row.default_text));
    EXPECT_TRUE(status.ok()) << row.names << ": " << status.message();
  }
  EXPECT_GT(defaults, 5);
  for (const CommandSpec& spec : commands()) EXPECT_TRUE(default_settings(spec.id).ok());
}

TEST(OptionTable, EveryOptionThatTakesAValueRefusesNonsenseOrTakesAnyText) {
  // These take any text; every other option must refuse a value that is none of its own.
  const std::set<std::string_view> free = {"MODEL", "FILE", "TEXT", "KEY",    "ORIGIN",
                                           "NAME",  "ID",   "IDS",  "ADDRESS", "FOLDER"};
  for (const OptionSpec& row : options()) {
    if (row.is_flag() || free.count(row.value_name) > 0) continue;
    Settings settings;
    const Status status = row.set(settings, "?\x01 nonsense");
    EXPECT_FALSE(status.ok()) << row.names;
    EXPECT_TRUE(contains(status.message(), "expected")) << row.names << ": " << status.message();
    EXPECT_FALSE(contains(status.message(), "\x01")) << row.names;
  }
}

TEST(OptionTable, DefaultsDifferByCommandWhereTheyShould) {
  EXPECT_EQ(default_settings(CommandId::kRun)->engine.kv_type, backend::KvType::kF16);
  EXPECT_EQ(default_settings(CommandId::kEval)->engine.kv_type, backend::KvType::kF32);
  EXPECT_EQ(default_settings(CommandId::kRun)->log_level, "warn");
  EXPECT_EQ(default_settings(CommandId::kServe)->log_level, "info");
}

TEST(OptionTable, NoSamplingValueIsSetUnlessItIsGiven) {
  const auto settings = parse(CommandId::kRun, {});
  ASSERT_TRUE(settings.ok());
  const engine::SamplingParams& s = settings->sampling;
  EXPECT_FALSE(s.temperature || s.top_k || s.top_p || s.min_p || s.typical_p ||
               s.repetition_penalty || s.presence_penalty || s.frequency_penalty ||
               s.penalty_last_n || s.seed || s.top_logprobs);
  EXPECT_TRUE(s.logit_bias.empty());
}

TEST(CommandLine, EveryOptionOfRunArrives) {
  const auto settings = parse(CommandId::kRun, {"model.gguf",
                                                "-p",
                                                "hello",
                                                "--system=Be brief.",
                                                "--no-think",
                                                "-n",
                                                "7",
                                                "--stop",
                                                "A",
                                                "--stop",
                                                "B",
                                                "--ignore-eos",
                                                "--seed",
                                                "18446744073709551615",
                                                "--temp",
                                                "0.5",
                                                "--top-k",
                                                "3",
                                                "--top-p",
                                                "0.9",
                                                "--min-p",
                                                "0",
                                                "--typical-p",
                                                "1",
                                                "--repeat-penalty",
                                                "1.1",
                                                "--presence-penalty",
                                                "-2",
                                                "--frequency-penalty",
                                                "2",
                                                "--penalty-last-n",
                                                "-1",
                                                "--logit-bias",
                                                "5=-inf",
                                                "--logit-bias",
                                                "6=2.5",
                                                "--logprobs",
                                                "4",
                                                "-c",
                                                "128",
                                                "-t",
                                                "1",
                                                "--kv",
                                                "f32",
                                                "--prompt-chunk",
                                                "9",
                                                "--kernels",
                                                "matmul,gdn",
                                                "-q"});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->model, "model.gguf");
  EXPECT_EQ(settings->prompt, "hello");
  EXPECT_EQ(settings->system, "Be brief.");
  EXPECT_TRUE(settings->no_think);
  EXPECT_EQ(settings->max_tokens, 7);
  EXPECT_EQ(settings->stop, (std::vector<std::string>{"A", "B"}));
  EXPECT_TRUE(settings->ignore_eos);
  EXPECT_EQ(settings->sampling.seed, 18446744073709551615u);
  EXPECT_EQ(settings->sampling.temperature, 0.5f);
  EXPECT_EQ(settings->sampling.top_k, 3);
  EXPECT_EQ(settings->sampling.top_p, 0.9f);
  EXPECT_EQ(settings->sampling.min_p, 0.0f);
  EXPECT_EQ(settings->sampling.typical_p, 1.0f);
  EXPECT_EQ(settings->sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(settings->sampling.presence_penalty, -2.0f);
  EXPECT_EQ(settings->sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(settings->sampling.penalty_last_n, -1);
  ASSERT_EQ(settings->sampling.logit_bias.size(), 2u);
  EXPECT_EQ(settings->sampling.logit_bias[0], std::pair(TokenId{5}, -HUGE_VALF));
  EXPECT_EQ(settings->sampling.logit_bias[1], std::pair(TokenId{6}, 2.5f));
  EXPECT_EQ(settings->sampling.top_logprobs, 4);
  EXPECT_EQ(settings->engine.context, 128);
  EXPECT_EQ(settings->engine.workers, 1);
  EXPECT_EQ(settings->engine.kv_type, backend::KvType::kF32);
  EXPECT_EQ(settings->engine.prompt_chunk, 9);
  EXPECT_EQ(settings->engine.kernels.reference_ops,
            (std::vector{backend::OpId::kMatmul, backend::OpId::kGdn}));
  EXPECT_TRUE(settings->quiet);
}

TEST(CommandLine, AValueIsTakenAsItIsWhateverItLooksLike) {
  for (const std::string value : {"-x", "--temp", "[1,2]", "{}", "%%", "", "a b", "'q'", "a=b",
                                  "--", "true", "\n", "\xff", "-1"}) {
    const auto settings = parse(CommandId::kRun, {"-p", value, "--system", value});
    ASSERT_TRUE(settings.ok()) << value << ": " << settings.status().message();
    EXPECT_EQ(settings->prompt, value);
    EXPECT_EQ(settings->system, value);
  }
}

TEST(CommandLine, AnEmptyValueAfterAnEqualsSignIsEmpty) {
  const auto settings = parse(CommandId::kRun, {"--prompt=", "model.gguf"});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->prompt, "");
  EXPECT_EQ(settings->model, "model.gguf");
}

TEST(CommandLine, RepeatableOptionsDoNotSwallowWhatFollows) {
  const auto settings = parse(CommandId::kRun, {"--stop", "A", "model.gguf"});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->stop, std::vector<std::string>{"A"});
  EXPECT_EQ(settings->model, "model.gguf");
}

TEST(CommandLine, RangesAreCheckedAtTheirBorders) {
  const struct {
    const char* name;
    std::vector<const char*> good, bad;
  } kCases[] = {
      {"--temp", {"0", "100"}, {"-0.1", "100.5", "nan", "inf", "", "1x", "1e999"}},
      {"--top-k", {"0", "2147483647"}, {"-1", "2147483648", "1.5"}},
      {"--top-p", {"1", "1e-6"}, {"0", "1.1", "1e-60"}},
      {"--min-p", {"0", "0.99"}, {"1", "-1", "0.99999999999"}},
      {"--typical-p", {"1"}, {"0"}},
      {"--repetition-penalty", {"0.1", "100"}, {"0", "-1"}},
      {"--presence-penalty", {"-2", "2"}, {"-2.1", "2.1"}},
      {"--frequency-penalty", {"-2", "2"}, {"-2.1", "2.1"}},
      {"--penalty-last-n", {"-1", "0"}, {"-2"}},
      {"--seed", {"-1", "0", "18446744073709551615"}, {"-2", "18446744073709551616"}},
      {"--logprobs", {"0", "20"}, {"-1", "21"}},
      {"--logit-bias", {"0=100", "1=-100", "1=-inf"}, {"0=101", "0=inf", "0", "=1", "-1=1", "0="}},
      {"-n", {"0", "1"}, {"-1", "99999999999999999999"}},
      {"-c", {"0", "1"}, {"-1"}},
      {"-t", {"0", "1024"}, {"1025"}},
      {"--prompt-chunk", {"1"}, {"0"}},
      {"--kernels", {"auto", "reference", "matmul"}, {"", "matmul,", "cuda"}},
  };
  for (const auto& c : kCases) {
    for (const char* value : c.good) {
      EXPECT_TRUE(parse(CommandId::kRun, {c.name, value}).ok()) << c.name << " " << value;
    }
    for (const char* value : c.bad) {
      const auto result = parse(CommandId::kRun, {c.name, value});
      ASSERT_FALSE(result.ok()) << c.name << " " << value;
      EXPECT_TRUE(contains(result.status().message(), "expected")) << result.status().message();
    }
  }
}

TEST(CommandLine, UnknownOptionsAreAnsweredWithTheNearestOrTheCommandThatHasThem) {
  EXPECT_TRUE(contains(failure(CommandId::kRun, {"--tmep", "1"}), "did you mean --temp?"));
  EXPECT_TRUE(contains(failure(CommandId::kRun, {"--max-token=1"}), "did you mean --max-tokens?"));
  EXPECT_TRUE(contains(failure(CommandId::kRun, {"--port", "1"}), "it belongs to: serve"));
  const std::string far = failure(CommandId::kRun, {"--xyzzyplugh"});
  EXPECT_FALSE(contains(far, "did you mean")) << far;
  EXPECT_TRUE(contains(far, "strata help run")) << far;
}

TEST(CommandLine, MistakesOfUseAreNamed) {
  EXPECT_TRUE(contains(failure(CommandId::kRun, {"-p"}), "-p: expected TEXT, got nothing"));
  EXPECT_TRUE(contains(failure(CommandId::kRun, {"--temp", "1", "--temp", "2"}), "2 times"));
  EXPECT_TRUE(contains(failure(CommandId::kRun, {"a.gguf", "b"}), "unexpected argument \"b\""));
  EXPECT_TRUE(contains(failure(CommandId::kRun, {"--raw=no"}), "takes no value"));
  EXPECT_TRUE(contains(unknown_command("sreve").message(), "did you mean \"strata serve\"?"));
  EXPECT_TRUE(contains(unknown_command("zzzzzzz").message(), "the commands are run, chat"));
}

TEST(CommandLine, HelpIsShownWhateverElseIsThere) {
  const auto settings = parse(CommandId::kRun, {"--temp", "hot", "--help"});
  ASSERT_TRUE(settings.ok());
  EXPECT_TRUE(settings->help);
}

TEST(Help, ShowsEveryOptionOfACommandOnceAndFits) {
  for (const CommandSpec& spec : commands()) {
    const std::string help = command_help(spec.id);
    for (const OptionSpec& row : options()) {
      if ((row.commands & in(spec.id)) == 0) continue;
      EXPECT_TRUE(contains(help, row.long_name())) << spec.name << " " << row.names;
    }
    EXPECT_TRUE(contains(help, "Examples"));
    EXPECT_TRUE(contains(help, "Exit codes"));
    EXPECT_TRUE(contains(general_help(), spec.summary));
    const size_t examples = help.find("Examples");
    const size_t options_begin = help.find("\nOptions\n");
    for (size_t begin = 0; begin < help.size();) {
      const size_t end = std::min(help.find('\n', begin), help.size());
      // Lines to type are as long as they are.
      if (begin < examples || begin > options_begin) {
        EXPECT_LE(end - begin, 100u) << help.substr(begin, end - begin);
      }
      begin = end + 1;
    }
  }
}

TEST(Help, MarkdownHasARowForEveryOptionOfEveryCommand) {
  const std::string markdown = options_markdown();
  size_t expected = 0;
  for (const OptionSpec& row : options()) {
    for (const CommandSpec& spec : commands()) expected += (row.commands & in(spec.id)) ? 1 : 0;
  }
  size_t rows = 0;
  for (size_t at = 0; (at = markdown.find("\n| `", at)) != std::string::npos; ++at) ++rows;
  EXPECT_EQ(rows, expected);
}

TEST(TokenIds, AreNumbersSeparatedByAnything) {
  EXPECT_EQ(*read_ids("[1, 22,\n333]x4"), (std::vector<TokenId>{1, 22, 333, 4}));
  EXPECT_EQ(*read_ids("2147483647"), std::vector<TokenId>{2147483647});
  EXPECT_FALSE(read_ids("2147483648").ok());
  EXPECT_FALSE(read_ids("").ok());
  EXPECT_FALSE(read_ids("none").ok());
  EXPECT_EQ(ids_text(std::vector<TokenId>{1, 2, 3}), "1 2 3");
}

}  // namespace
}  // namespace strata::apps
