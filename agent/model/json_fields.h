// JSON objects from structs and structs from JSON objects, by their lists of fields
// (agent/model/field_list.h). The names are written in the order of the list. Pure.
//
// nlohmann's own macros do not serve here: those of 3.11 sort the names.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "agent/model/field_list.h"

namespace dlaunch::agent {

using Json = nlohmann::ordered_json;

class JsonWriter {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    object_[name] = json_of(value);
  }
  template <class T>
  void required(const char* name, const T& value) {
    (*this)(name, value);
  }

  template <class T>
  static Json json_of(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      JsonWriter writer;
      fields(writer, value);
      return std::move(writer.object_);
    }
  }
  template <class T>
  static Json json_of(const std::vector<T>& items) {
    Json array = Json::array();
    for (const T& item : items) array.push_back(json_of(item));
    return array;
  }

 private:
  Json object_ = Json::object();
};

// Leaves the fields that are missing or of another type as they are.
class JsonReader {
 public:
  explicit JsonReader(const Json& object) : object_(object) {}

  template <class T>
  void operator()(const char* name, T& value) {
    if (const auto found = object_.find(name); found != object_.end()) fits_ = read(*found, value) && fits_;
  }
  template <class T>
  void required(const char* name, T& value) {
    if (!object_.contains(name)) fits_ = false;
    (*this)(name, value);
  }

  // Every field that was there had its type, and none that is required was missing.
  [[nodiscard]] bool fits() const { return fits_; }

  // Returns fits().
  template <class T>
  static bool read(const Json& json, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (json.is_string()) value = json.get_ref<const std::string&>();
      return json.is_string();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (json.is_boolean()) value = json.get<bool>();
      return json.is_boolean();
    } else if constexpr (std::is_arithmetic_v<T>) {
      if (json.is_number()) value = json.get<T>();
      return json.is_number();
    } else {
      if (!json.is_object()) return false;
      JsonReader reader(json);
      fields(reader, value);
      return reader.fits();
    }
  }
  // Items of another type are left out; of an object, the fields that fit are taken.
  template <class T>
  static bool read(const Json& json, std::vector<T>& items) {
    if (!json.is_array()) return false;
    bool fits = true;
    for (const Json& item : json) {
      T value{};
      const bool item_fits = read(item, value);
      fits = item_fits && fits;
      if (item_fits || item.is_object()) items.push_back(std::move(value));
    }
    return fits;
  }

 private:
  const Json& object_;
  bool fits_ = true;
};

// A program's arguments and a host's name may be any bytes; JSON may not.
inline std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dlaunch::agent
