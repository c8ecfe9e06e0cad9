#include "apps/config_file.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "apps/files.h"
#include "apps/option_values.h"
#include "backend/device_spec.h"

namespace strata::apps {

namespace {

using Json = nlohmann::json;

std::string option_name(const std::string& key) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// A scalar as the command line would have it.
Result<std::string> scalar_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  if (value.is_boolean()) return std::string(value.get<bool>() ? "true" : "false");
  return invalid_argument("expected a text, a number, true or false, got {}", value.type_name());
}

const OptionSpec* find_option(std::string_view name, CommandSet commands) {
  for (const OptionSpec& row : options()) {
    if ((row.commands & commands) == 0) continue;
    for (const std::string_view known : row.all_names()) {
      if (known.substr(std::min(known.find_first_not_of('-'), known.size())) == name &&
          !(row.is_positional() && name == "model")) {
        return &row;
      }
    }
  }
  return nullptr;
}

Status set_values(const OptionSpec& row, const Json& value, Settings& settings) {
  if (row.is_flag()) {
    if (!value.is_boolean()) return invalid_argument("expected true or false");
    return value.get<bool>() ? row.set(settings, "") : Status();
  }
  if (!value.is_array()) {
    STRATA_ASSIGN_OR_RETURN(const std::string text, scalar_text(value));
    return row.set(settings, text);
  }
  std::string joined;
  for (const Json& element : value) {
    STRATA_ASSIGN_OR_RETURN(const std::string text, scalar_text(element));
    if (row.repeatable) {
      STRATA_RETURN_IF_ERROR(row.set(settings, text));
    } else {
      joined += (joined.empty() ? "" : ",") + text;
    }
  }
  return row.repeatable ? Status() : row.set(settings, joined);
}

// {"1": {"kernels": "reference"}} as 1:kernels=reference.
Status read_device_options(const Json& value, Settings& settings) {
  if (!value.is_object()) return invalid_argument("expected an object of devices");
  for (const auto& [device, choices] : value.items()) {
    if (!choices.is_object()) return invalid_argument("{}: expected an object of options", device);
    for (const auto& [key, choice] : choices.items()) {
      STRATA_ASSIGN_OR_RETURN(const std::string text, scalar_text(choice));
      settings.device_options.push_back(fmt::format("{}:{}={}", device, option_name(key), text));
    }
  }
  return {};
}

// "gpu": 0 or [0, 1], of "backend".
Status read_gpus(const Json& backend, const Json& gpus, Settings& settings) {
  if (!backend.is_string()) {
    return invalid_argument("\"gpu\" needs \"backend\": \"cuda\", \"hip\" or \"emu\"");
  }
  std::string list;
  for (const Json& gpu : gpus.is_array() ? gpus : Json::array({gpus})) {
    STRATA_ASSIGN_OR_RETURN(const std::string target, scalar_text(gpu));
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", backend.get<std::string>(), target);
  }
  STRATA_ASSIGN_OR_RETURN(settings.engine.devices, backend::parse_device_list(list));
  return {};
}

}  // namespace

Status read_config_file(const std::string& path, CommandId id, Settings& settings) {
  STRATA_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  Json config;
  // Of the objects around the place that is read: of two values of one key the last would win, unseen.
  std::vector<std::set<std::string>> seen;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key && twice.empty()) {
      const std::string key = parsed.get<std::string>();
      if (!seen.back().insert(option_name(key)).second) twice = key;
    }
    return true;
  };
  try {
    config = Json::parse(text, watch, true, true);
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    return invalid_argument("{}: this is not JSON from line {} on", path,
                            1 + std::count(text.begin(), end, '\n'));
  }
  if (!config.is_object()) {
    return invalid_argument("{}: this is not a JSON object; write {{\"option\": value, ...}}",
                            path);
  }
  if (!twice.empty()) {
    return invalid_argument("{}: \"{}\" is there twice; keep one of them", path, twice);
  }
  for (const auto& [key, value] : config.items()) {
    const std::string name = option_name(key);
    Status status;
    if (name == "config" || name == "help") {
      status = invalid_argument("this belongs on the command line; leave it out here");
    } else if (name == "model") {
      auto model = scalar_text(value);
      status = model.status();
      if (model.ok()) settings.model = std::move(*model);
    } else if (name == "device-options") {
      status = read_device_options(value, settings);
    } else if (name == "gpu") {
      status = read_gpus(config.value("backend", Json()), value, settings);
    } else if (name == "backend") {
      if (!config.contains("gpu")) {
        status = invalid_argument("needs \"gpu\" beside it; or write \"devices\": \"hip:0\"");
      }
    } else if (const OptionSpec* row = find_option(name, in(id))) {
      status = set_values(*row, value, settings);
    } else if (find_option(name, ~CommandSet{0}) == nullptr) {
      std::vector<std::string_view> names;
      for (const OptionSpec& known : options()) {
        names.push_back(known.long_name().substr(known.is_positional() ? 0 : 2));
      }
      const auto near = nearest(name, names);
      return invalid_argument("{}: there is no option \"{}\"{}", path, key,
                              near ? fmt::format("; did you mean \"{}\"?", *near) : "");
    }
    if (!status.ok()) return status.with_context(fmt::format("{}: \"{}\"", path, key));
  }
  return {};
}

}  // namespace strata::apps
